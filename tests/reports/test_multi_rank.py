"""Public trouble reports: several ranks on one node."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.policy.cost import Profile
from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.report import sentence
from tests import recorded
from tests.values import GIB, answer, machine


def test_c15_llamafactory_2424_the_time_is_told_beforehand() -> None:
    """2.97 million rows at 155 a second are 5.3 hours in this process, which the answer says.

    Reported as hiyouga/LlamaFactory#2424.

    Whether that is longer than the other ranks wait is the caller's to know: a count for the rank that maps takes the
    predicted time down, and both times stand in the reason.
    """
    rows, second = 2_969_526, 1 / 155
    decision = answer(None, machine(host=32, affinity=32), rows=rows, profile=Profile(second, second))
    (cost,) = [reason for reason in decision.reasons if reason.code is ReasonCode.COST]
    assert cost.seen["seconds_in_process"] == pytest.approx(5.32 * 3600, rel=0.01)
    assert decision.workers == 32
    assert cost.seen["seconds_with_workers"] < 1800 < cost.seen["seconds_in_process"]
    assert f"{cost.seen['seconds_in_process']:g}" in sentence(cost)


@pytest.mark.parametrize(("ranks", "workers"), [(1, 8), (8, 2), (16, 0)])
def test_c18_automodel_3045_each_rank_takes_its_share(tmp_path: Path, ranks: int, workers: int) -> None:
    """16 processors for 8 ranks are 2 workers each, and for 16 ranks none (NVIDIA-NeMo/Automodel#3045)."""
    environ = {"LOCAL_WORLD_SIZE": str(ranks), "LOCAL_RANK": "0"}
    snapshot = take_snapshot(recorded.write(tmp_path, {}, cpus=16, environ=environ))
    assert snapshot.process.local_world_size == ranks
    assert answer(None, snapshot).workers == workers


def test_c18_automodel_3045_every_rank_gives_the_same_answer(tmp_path: Path) -> None:
    """The rank itself changes nothing: all ranks of a node get one count, so that one's cache is every other's."""
    counts = set()
    for rank in range(8):
        environ = {"LOCAL_WORLD_SIZE": "8", "LOCAL_RANK": str(rank)}
        snapshot = take_snapshot(recorded.write(tmp_path / str(rank), {}, cpus=64, environ=environ))
        assert snapshot.process.local_rank == rank
        counts.add(answer(None, snapshot).workers)
    assert counts == {4}


def test_memory_is_shared_between_ranks() -> None:
    """The memory of a node is divided like its processors: 8 ranks with 32 GiB free have 2 workers each."""
    node = machine(available=32 * GIB, local_world_size=8)
    assert answer(None, node).workers == answer(32, node).workers == 2

"""Public trouble reports: shared memory, process counts, socket paths."""

from __future__ import annotations

import pytest

from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.findings import findings
from dataset_num_proc.policy.request import Settings
from tests.values import MIB, answer, limits, machine


def test_c75_pytorch_5040_docker_gives_little_shared_memory() -> None:
    """64 MiB of /dev/shm are found, with the option that mends it, and do not bound a map (pytorch/pytorch#5040)."""
    docker = machine(shm_free=64 * MIB)
    (finding,) = findings(docker, Settings(), {})
    assert (finding.code, "64 MiB" in finding.text, "--shm-size" in finding.next) == ("small-shm", True, True)
    assert answer(None, docker).workers == answer(None).workers == 8


@pytest.mark.parametrize(("threads", "limit"), [(64, 2), (1, 94), (0, 188)])
def test_c77_detectron2_3900_threads_count_as_processes(threads: int, limit: int) -> None:
    """196 more tasks are two workers of 65 threads, or 94 of one thread and itself (facebookresearch/detectron2#3900).

    The report's figures are 3 and 98; here the pool's own eight tasks are taken off first.
    """
    snapshot = machine(pids_free=4096 - 3900)
    decision = answer(1000, snapshot, threads_per_worker=threads)
    assert limits(decision)[ReasonCode.PIDS] == limit
    assert (decision.workers, decision.binding.code) == (limit, ReasonCode.PIDS)
    assert answer(None, snapshot, threads_per_worker=1).workers == 8


def test_c90_law_184_a_long_temporary_folder() -> None:
    """A folder of 110 characters for temporary files is found beforehand, and the count is unchanged (riga/law#184)."""
    environ = {"TMPDIR": "/" + "scratch" * 16}
    (finding,) = findings(machine(), Settings(), environ)
    assert finding.code == "long-tmpdir"
    assert str(len(environ["TMPDIR"])) in finding.text
    assert answer(None).workers == 8

"""Public trouble reports: what `None`, 0, 1 and more mean, and what a count is worth."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import dataset_num_proc as dnp
from dataset_num_proc.policy.cost import Profile
from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.encoding import encode
from dataset_num_proc.policy.facts import MainModule
from dataset_num_proc.report import sentence
from tests.capabilities import needs_datasets
from tests.values import answer, limits, machine


def with_pid(_row: dict[str, int]) -> dict[str, int]:
    """The process that maps this row."""
    return {"pid": os.getpid()}


@needs_datasets
@pytest.mark.parametrize(("value", "pools"), [(0, 0), (1, 0), (2, 2)])
def test_c45_datasets_7700_off_is_none(tmp_path: Path, value: int, pools: int) -> None:
    """0 and 1 run in this process, 2 in two others, on whatever release is installed (huggingface/datasets#7700)."""
    from datasets import Dataset

    rows = Dataset.from_dict({"a": list(range(4))}, split="train")
    rows.save_to_disk(tmp_path / "rows")
    count = dnp.num_proc(
        value, snapshot=machine(datasets=dnp.take_snapshot().libraries.datasets), settings=dnp.Settings()
    )
    mapped = Dataset.load_from_disk(tmp_path / "rows").map(with_pid, num_proc=count)
    pids = set(mapped["pid"])
    assert len(pids - {os.getpid()}) == pools
    assert (os.getpid() in pids) == (pools == 0)


@pytest.mark.parametrize("release", ["2.14.0", "3.4.1", "4.0.0", "4.1.0", "5.2.0"])
def test_c45_datasets_7700_one_is_never_handed_out(release: str) -> None:
    """No release is handed 1, which is a forked worker from 4.1 on, or 0, which is an error before it.

    Reported as huggingface/datasets#7700.
    """
    for asked in (None, 0, 1, 2, 3):
        for free in (1, 3, 5, 1000):
            word = encode(answer(asked, machine(datasets=release, available=free << 30)))
            assert word is None or word >= 2


def test_c46_verifiers_1256_cheap_rows_are_not_worth_a_pool() -> None:
    """4,578 rows of 20 µs stay in this process, a million of 2 ms get 8 workers on 8 cpus.

    Reported as PrimeIntellect-ai/verifiers#1256.

    The estimate that decided it stands in the reason.
    """
    eight = machine(host=8, affinity=8)
    cheap = answer(None, eight, rows=4578, profile=Profile(20e-6, 20e-6))
    assert (cheap.workers, cheap.binding.code) == (0, ReasonCode.COST)
    assert cheap.binding.seen["seconds_in_process"] == pytest.approx(0.092, abs=1e-3)
    assert "0.09 s in process" in sentence(cheap.binding)
    assert answer(None, eight, rows=1_000_000, profile=Profile(2e-3, 2e-3)).workers == 8


def test_c47_unsloth_4336_a_count_that_was_asked_for_is_kept() -> None:
    """48 asked for on 192 cpus are 48, under spawn too, and stay the caller's own word (unslothai/unsloth#4336).

    Only what cannot work refuses it, and says so.
    """
    large = machine("spawn", host=192, affinity=192, main=MainModule.FILE)
    decision = answer(48, large)
    assert (decision.workers, decision.binding.code, decision.reduced) == (48, ReasonCode.ASKED, False)
    unguarded = machine("spawn", host=192, main=MainModule.UNGUARDED, main_file="train.py", main_line=9)
    assert answer(48, unguarded).reduced
    assert answer(48, machine(host=192, daemonic={"multiprocess": True})).reduced


@pytest.mark.parametrize(("rows", "asked", "workers"), [(0, 8, 0), (1, 8, 0), (3, 8, 3), (3, None, 0), (0, None, 0)])
def test_c58_datasets_2470_never_more_workers_than_rows(rows: int, asked: int | None, workers: int) -> None:
    """No rows and one row are no workers, three are three at most (huggingface/datasets#2470).

    Without it `datasets` lowers the count itself, and for one row to 1, which is a worker.
    """
    decision = answer(asked, machine(host=8, affinity=8), rows=rows)
    assert decision.workers == workers
    assert limits(decision)[ReasonCode.ROWS] == (workers if rows > 1 else 0)

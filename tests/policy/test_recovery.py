"""What comes after a death: fewer workers where memory was short, nothing where anything else was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataset_num_proc.policy.autopsy import Death, Evidence, Verdict
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.recovery import Step, Try, next_step
from dataset_num_proc.policy.request import Settings
from tests.values import GIB, machine

NORMAL = Settings()


def after(*tries: Try, available: int | None = 64 * GIB, settings: Settings = NORMAL, **options: Any) -> int | None:  # noqa: ANN401
    """The workers of the next try, on a machine with that much memory."""
    return next_step(tries, room(available), settings, **options).workers


def room(available: int | None, **facts: Any) -> Snapshot:  # noqa: ANN401
    """A machine with that much memory."""
    return machine(available=available, **facts)


def out_of_memory(workers: int, peak: int | None = GIB) -> Try:
    """A try that the kernel ended for memory."""
    return Try(workers, Verdict.OUT_OF_MEMORY, by_kill=True, peak_bytes=peak)


@pytest.mark.parametrize("verdict", Verdict)
def test_only_memory_is_retried(verdict: Verdict) -> None:
    """A crash is never tried again, whatever is asked; SIGKILL without a sign of the kernel only where it is asked."""
    one = Try(8, verdict, by_kill=True, peak_bytes=GIB)
    retried = verdict is Verdict.OUT_OF_MEMORY
    assert after(one) == (4 if retried else None)
    assert after(one, retry_killed=True) == (4 if retried or verdict is Verdict.KILLED else None)
    assert next_step([one], room(64 * GIB), NORMAL).for_memory is retried


def test_an_allocation_that_aborts_is_not_retried() -> None:
    """An abort for memory under a limit of each process is not helped by fewer of them, and would abort the parent."""
    aborted = Evidence(deaths=(Death(7, -6, error="memory allocation of 9 bytes failed"),), peak_bytes=GIB)
    one = Try.of(8, Verdict.OUT_OF_MEMORY, aborted)
    assert not one.by_kill
    assert after(one) is None


def test_evidence_gives_the_largest_peak() -> None:
    """The peak of a try is the most that any of its workers held, dead or alive; of none, it is not known."""
    deaths = (Death(7, -9, peak_bytes=3), Death(8, -9, peak_bytes=5))
    assert Try.of(4, Verdict.OUT_OF_MEMORY, Evidence(deaths, peak_bytes=4)) == out_of_memory(4, 5)
    assert Try.of(4, Verdict.OUT_OF_MEMORY, Evidence(deaths[:1], peak_bytes=6)) == out_of_memory(4, 6)
    assert Try.of(4, Verdict.OUT_OF_MEMORY, Evidence((Death(7, -9),))) == out_of_memory(4, None)


@pytest.mark.parametrize(
    ("workers", "available", "expected"),
    [(16, 64 * GIB, 8), (16, 5 * GIB, 5), (16, 2 * GIB, 2), (5, 64 * GIB, 3), (3, 64 * GIB, 2), (2, 64 * GIB, 0)],
)
def test_sized_by_the_peak(workers: int, available: int, expected: int) -> None:
    """As many workers as peaks go into what is available, at most half as many as before, and in this process last."""
    assert after(out_of_memory(workers), available=available) == expected


@pytest.mark.parametrize(("available", "expected"), [(2 * GIB, 0), (2 * GIB - 1, None), (GIB, None), (0, None)])
def test_in_this_process_only_with_room_to_spare(available: int, expected: int | None) -> None:
    """In this process a peak has to fit into the share of the memory that workers may take."""
    assert after(out_of_memory(2), available=available) == expected


def test_the_share_is_the_operators() -> None:
    """Who lets workers take all of the memory lets the last try take it too."""
    assert after(out_of_memory(2), available=GIB, settings=Settings(memory_share=1.0)) == 0


def test_what_is_not_known_never_comes_into_this_process() -> None:
    """Without a peak, or without a figure for the memory, the count is halved, and two workers are the last try."""
    for peak, available in ((None, 64 * GIB), (GIB, None), (None, None)):
        assert after(out_of_memory(8, peak), available=available) == 4
        assert after(out_of_memory(2, peak), available=available) is None


def test_a_bound_stands_in_for_a_peak_that_nobody_saw() -> None:
    """A worker that died before anybody looked is no reason to give up, where it cannot have been large."""
    killed = Try(2, Verdict.OUT_OF_MEMORY, peak_at_most=GIB)
    assert after(killed, available=2 * GIB) == 0
    assert after(killed, available=2 * GIB - 1) is None
    assert after(replace(killed, workers=8), available=2 * GIB) == 4
    assert after(replace(killed, peak_bytes=2 * GIB), available=3 * GIB) is None


def test_every_peak_counts() -> None:
    """A worker that was killed early in a later try does not make the work look smaller than it was."""
    tries = [out_of_memory(8, 4 * GIB), out_of_memory(4, GIB)]
    assert next_step(tries, room(7 * GIB), NORMAL) == Step(None, True, 4 * GIB, 7 * GIB)  # noqa: FBT003 - a field
    assert after(*tries, available=8 * GIB) == 2


def test_ranks_share_the_memory() -> None:
    """Every rank of the node may be doing the same at the same moment."""
    step = next_step([out_of_memory(8)], room(8 * GIB, local_world_size=4), NORMAL)
    assert (step.workers, step.available) == (2, 2 * GIB)


def test_recovery_goes_below_an_override() -> None:
    """The operator's count was tried, and does not fit."""
    assert after(out_of_memory(16), settings=Settings(override=16)) == 8


def test_nothing_comes_after_this_process() -> None:
    """There is nothing below "in this process"."""
    assert after(out_of_memory(0)) is None


@given(
    workers=st.integers(2, 512),
    peaks=st.lists(st.none() | st.integers(1, 4 * GIB), min_size=12, max_size=12),
    available=st.none() | st.integers(0, 512 * GIB),
)
def test_it_ends(workers: int, peaks: list[int | None], available: int | None) -> None:
    """Each try has fewer workers, never one, and there are at most ten from 512 on."""
    tries = []
    for peak in peaks:
        tries.append(out_of_memory(workers, peak))
        step = next_step(tries, room(available), NORMAL)
        if not step.workers:
            break
        assert 2 <= step.workers < workers
        workers = step.workers
    assert not step.workers
    assert len(tries) <= 10

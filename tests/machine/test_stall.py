"""Workers that do nothing, and workers that only look so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import needs_datasets, needs_linux, needs_polars
from tests.scripts import run

PROGRAM = Path(__file__).parent / "stall_program.py"
STUCK = ("lock", "threads", "handler", "import", "stopped")
BUSY = ("writing", "computing", "elsewhere")
SLOW = 1.5  # the time-out in seconds: the slow cases are quiet for less, and take longer in all
SECONDS_TO_BE_NAMED = 5

# A program runs five cases: on a busy machine they take longer than a test of one has.
pytestmark = [needs_linux, needs_datasets, pytest.mark.timeout(150)]


def outcomes(folder: Path, *cases: str) -> dict[str, Any]:
    """What came of each case; after none is anything left running, or the signal for stacks another's."""
    said: dict[str, Any] = run(PROGRAM, folder, str(SLOW), *cases, seconds=140).json()
    assert {case: (one["left"], one["same"]) for case, one in said.items()} == dict.fromkeys(cases, ([], True))
    return said


def named(outcome: dict[str, Any]) -> str:
    """What is said of workers that are stuck, in time."""
    kind, verdict, text = outcome["said"]
    assert (kind, verdict) == ("WorkerStalled", "stalled")
    assert outcome["seconds"] < SLOW + SECONDS_TO_BE_NAMED
    return str(text)


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of the cases in which workers are stuck."""
    return outcomes(tmp_path_factory.mktemp("stuck"), *STUCK)


def test_a_lock_that_was_held_at_the_fork(stuck: dict[str, Any]) -> None:
    """It is never given back in the workers: they are named with the line that waits (C06)."""
    assert "in locked" in named(stuck["lock"])


def test_threads_that_were_there_before_the_fork(stuck: dict[str, Any]) -> None:
    """A library that gives its work to threads of its own waits for them in the workers, which have none (C10)."""
    assert "waiting: File" in named(stuck["threads"])


@needs_polars
def test_polars_that_was_used_before_the_fork(tmp_path: Path) -> None:
    """The same by polars itself, and it is named."""
    (outcome,) = outcomes(tmp_path, "polars").values()
    assert "polars" in named(outcome)


def test_a_handler_that_swallows_sigterm(stuck: dict[str, Any]) -> None:
    """Workers that are stuck and do not end by SIGTERM either are named as soon (C49)."""
    assert "in locked" in named(stuck["handler"])


def test_a_map_at_import_time(stuck: dict[str, Any]) -> None:
    """The module is named, and where the call belongs; the thread that waits for the import is not waited for (C14)."""
    assert "move the map under a function: it runs while maps_at_import is imported" in named(stuck["import"])


def test_a_worker_that_is_stopped(stuck: dict[str, Any]) -> None:
    """It is told from one that waits, and is ended although it cannot take SIGTERM."""
    assert "stopped by a signal" in named(stuck["stopped"])


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of the cases in which workers are slow."""
    return outcomes(tmp_path_factory.mktemp("busy"), *BUSY)


@pytest.mark.parametrize("case", BUSY)
def test_a_slow_worker_is_not_stuck(busy: dict[str, Any], case: str) -> None:
    """Neither one that writes now and then, nor one that computes, in itself or in a program that it started.

    A minute of slow writing: `stall_program.py FOLDER 20 writing`.
    """
    assert busy[case]["said"] is None
    assert busy[case]["seconds"] > SLOW

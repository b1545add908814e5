"""A watch over real pools that really die: exit statuses, verdicts, no endless wait, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import needs_datasets, needs_linux
from tests.scripts import run

PROGRAM = Path(__file__).parent / "watch_program.py"
DEATHS = [
    ("SIGKILL", "killed", -9),
    ("SIGSEGV", "segfault", -11),
    ("SIGBUS", "bus-error", -7),
    ("SIGABRT", "aborted", -6),
    ("SIGTERM", "signalled", -15),
    ("_exit0", "exited", 0),
    ("_exit3", "exited", 3),
    ("exit4", "exited", 4),
]

pytestmark = [needs_linux, needs_datasets]


def outcome(case: str, method: str = "fork", workers: int = 2) -> dict[str, Any]:
    """What comes out of a case; whatever it is, nothing is left running and nothing is changed."""
    said: dict[str, Any] = run(PROGRAM, case, method, str(workers)).json()
    assert said["left"] == []
    assert said["same"] is True
    return said


@pytest.mark.parametrize(("how", "verdict", "code"), DEATHS)
def test_how_a_worker_died(how: str, verdict: str, code: int) -> None:
    """The first death's status is known, with its shard and rows, whatever the pool did to the others."""
    said = outcome(f"map:{how}")
    assert (said["type"], said["verdict"]) == ("WorkerDied", verdict)
    assert said["first"] == ["worker", code, 0, [0, 20]]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize(("how", "verdict", "code"), [DEATHS[1], DEATHS[5]])
def test_a_death_in_a_fresh_interpreter(method: str, how: str, verdict: str, code: int) -> None:
    """The same under the other start methods."""
    said = outcome(f"map:{how}", method)
    assert (said["verdict"], said["first"][1]) == (verdict, code)


@pytest.mark.parametrize("case", ["filter:SIGKILL", "dict:SIGKILL"])
@pytest.mark.parametrize("workers", [2, 4])
def test_other_calls_that_map(case: str, workers: int) -> None:
    """`filter` and a data set of several splits go through the same pools."""
    said = outcome(case, workers=workers)
    assert (said["verdict"], said["first"][1]) == ("killed", -9)


@pytest.mark.parametrize("case", ["map:none", "slow", "dict:none"])
def test_no_death_where_there_is_none(case: str) -> None:
    """A run in which nobody dies raises nothing."""
    assert outcome(case)["type"] == "NoneType"


@pytest.mark.parametrize(
    ("case", "verdict"), [("idle", "killed"), ("receiving", "killed"), ("export", "killed"), ("queued", "killed")]
)
def test_no_wait_without_end(case: str, verdict: str) -> None:
    """Where a stock pool waits for ever, or gives a FileNotFoundError for the death, the death comes out."""
    said = outcome(case)
    assert (said["type"], said["verdict"], said["first"][1]) == ("WorkerDied", verdict, -9)


def test_an_exception_that_does_not_unpickle() -> None:
    """It comes as a RuntimeError with its type and text, where a stock pool waits for ever."""
    said = outcome("map:OneWay")
    assert said["type"] == "RuntimeError"
    assert "OneWay: odd" in said["text"]


def test_an_empty_memory_error_says_where() -> None:
    """It stays a MemoryError, and names worker, shard and rows."""
    said = outcome("map:MemoryError")
    assert said["type"] == "MemoryError"
    assert "shard 0, rows 7 to 19" in said["text"]


@pytest.mark.parametrize(("case", "code"), [("dead-manager", -9), ("ended-manager", -15)])
def test_a_dead_manager_is_named(case: str, code: int) -> None:
    """In the place of a broken pipe, an empty EOFError or a reset connection."""
    said = outcome(case)
    assert (said["verdict"], said["first"][:2]) == ("manager-died", ["manager", code])


def test_ctrl_c_is_a_keyboard_interrupt() -> None:
    """Although workers end of it too, and a result that nobody waited for times out."""
    assert outcome("interrupted")["type"] == "KeyboardInterrupt"


def test_the_first_exception_is_raised_when_it_happens() -> None:
    """Not when all other shards are done: those would have taken longer than the program has."""
    said = outcome("early")
    assert (said["type"], said["text"]) == ("ValueError", "early")


def test_an_exception_is_not_lost_behind_a_later_death() -> None:
    """What came first is raised."""
    said = outcome("then-die")
    assert (said["type"], said["text"]) == ("ValueError", "first")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_function_that_does_not_arrive(method: str) -> None:
    """The child's own error is quoted."""
    said = outcome("ghost", method)
    assert (said["type"], said["verdict"]) == ("WorkerStartFailed", "import-failed")
    assert "No module named 'ghost'" in said["text"]


def test_a_process_that_cannot_be_forked() -> None:
    """The machine's own word is quoted."""
    said = outcome("refused")
    assert (said["type"], said["verdict"]) == ("WorkerStartFailed", "start-failed")
    assert "Resource temporarily unavailable" in said["text"]


def test_what_does_not_pickle_is_named() -> None:
    """The error of the pickler keeps its type and says which part of the function it is about."""
    said = outcome("unpicklable")
    assert said["type"] == "TypeError"
    assert "fn.tokenizer.state" in said["text"]


def test_a_pool_of_ones_own_is_left_alone() -> None:
    """Tasks fail one by one, spent workers are replaced, and an exception of the block passes as it is."""
    said = outcome("own-pool")
    assert (said["type"], said["text"]) == ("KeyError", "'own'")

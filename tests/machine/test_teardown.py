"""Workers that will not end when their rows are finished: nobody waits for them, and the rows are kept."""

from __future__ import annotations

import os
from typing import Any

import pytest

from dataset_num_proc.machine import teardown
from dataset_num_proc.machine.members import Member
from tests.capabilities import needs_datasets, needs_linux
from tests.scripts import run

PROGRAM = """
import json, signal, sys, threading, time, warnings
import datasets, multiprocess
from tests.left_running import left_running
import dataset_num_proc as dnp
datasets.disable_progress_bars()

def plain(row):
    return {"y": row["x"]}

def linger(number):
    threading.Thread(target=time.sleep, args=(600,)).start()
    return number

def lingering(row):
    return {"y": linger(row["x"])}

def mapped(function=plain):
    return datasets.Dataset.from_dict({"x": list(range(8))}).map(function, num_proc=2)["y"][:]

def swallowed():
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    return mapped(lingering)

def joined():
    with multiprocess.get_context("fork").Pool(2) as pool:
        rows = pool.map(linger, range(8), 1)
        pool.close()
        pool.join()
    return rows

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", dnp.StuckInTeardown)
    with dnp.watch(stall_timeout=1.5):
        rows = globals()[sys.argv[1]]()
said = [str(item.message) for item in caught if item.category is dnp.StuckInTeardown]
print(json.dumps([rows, said, left_running()]))
"""

pytestmark = [needs_linux, needs_datasets]


def outcome(name: str) -> list[str]:
    """What is warned of; the rows are whole, and nothing is left running."""
    rows, said, left = run("-c", PROGRAM, name).json()
    assert (rows, left) == (list(range(8)), [])
    return list(said)


def test_workers_that_end() -> None:
    """Nothing is said of those that end when told to."""
    assert outcome("mapped") == []


@pytest.mark.parametrize("name", ["swallowed", "joined"])
def test_workers_that_do_not_end(name: str) -> None:
    """A thread goes on, and SIGTERM is swallowed or not sent: they are killed, and a warning says where each was."""
    (text,) = outcome(name)
    assert text.startswith("Stuck in teardown: all results are there, but 2 workers did not end when told to")
    assert "waiting: File" in text
    assert "in _shutdown" in text


class Unending:
    """A process that waits in the kernel: no signal ends it."""

    pid, exitcode = os.getpid(), None

    def __init__(self) -> None:
        self.got: list[str] = []

    def terminate(self) -> None:
        """To no end."""
        self.got.append("SIGTERM")

    def kill(self) -> None:
        """Likewise."""
        self.got.append("SIGKILL")

    def join(self, timeout: float | None = None) -> None:
        """Comes back although it has not ended, as it does with a time-out alone."""
        assert timeout is not None

    def is_alive(self) -> bool:
        """For ever."""
        return True


def test_what_nothing_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker in the grip of a dead disk outlives SIGKILL; the caller does not wait for it."""
    monkeypatch.setattr(teardown, "_SECONDS_FOR_SIGTERM", 0.0)
    monkeypatch.setattr(teardown, "_SECONDS_FOR_SIGKILL", 0.0)
    process: Any = Unending()
    member = Member(process, "")
    told: list[Member] = []
    teardown.end_workers([member], told.extend)
    assert process.got == ["SIGTERM", "SIGKILL"]
    assert told == [member]
    assert member.code is None

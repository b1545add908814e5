"""What workers do with a row: die, raise, or take their time.

One job: functions for `datasets`, in a module that a fresh interpreter can import.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dying.cells import mark, marked, working

ROWS = 40
FATAL_ROW = 7
SECONDS_A_ROW = 0.3
"""A shard of these rows takes longer than a death may take to come out, so that nobody may wait for it."""

SHARDS = 4
CHUNK = 4 << 20
HELD = 132 << 20
"""Bytes that a worker holds at once: of 512 MiB, two workers' fit and four's do not, with what each has of its own."""


class OneWay(Exception):  # noqa: N818 - what it cannot do
    """Pickles, and does not unpickle: its `__init__` takes what its `args` do not hold."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def end(how: str, folder: str) -> None:
    """Ends this process, or its work, in the way that `how` says."""
    mark(folder)
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
    if how.startswith("_exit"):
        os._exit(int(how[5:]))
    if how.startswith("exit"):
        sys.exit(int(how[4:]))
    raise {"memory": MemoryError(), "exception": ValueError("a row"), "one-way": OneWay("odd", 5)}[how]


def mapped(row: dict[str, Any], index: int, how: str, folder: str) -> dict[str, int]:
    """Ends at one row; the rows after it are slow."""
    del row
    working(folder)
    if how == "none":
        return {"y": index}
    if index == FATAL_ROW and how != "manager":
        end(how, folder)
    if index > FATAL_ROW:
        time.sleep(SECONDS_A_ROW)
    return {"y": index}


def kept(row: dict[str, Any], index: int, how: str, folder: str) -> bool:
    """The same, as a condition."""
    return bool(mapped(row, index, how, folder))


def slow(row: dict[str, Any], index: int, folder: str) -> dict[str, int]:
    """Takes its time."""
    del row
    working(folder)
    time.sleep(SECONDS_A_ROW)
    return {"y": index}


def lopsided(row: dict[str, Any], index: int, folder: str) -> dict[str, int]:
    """The second shard is done at once and says whose it was; the first takes its time."""
    del row
    if index == ROWS - 1:
        Path(folder, "idle").write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(SECONDS_A_ROW if index < ROWS // 2 else 0)
    return {"y": index}


def then_killed(row: dict[str, Any], index: int, folder: str) -> dict[str, int]:
    """Raises in the first shard; a little later the worker of the second is killed."""
    del row
    if index == 0:
        end("exception", folder)
    if index >= ROWS // 2:
        while not marked(folder):
            time.sleep(0.01)
        time.sleep(SECONDS_A_ROW)  # the exception is on its way through a pipe
        end("SIGKILL", folder)
    return {"y": index}


def shard(rows: int, folder: str) -> Iterator[tuple[int, bool, int]]:
    """A shard in the form that `datasets` has; one of no rows is a worker's death."""
    if not rows:
        time.sleep(SECONDS_A_ROW)
        end("SIGKILL", folder)
    for _ in range(rows):
        working(folder)
        time.sleep(SECONDS_A_ROW)
        yield 0, False, 1


def brief(row: dict[str, Any], index: int) -> dict[str, int]:
    """Takes little time."""
    del row
    time.sleep(0.01)
    return {"y": index}


def segfaults(row: dict[str, Any], index: int, bad: int, folder: str) -> dict[str, int]:
    """Compiled code reads from no address, at one row."""
    del row
    if index == bad:
        mark(folder)
        ctypes.string_at(0)
    return {"y": index}


def grows(row: dict[str, Any], index: int, folder: str) -> dict[str, int]:
    """Takes memory without end, at one row; the rows after it are slow."""
    del row
    block = []
    while index == FATAL_ROW:
        mark(folder)
        block.append(bytearray(b"x") * CHUNK)
    time.sleep(SECONDS_A_ROW if index > FATAL_ROW else 0)
    return {"y": index}


def holds(row: dict[str, Any], index: int, folder: str) -> dict[str, int]:
    """Holds some memory, at the first row of each shard of four; in the first try until all four do, which is never."""
    del row
    if index % (ROWS // SHARDS) == 0:
        begun = Path(folder, f"begun-{index}")
        first = not begun.exists()
        begun.touch()
        block = []
        for _ in range(HELD // CHUNK):
            block.append(bytearray(b"x") * CHUNK)
            time.sleep(0.005)
        Path(folder, f"holds-{index}").touch()
        while first and len(list(Path(folder).glob("holds-*"))) < SHARDS:
            time.sleep(0.01)
    return {"y": index}


def works(row: dict[str, Any], loops: int) -> dict[str, int]:
    """Uses the processor."""
    return {"y": sum(range(loops)) + row["x"]}

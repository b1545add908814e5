"""Encoders and sources that go wrong in the way that they are told.

One job: to be importable by a fresh interpreter, and to note when it happens.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from dying.cells import mark

LARGE = 256 << 20
"""Bytes: a killed writer has sent 64 MB of them on this kind of machine, and not all."""


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> NoReturn:
    message = "a bad row"
    raise ValueError(message)


FAULTS: dict[str, Callable[[], object]] = {
    "kill": _kill,
    "exit": lambda: os._exit(0),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": lambda: time.sleep(1000),
    "raise": _raise,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "none": lambda: None,
}


class Faulty:
    """Encodes a row to itself, until the one where its fault is due.

    Args:
        fault: of `FAULTS`, or "write": killed while it sends a large result.
        at: the row.
        folder: of the cell, for the note.
        size: bytes that each result has besides.
        seconds: that a row takes.
    """

    def __init__(self, fault: str, at: int, folder: str, size: int = 0, seconds: float = 0.0) -> None:
        self.fault, self.at, self.folder, self.size, self.seconds = fault, at, folder, size, seconds

    def __call__(self, row: int) -> Any:  # noqa: ANN401 - a row, perhaps with bytes
        """The row."""
        if self.seconds:
            time.sleep(self.seconds)
        if row == self.at and self.fault == "write":
            threading.Timer(0.05, self._marked, (_kill,)).start()
            return bytes(LARGE)
        if row == self.at:
            self._marked(FAULTS[self.fault])
        return (row, bytes(self.size)) if self.size else row

    def _marked(self, act: Callable[[], object]) -> None:
        if self.fault != "none":
            mark(self.folder)
        act()


def pid_of(row: int) -> int:
    """Who encodes it."""
    del row
    return os.getpid()


class Template:
    """Leaves its model out where it is pickled, and cannot do without."""

    def __init__(self) -> None:
        self.model: dict[str, int] | None = {"plus": 0}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "model": None}

    def encode(self, row: int) -> int:
        """The row, by way of the model."""
        if self.model is None:
            message = "'NoneType' object is not subscriptable"
            raise TypeError(message)
        return row + self.model["plus"]


class Unimportable:
    """Fails where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _plugin, ()

    def __call__(self, row: int) -> int:
        """The row."""
        return row


def _plugin() -> NoReturn:
    message = "No module named 'my_plugin'"
    raise ModuleNotFoundError(message)


class Source:
    """Rows that come slowly, break, or come once."""

    def __init__(self, count: int, *, seconds: float = 0.0, breaks_at: int | None = None, once: bool = False) -> None:
        self.count, self.seconds, self.breaks_at, self.once = count, seconds, breaks_at, once
        self._read = False

    def __iter__(self) -> Iterator[int]:
        if self.once and self._read:
            return
        self._read = True
        for row in range(self.count):
            if row == self.breaks_at:
                message = "the source is gone"
                raise OSError(message)
            if self.seconds:
                time.sleep(self.seconds)
            yield row


def seeded(seed: int) -> random.Random:
    """The choices of one random case."""
    return random.Random(seed)  # noqa: S311 - a test's

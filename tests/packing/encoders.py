"""Encoders that tests send to workers: those that work, and those that end, stop, raise or do not arrive.

One job: to be importable by a fresh interpreter. The faulty ones are well until row `BAD`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

BAD = 20
LARGE = 64 << 20


def encode(row: int) -> dict[str, Any]:
    """What a tokenizer returns, more or less."""
    return {"input_ids": list(range(row % 40)), "row": row}


def pid_of(row: int) -> tuple[int, int]:
    """The row, and who encoded it."""
    return row, os.getpid()


def slow(row: int) -> int:
    """Work that waits."""
    time.sleep(0.02)
    return row


def killed_with_a_child(row: int) -> int:
    """Is killed, and leaves a process that holds copies of all that was open."""
    if row == BAD:
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    return row


class TooLong(Exception):  # noqa: N818 - as ms-swift's MaxLengthError, a wish and no fault
    """The row is not wanted."""


def choosy(row: int) -> int:
    """Skips each tenth row, fails on each seventh."""
    if row % 10 == 3:
        raise TooLong
    if row % 7 == 5:
        message = f"bad row {row}"
        raise ValueError(message)
    return row


def failing(row: int) -> NoReturn:
    """Fails on every row."""
    message = f"bad row {row}"
    raise KeyError(message)


def killed(row: int) -> int:
    """Is killed in the middle of a row."""
    if row == BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def leaving(row: int) -> int:
    """Leaves with a status that says that all is well."""
    if row == BAD:
        os._exit(0)
    return row


def killed_in_a_write(row: int) -> int | bytes:
    """Is killed while it sends a large result: what it sends is far more than a socket takes at once."""
    if row == BAD:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return bytes(4 * LARGE)
    return row


def large(row: int) -> bytes:
    """A result that takes many writes."""
    return bytes([row % 256]) * LARGE


def exiting(row: int) -> int:
    """Says that the program is to end."""
    if row == BAD:
        sys.exit(3)
    return row


class TwoArguments(Exception):  # noqa: N818 - an exception as people write them
    """Pickles, and does not unpickle."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


def odd_error(row: int) -> int:
    """Raises what cannot be had in another process."""
    if row == BAD:
        name = "odd"
        raise TwoArguments(name, "for a reason")
    return row


class Unprintable(Exception):  # noqa: N818 - an exception as people write them
    """Has no text to be had."""

    def __str__(self) -> str:
        message = "no text"
        raise LookupError(message)


def unprintable(row: int) -> int:
    """Raises what cannot even be printed."""
    if row == BAD:
        raise Unprintable
    return row


def odd_result(row: int) -> int | Callable[[], int]:
    """Returns what does not pickle."""
    return (lambda: row) if row == BAD else row


class Bomb:
    """Pickles, and fails where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return failing, ("in unpickling",)


def bomb(row: int) -> int | Bomb:
    """Returns what does not unpickle."""
    return Bomb() if row == BAD else row


def stuck(row: int) -> int:
    """Waits for what does not come."""
    if row == BAD:
        time.sleep(1000)
    return row


def stopped(row: int) -> int:
    """Is stopped by a signal, in the middle of a row."""
    if row == BAD:
        os.kill(os.getpid(), signal.SIGSTOP)
    return row


class Template:
    """An encoder with state, as a chat template is."""

    def __init__(self) -> None:
        self.model: object = object()
        self.prefix = "<s>"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "model": None}

    def encode(self, row: int) -> tuple[int, bool]:
        """The row, and whether the model is here."""
        return row, self.model is not None


class Holding:
    """An encoder that holds something."""

    def __init__(self, held: object) -> None:
        self.held = [0, {"inner": held}]

    def __call__(self, row: int) -> int:
        """The row."""
        return row


class Unimportable:
    """An encoder whose plugin is not there when it is unpickled."""

    def __call__(self, row: int) -> int:
        """The row."""
        return row

    def __reduce__(self) -> tuple[Any, ...]:
        return _plugin, ()


def _plugin() -> NoReturn:
    message = "No module named 'my_plugin'"
    raise ModuleNotFoundError(message)


_mark = "not set"


def set_mark(mark: str) -> None:
    """What an `init` does: changes this process."""
    global _mark  # noqa: PLW0603 - that is what it does
    _mark = mark


class Marked:
    """An encoder that can be unpickled only where `set_mark` was called."""

    def __init__(self) -> None:
        self.mark = _mark

    def __setstate__(self, state: dict[str, Any]) -> None:
        if _mark == "not set":
            message = "the plugin is not loaded"
            raise LookupError(message)
        vars(self).update(state)

    def __call__(self, row: int) -> str:
        """The row, with the mark that this process has."""
        return f"{_mark} {row}"


def seen_in_worker(row: int) -> dict[str, Any]:
    """What a worker looks like from inside."""
    return {
        "row": row,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "tokenizers": os.environ.get("TOKENIZERS_PARALLELISM"),
        "path": os.environ.get("PYTHONPATH"),
        "interrupt": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        "terminate": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
    }

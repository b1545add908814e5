"""Ctrl-C, held back while processes are being started or ended.

One job: to let an interrupt through after a step that must not be left half done. It may not swallow one.

Python raises KeyboardInterrupt between any two instructions of the main thread. In the middle of a pool's start, or of
its end, that leaves workers and a manager which nobody knows; in what Python calls after a fork it is lost altogether.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def postponed() -> Iterator[None]:
    """Has the first Ctrl-C that comes inside handled at the end of the block; a second one goes through at once."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    pid, came = os.getpid(), list[FrameType | None]()

    def keep(number: int, frame: FrameType | None) -> None:
        # A forked child inherits this function, and never comes to the end of the block.
        if came or os.getpid() != pid:
            handler(number, frame)
        came.append(frame)

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, came[0])


def whole(step: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with Ctrl-C postponed to its end."""

    @functools.wraps(step)
    def held(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes on whatever the function takes and gives
        with postponed():
            return step(*args, **kwargs)

    return held

"""One cell: a child process that does one thing, has so many seconds for it, and leaves nothing.

One job: to fork the cell, so that none sees another's state and `datasets` is imported once for all; to end it and all
that it started; and to say what came out and what was left. What the cell does is its caller's.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import psutil

Outcome = dict[str, Any]

SECONDS_TO_END = 2.0
"""In which what a cell left must be gone: the helpers of `multiprocess` end when they notice that their parent did."""

_HELPERS = ("resource_tracker", "forkserver")
_MARK = "mark"
_READY = "ready"
_WORKING = "working"


class Event(NamedTuple):
    """What happens to a cell from outside.

    Attributes:
        after: seconds from the beginning of what it does.
        act: does it, by the cell's pid, which is its process group's too.
    """

    after: float
    act: Callable[[int], object]


def mark(folder: str) -> None:
    """Notes that it happens now, whatever it is; the first note counts."""
    with suppress(FileExistsError), open(f"{folder}/{_MARK}", "x", encoding="utf-8") as file:  # noqa: PTH123 - in a worker
        file.write(str(time.monotonic()))


def marked(folder: str) -> bool:
    """Whether it has happened."""
    return Path(folder, _MARK).exists()


def working(folder: str) -> None:
    """Notes that a worker has begun its work."""
    Path(folder, _WORKING).touch()


def begun(folder: str) -> bool:
    """Whether one has."""
    return Path(folder, _WORKING).exists()


def soon(folder: str, act: Callable[[], bool]) -> None:
    """Has a thread do something as soon as it can be done, which is when `act` is true; and marks it."""

    def wait() -> None:
        while True:
            with suppress(psutil.Error, OSError):
                if act():
                    mark(folder)
                    return
            time.sleep(0.005)

    threading.Thread(target=wait, daemon=True).start()


def outcome_of(act: Callable[[], Outcome | None], folder: str, after: Callable[[], object] | None = None) -> Outcome:
    """What comes out of `act`, what it says itself, how long after the mark, and what still runs then or `after` it."""
    error: BaseException | None = None
    said: Outcome | None = None
    try:
        said = act()
    except BaseException as caught:  # noqa: BLE001 - whatever comes is what is asked for
        error = caught
    now = time.monotonic()
    if after is not None:
        after()
    marked = Path(folder, _MARK)
    return {
        "error": type(error).__name__ if error is not None else None,
        "text": str(error) if error is not None else "",
        "verdict": getattr(getattr(error, "verdict", None), "value", None),
        **_evidence_of(error),
        "seconds": round(now - float(marked.read_text(encoding="utf-8")), 3) if marked.exists() else None,
        "left": [_described(process) for process in _living(os.getpid()) if not _is_helper(process)],
        **(said or {}),
    }


def _evidence_of(error: BaseException | None) -> Outcome:
    """Of the first death, where the error has evidence of one."""
    evidence: Any = getattr(error, "evidence", None)
    if evidence is None or not evidence.deaths:
        return dict.fromkeys(("code", "listed", "role", "rows", "peak", "memory"))
    first = evidence.deaths[0]
    return {
        "code": first.exit_code,
        "listed": getattr(error, "exit_codes", {}).get(first.pid),
        "role": first.role,
        "rows": first.rows,
        "peak": first.peak_bytes,
        "memory": asdict(evidence.memory),
    }


def cell(
    act: Callable[[str], Outcome | None],
    seconds: float,
    event: Event | None = None,
    after: Callable[[], object] | None = None,
) -> Outcome:
    """What comes out of `act`, which gets a folder of its own, in a process of its own.

    Args:
        act: what to do; its exception is the outcome, and what it returns is part of it.
        seconds: after which the cell is ended, with all that it started, and has `hung`.
        event: what happens to it meanwhile.
        after: ends what is not under test and would be left by itself; its time does not count.
    """
    with tempfile.TemporaryDirectory(prefix="dying-") as folder:
        result = Path(folder, "outcome")
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _child(act, folder, result, after)
        with _happening(event, pid, folder):
            status = _wait(pid, seconds)
        settle(pid, SECONDS_TO_END if status is not None else 0.0)
        later = [_described(process) for process in _living(pid)] if status is not None else []
        _kill(pid)
        if status is None:
            os.waitpid(pid, 0)
        out: Outcome = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
        ended = status is not None
        return {"hung": not ended, "lost": ended and not out, "status": status, "later": later, **out}


@contextmanager
def _happening(event: Event | None, pid: int, folder: str) -> Iterator[None]:
    """Has the event happen at its time, unless the cell has ended before."""
    over = threading.Event()

    def wait() -> None:
        while event is not None and not over.wait(0.001):
            if Path(folder, _READY).exists():
                if not over.wait(event.after):
                    mark(folder)
                    event.act(pid)
                return

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _child(act: Callable[[str], Outcome | None], folder: str, result: Path, after: Callable[[], object] | None) -> None:
    """The cell's process: a session of its own, quiet, and with Ctrl-C as at a terminal."""
    status = 1
    try:
        os.setsid()
        os.dup2(2, 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tempfile.tempdir = folder
        Path(folder, _READY).touch()
        out = json.dumps(outcome_of(lambda: act(folder), folder, after))
        result.write_text(out, encoding="utf-8")
        status = 0
    except BaseException:  # noqa: BLE001 - it must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(status)


def _wait(pid: int, seconds: float) -> int | None:
    """The child's exit status, negative for a signal; `None` if it does not end within that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def settle(session: int, seconds: float) -> None:
    """Waits for the end of what a cell has left, for as long at most."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(map(_is_helper, _living(session))):
        time.sleep(0.02)


def _kill(session: int) -> None:
    for process in psutil.process_iter():
        with suppress(OSError):
            if process.pid == session or os.getsid(process.pid) == session:
                os.kill(process.pid, signal.SIGKILL)


def wait_for_others(seconds: float) -> None:
    """In the cell: waits until what it started has ended, but for its helpers; those of its children end after them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(_is_helper(process) for process in _living(os.getpid())):
        time.sleep(0.02)


def _living(session: int) -> Iterator[psutil.Process]:
    """The processes of a cell, besides itself, that have not ended; whoever their parent is by now."""
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session != process.pid and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _is_helper(process: psutil.Process) -> bool:
    """Whether it is a helper of `multiprocess`, which lives as long as its parent; its forks look like it."""
    with suppress(psutil.Error):
        return process.ppid() == os.getpid() and any(name in " ".join(process.cmdline()) for name in _HELPERS)
    return True  # gone by now


def _described(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return f"{process.pid} {process.status()} {' '.join(process.cmdline())[:80]}"
    return f"{process.pid} ended just now"

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
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

Outcome = dict[str, Any]

SECONDS_TO_END = 2.0
"""In which what a cell left must be gone: the helpers of `multiprocess` end when they notice that their parent did."""

_HELPERS = ("resource_tracker", "forkserver")
_MARK = "mark"
_WORKING = "working"


def mark(folder: str) -> None:
    """Notes that it happens now, whatever it is; the first note counts."""
    with suppress(FileExistsError), open(f"{folder}/{_MARK}", "x", encoding="utf-8") as file:  # noqa: PTH123 - in a worker
        file.write(str(time.monotonic()))


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


def outcome_of(act: Callable[[], object], folder: str) -> Outcome:
    """What comes out of `act`, how long after the mark, and what is still running then."""
    error: BaseException | None = None
    try:
        act()
    except BaseException as caught:  # noqa: BLE001 - whatever comes is what is asked for
        error = caught
    now = time.monotonic()
    evidence = getattr(error, "evidence", None)
    first = evidence.deaths[0] if evidence is not None and evidence.deaths else None
    marked = Path(folder, _MARK)
    return {
        "error": type(error).__name__ if error is not None else None,
        "text": str(error) if error is not None else "",
        "verdict": getattr(getattr(error, "verdict", None), "value", None),
        "code": first.exit_code if first is not None else None,
        "listed": getattr(error, "exit_codes", {}).get(first.pid) if first is not None else None,
        "role": first.role if first is not None else None,
        "seconds": round(now - float(marked.read_text(encoding="utf-8")), 3) if marked.exists() else None,
        "left": [_described(process) for process in _living(os.getpid()) if not _is_helper(process)],
    }


def cell(act: Callable[[str], object], seconds: float) -> Outcome:
    """What comes out of `act`, which gets a folder of its own, in a process of its own.

    Args:
        act: what to do; its exception is the outcome.
        seconds: after which the cell is ended, with all that it started, and has `hung`.
    """
    with tempfile.TemporaryDirectory(prefix="dying-") as folder:
        result = Path(folder, "outcome")
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _child(act, folder, result)
        ended = _wait(pid, seconds)
        _gone_within(pid, SECONDS_TO_END if ended else 0.0)
        later = [_described(process) for process in _living(pid)] if ended else []
        _kill(pid)
        if not ended:
            os.waitpid(pid, 0)
        out: Outcome = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
        return {"hung": not ended, "lost": ended and not out, "later": later, **out}


def _child(act: Callable[[str], object], folder: str, result: Path) -> None:
    """The cell's process: a session of its own, quiet, and with Ctrl-C as at a terminal."""
    status = 1
    try:
        os.setsid()
        os.dup2(2, 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tempfile.tempdir = folder
        out = json.dumps(outcome_of(lambda: act(folder), folder))
        result.write_text(out, encoding="utf-8")
        status = 0
    except BaseException:  # noqa: BLE001 - it must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(status)


def _wait(pid: int, seconds: float) -> bool:
    """Whether the child ended within that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return False


def _gone_within(session: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(_living(session)):
        time.sleep(0.02)


def _kill(session: int) -> None:
    for process in psutil.process_iter():
        with suppress(OSError):
            if process.pid == session or os.getsid(process.pid) == session:
                os.kill(process.pid, signal.SIGKILL)


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

"""Programs of this folder, run by an interpreter of one's choice.

One job: to start one under a time-out, to hand back what it says line by line, and to end it and all that it left; and
to count which of the outcomes were right.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent.parent


def lines_of(python: str, module: str, arguments: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
    """What a program prints, each line an object in JSON.

    Args:
        python: the interpreter, whose `datasets` is used.
        module: name of the program, in this folder.
        arguments: its arguments.
        seconds: after which it is killed.

    Raises:
        RuntimeError: it failed, or was killed; the text ends with its last words.
    """
    path = os.pathsep.join(map(str, (SCRIPTS, SCRIPTS.parent)))
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "PYTHONFAULTHANDLER": ""}
    command = [python, "-m", f"dying.{module}", *arguments]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words:
        process = subprocess.Popen(  # noqa: S603 - a program of ours
            command, stdout=subprocess.PIPE, stderr=words, env=variables, text=True, start_new_session=True
        )
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            yield from outcomes(process.stdout or ())
            status = process.wait()
        finally:
            timer.cancel()
            process.kill()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status:
            words.seek(0)
            message = f"{' '.join(command)} ended with {status}:\n{words.read()[-2000:]}"
            raise RuntimeError(message)


def outcomes(lines: Iterable[str]) -> Generator[dict[str, Any], None, list[str]]:
    """The objects among the lines; returns the lines that are none."""
    others = []
    for line in lines:
        if line.startswith("{"):
            yield json.loads(line)
        else:
            others.append(line)
    return others


def right(found: Sequence[dict[str, Any]], fault_of: Callable[[dict[str, Any]], str | None], none: str = "–") -> str:
    """How many of the outcomes have no fault, of how many; `none` where there are none."""
    return f"{sum(fault_of(one) is None for one in found)} / {len(found)}" if found else none

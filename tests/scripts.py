"""Programs that a test starts: an interpreter of its own, with a hard time-out and nothing left behind.

One job: to run one and hand back what it said. What it does stands in the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
SECONDS = 50
"""Less than the time-out of a test, so that the test can say what hung."""


class Finished(NamedTuple):
    """A program that ended, or was ended.

    Attributes:
        status: exit status, `None` where it ran past the time-out and was killed with all that it had started.
        out: its standard output.
        err: its standard error.
    """

    status: int | None
    out: str
    err: str

    def json(self) -> Any:  # noqa: ANN401 - whatever the program says
        """What a program that succeeded printed on its last line."""
        assert self.status == 0, self
        return json.loads(self.out.splitlines()[-1])


def run(
    *arguments: str | Path,
    stdin: str = "",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = SECONDS,
) -> Finished:
    """Python with these arguments, in a process group that is killed when it is over.

    Args:
        *arguments: after the interpreter: `-c`, a script, or "-" for `stdin`.
        stdin: text for its standard input.
        environ: variables besides the inherited ones.
        folder: working directory.
        seconds: the time that it has.
    """
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **(environ or {})}
    # Files, not pipes: a child that is left behind would hold a pipe open, and reading it would wait for the child.
    with (
        tempfile.TemporaryFile("w+") as source,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        source.write(stdin)
        source.seek(0)
        command = [sys.executable, *map(str, arguments)]
        process = subprocess.Popen(
            command, stdin=source, stdout=out, stderr=err, env=variables, cwd=folder, start_new_session=True
        )
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(seconds)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        err.seek(0)
        return Finished(status, out.read(), err.read())

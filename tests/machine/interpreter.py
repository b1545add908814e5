"""Fresh interpreters for tests of what a process looks like from inside.

One job: to run Python with this package on its path. It may not know what is run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).parents[2]


def python(*arguments: str, folder: Path, stdin: str = "") -> str:
    """What a fresh interpreter prints.

    Args:
        *arguments: after the interpreter's name.
        folder: the working directory, which is on the path too.
        stdin: text on its standard input.
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), str(folder)])}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, text=True, env=environ, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

"""Fresh interpreters for tests of what a process looks like from inside.

One job: to run Python with this package on its path. It may not know what is run.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.scripts import ROOT, run


def python(*arguments: str, folder: Path, stdin: str = "") -> str:
    """What a fresh interpreter prints.

    Args:
        *arguments: after the interpreter's name.
        folder: the working directory, which is on the path too.
        stdin: text on its standard input.
    """
    done = run(
        *arguments, stdin=stdin, folder=folder, environ={"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    )
    assert done.status == 0, done
    return done.out.strip()

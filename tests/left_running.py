"""What a program has left running, asked by the program itself before it ends.

One job: to tell a worker that should be gone from the process modules' own helpers, which stay.
"""

from __future__ import annotations

import os

import psutil

_HELPERS = ("resource_tracker", "forkserver")


def left_running() -> list[int]:
    """Pids of all descendants but the helpers.

    A fork server's children have its command line: only a direct child of this program is a helper.
    """
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            helper = process.ppid() == os.getpid() and any(name in " ".join(process.cmdline()) for name in _HELPERS)
        except psutil.NoSuchProcess:  # it ended meanwhile
            continue
        if not helper:
            found.append(process.pid)
    return found

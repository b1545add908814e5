"""Programs of this folder, run on a real kernel with control groups version 2, which is itself a program.

One job: to boot user-mode-linux on this machine's files, with one limited group, and to hand back what a program in it
says. The guest has one processor and is several times slower than its host.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dying.programs import SCRIPTS, outcomes

GROUP = "/sys/fs/cgroup/job"
_END = "STATUS "
# No tmpfs on /tmp: the interpreter, or this folder, may be there.
_INIT = """#!/bin/sh
export PATH={path} PYTHONPATH={search} PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
export TMPDIR=/run HOME=/run
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
# Nothing of the kernel's own goes between the lines.
echo 1 > /proc/sys/kernel/printk
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+memory +cpu +pids" > /sys/fs/cgroup/cgroup.subtree_control
mkdir {group}
echo {limit} > {group}/memory.max
{python} -m dying.{module} {arguments} < /dev/null 2> /run/words
echo "{end}$?"
tail -c 2000 /run/words
echo o > /proc/sysrq-trigger
sleep 5
"""


def present() -> bool:
    """Whether there is such a kernel that runs on this processor, for one who may use it.

    Version 6.1 has no room for the tile registers (AMX) of a process, and dies at its first one.
    """
    tiles = b" amx_tile" in Path("/proc/cpuinfo").read_bytes()
    return shutil.which("linux") is not None and os.geteuid() == 0 and not tiles


def lines_in_guest(
    python: str, module: str, arguments: Sequence[str], *, limit: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """What a program prints there, each line an object in JSON.

    Args:
        python: the interpreter, whose `datasets` is used.
        module: name of the program, in this folder. It may enter `GROUP`.
        arguments: its arguments, words without spaces.
        limit: bytes of memory that `GROUP` may use.
        seconds: after which the kernel is switched off.

    Raises:
        RuntimeError: the program failed or did not end; the text ends with what was printed last.
    """
    with tempfile.TemporaryDirectory(prefix="dying-kernel-") as folder:
        init = Path(folder, "init")
        words = {"path": os.environ["PATH"], "search": f"{SCRIPTS}:{SCRIPTS.parent}", "group": GROUP, "limit": limit}
        words |= {"python": python, "module": module, "arguments": " ".join(arguments), "end": _END}
        init.write_text(_INIT.format(**words), encoding="utf-8")
        init.chmod(0o755)
        command = [
            *("linux", "mem=2G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet"),
            *("con=null", "con0=fd:0,fd:1", f"uml_dir={folder}/uml/"),
        ]
        yield from _said(command, seconds)


def _said(command: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
    with subprocess.Popen(  # noqa: S603 - the program stands above
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as kernel:
        timer = threading.Timer(seconds, os.killpg, (kernel.pid, signal.SIGKILL))
        timer.start()
        try:
            others = yield from outcomes(kernel.stdout or ())
        finally:
            timer.cancel()
            with suppress(ProcessLookupError):
                os.killpg(kernel.pid, signal.SIGKILL)
    if f"{_END}0\n" not in others:
        message = f"the program in the guest failed:\n{''.join(others)[-2000:]}"
        raise RuntimeError(message)

"""Real limits of control groups version 2, on a kernel that runs as a program (user-mode-linux)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities import needs_root, needs_user_mode_linux
from tests.machine.groups import CACHE, CACHE_A_FILE, FACTS, FILE, LEAST_HEADROOM, LIMIT, TAKE

# A kernel is booted, and then runs three interpreters, several times slower than the machine below it.
BOOT_AND_RUN_S = 150

INIT = """#!/bin/sh
export PATH={path} PYTHONPATH={repo} PYTHONDONTWRITEBYTECODE=1 HOME=/nowhere
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+memory +cpu +pids" > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/job
echo {limit} > /sys/fs/cgroup/job/memory.max
inside() {{ sh -c 'echo $$ > /sys/fs/cgroup/job/cgroup.procs; exec "$@"' sh {python} "$@" < /dev/null; }}
# The host's file system forgets a file's pages when the last descriptor of it is closed.
exec 3< {folder}/rows.arrow
inside {folder}/cache_a_file.py {folder}/rows.arrow
echo "USAGE $(cat /sys/fs/cgroup/job/memory.current)"
echo "50000 100000" > /sys/fs/cgroup/job/cpu.max
inside {folder}/facts.py
# The quota was seen; what follows takes twice as long under it.
echo max > /sys/fs/cgroup/job/cpu.max
inside {folder}/take.py
echo "EXIT $?"
grep '^oom_kill ' /sys/fs/cgroup/job/memory.events
echo o > /proc/sysrq-trigger
sleep 5
"""


def boot(init: Path, folder: Path) -> str:
    """What a kernel with that first process prints until it is switched off."""
    command = [
        *("linux", "mem=2G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet"),
        *("con=null", "con0=fd:0,fd:1", f"uml_dir={folder}/uml/"),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as kernel:
        try:
            return kernel.communicate(timeout=BOOT_AND_RUN_S)[0].decode(errors="replace")
        finally:
            if kernel.poll() is None:
                os.killpg(kernel.pid, signal.SIGKILL)


@needs_root
@needs_user_mode_linux
@pytest.mark.timeout(BOOT_AND_RUN_S + 30)
def test_headroom_can_be_had(tmp_path: Path) -> None:
    """In a group full of page cache most of the limit is free, and a process that takes 90 % of it is not killed."""
    for name, program in (("cache_a_file", CACHE_A_FILE), ("facts", FACTS), ("take", TAKE)):
        (tmp_path / f"{name}.py").write_text(program)
    with (tmp_path / "rows.arrow").open("wb") as rows:
        rows.truncate(FILE)
    init = tmp_path / "init"
    repo, python = Path(__file__).parents[2], sys.executable
    init.write_text(INIT.format(path=os.environ["PATH"], repo=repo, limit=LIMIT, python=python, folder=tmp_path))
    init.chmod(0o755)
    printed = boot(init, tmp_path)
    words = dict(line.split(" ", 1) for line in printed.replace("\r", "").splitlines() if " " in line)
    assert int(words.get("USAGE", 0)) >= CACHE, printed
    quota, limit, headroom = json.loads(words["FACTS"])
    assert (quota, limit) == (0.5, LIMIT)
    assert LEAST_HEADROOM <= headroom <= LIMIT
    assert (words["TAKEN"], words["EXIT"], words["oom_kill"]) == ("True", "0", "0"), printed

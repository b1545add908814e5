"""Real limits of control groups version 1: what the probe says of them is what the kernel keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import memory_controller_v1, needs_memory_v1, needs_root
from tests.machine.groups import CACHE, CACHE_A_FILE, FACTS, FILE, LEAST_HEADROOM, LIMIT, MIB, TAKE
from tests.machine.interpreter import python

pytestmark = [needs_root, needs_memory_v1, pytest.mark.timeout(60)]


class Group:
    """A child group of the memory and, where there is one, of the cpu controller."""

    def __init__(self, *directories: Path) -> None:
        self.directories = directories
        for directory in directories:
            directory.mkdir()

    def run(self, program: str, *arguments: str, folder: Path) -> str:
        """What a fresh interpreter that was born in the group prints."""
        (folder / "program.py").write_text(program)
        joining = "; ".join(f"echo $$ > {directory}/cgroup.procs" for directory in self.directories)
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = ["sh", "-ec", f'{joining}; exec "$@"', "sh", sys.executable, str(folder / "program.py"), *arguments]
        done = subprocess.run(command, capture_output=True, check=False, text=True, env=environ, cwd=folder)
        assert done.returncode == 0, (done.returncode, done.stderr)
        return done.stdout.strip()

    def remove(self) -> None:
        """Removes the group, whose last process has ended."""
        for directory in self.directories:
            directory.rmdir()


@pytest.fixture
def group() -> Iterator[Group]:
    """A group with half a core and 512 MiB."""
    memory = memory_controller_v1()
    assert memory is not None
    name = f"dnp-test-{os.getpid()}"
    cpu = next((path for path in (memory.parent / "cpu", memory.parent / "cpu,cpuacct") if path.is_dir()), None)
    made = Group(memory / name, *([cpu / name] if cpu else []))
    (memory / name / "memory.limit_in_bytes").write_text(str(LIMIT))
    if cpu:
        (cpu / name / "cpu.cfs_quota_us").write_text("50000")
    try:
        yield made
    finally:
        made.remove()


def oom_kills(group: Group) -> str:
    """The line of the group's counter."""
    lines = (group.directories[0] / "memory.oom_control").read_text().splitlines()
    return next(line for line in lines if line.startswith("oom_kill "))


def test_headroom_can_be_had(group: Group, tmp_path: Path) -> None:
    """In a group full of page cache most of the limit is free, and a process that takes 90 % of it is not killed."""
    file = tmp_path / "rows.arrow"
    with file.open("wb") as rows:
        rows.truncate(FILE)
    group.run(CACHE_A_FILE, str(file), folder=tmp_path)
    assert int((group.directories[0] / "memory.usage_in_bytes").read_text()) >= CACHE
    quota, limit, headroom = json.loads(group.run(FACTS, folder=tmp_path).removeprefix("FACTS "))
    assert quota == (0.5 if len(group.directories) > 1 else None)
    assert limit == LIMIT
    assert LEAST_HEADROOM <= headroom <= LIMIT
    before = oom_kills(group)
    assert group.run(TAKE, folder=tmp_path) == "TAKEN True"
    assert oom_kills(group) == before


FRESH = """
import os, sys
from dataset_num_proc.machine.probe import take_snapshot
directory = sys.argv[1]
def limit():
    return take_snapshot().memory.limit
seen = [limit()]
with open(directory + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
seen.append(limit())
with open(directory + "/memory.limit_in_bytes", "w") as file:
    file.write(str(256 << 20))
seen.append(limit())
print(seen[0] != seen[1], seen[1:])
"""


def test_moves_and_changed_limits_are_seen(group: Group, tmp_path: Path) -> None:
    """A process that is moved to another group, and then has its limit changed, sees both in its next snapshot."""
    (tmp_path / "program.py").write_text(FRESH)
    printed = python("program.py", str(group.directories[0]), folder=tmp_path)
    assert printed == f"True {[LIMIT, 256 * MIB]}"

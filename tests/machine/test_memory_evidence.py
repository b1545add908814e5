"""Counters of kills for memory, on recorded trees of both versions, and real kills in a real group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dataset_num_proc.machine.files import Reader
from dataset_num_proc.machine.memory_evidence import counters, since
from dataset_num_proc.policy.autopsy import MemoryEvidence
from tests.capabilities import memory_controller_v1, needs_datasets, needs_memory_v1, needs_root
from tests.machine.groups import MIB

V2 = {"cgroup": "0::/job/step\n", "mount": "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "at": ""}
V1 = {
    "cgroup": "3:memory:/job/step\n",
    "mount": "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "at": "memory/",
}


def tree(root: Path, layout: dict[str, str], kills: dict[str, int | None], host: int = 5) -> Reader:
    """A recorded machine whose groups ("step" is the process's own) have counted these kills."""
    name = "memory.events" if layout is V2 else "memory.oom_control"
    files = {
        "proc/self/cgroup": layout["cgroup"],
        "proc/self/mountinfo": layout["mount"],
        "proc/vmstat": f"nr_free_pages 1\noom_kill {host}\n",
        "proc/meminfo": "MemTotal: 8000000 kB\n",
    }
    for group, count in kills.items():
        if count is not None:
            place = f"sys/fs/cgroup/{layout['at']}job{'/step' if group == 'step' else ''}"
            files[f"{place}/{name}"] = f"low 0\nhigh 0\nmax 9\noom 9\noom_kill {count}\n"
            files[f"{place}/memory.max"] = "1048576\n"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Reader(root)


def seen(
    root: Path, layout: dict[str, str], before: dict[str, int | None], after: dict[str, int | None], host: int
) -> MemoryEvidence:
    """What is said of a change."""
    first = counters(tree(root, layout, before))
    return since(first, None, tree(root, layout, after, host))


@pytest.mark.parametrize("layout", [V1, V2], ids=["v1", "v2"])
def test_a_kill_in_the_own_group(tmp_path: Path, layout: dict[str, str]) -> None:
    """The file that rose is named, with what it was before (C01: 3 → 4)."""
    found = seen(tmp_path, layout, {"step": 3, "job": 3}, {"step": 4, "job": 4}, host=6)
    assert (found.group_kills, found.host_kills, found.before) == (1, 1, 3)
    assert (found.source or "").startswith(f"/sys/fs/cgroup/{layout['at']}job/step/memory.")
    assert found.proven


def test_a_neighbours_kill(tmp_path: Path) -> None:
    """Where the own counter stands still, those above and on the host are a neighbour's."""
    found = seen(tmp_path, V2, {"step": 3, "job": 3}, {"step": 3, "job": 4}, host=6)
    assert (found.group_kills, found.ancestor_kills, found.host_kills) == (0, 1, 1)
    assert not found.killed


def test_an_own_group_without_a_counter(tmp_path: Path) -> None:
    """A group above that rose is taken, as likely and not as proven."""
    found = seen(tmp_path, V2, {"step": None, "job": 3}, {"step": None, "job": 4}, host=6)
    assert (found.group_kills, found.ancestor_kills, found.before) == (None, 1, 3)
    assert found.killed
    assert not found.proven


def test_version_1_says_nothing_about_groups_above(tmp_path: Path) -> None:
    """It counts in the victim's own group alone, so another one's count is another's kill."""
    found = seen(tmp_path, V1, {"step": 0, "job": 0}, {"step": 0, "job": 1}, host=6)
    assert (found.group_kills, found.ancestor_kills) == (0, None)
    assert not found.killed


def test_a_machine_without_groups(tmp_path: Path) -> None:
    """The host's counter is all there is, and is likely, not proven; a full machine is nothing."""
    found = seen(tmp_path, V2, {}, {}, host=6)
    assert (found.group_kills, found.host_kills, found.killed, found.proven) == (None, 1, True, False)
    assert not seen(tmp_path, V2, {}, {}, host=5).killed


@pytest.fixture
def group() -> Iterator[Path]:
    """A group of this test's own with a limit of 500 MiB."""
    directory = (memory_controller_v1() or Path()) / f"dnp-test-watch-{os.getpid()}"
    directory.mkdir()
    (directory / "memory.limit_in_bytes").write_text(str(500 * MIB))
    try:
        yield directory
    finally:
        for _ in range(50):
            with suppress(OSError):
                directory.rmdir()
                break
            subprocess.run(["sleep", "0.1"], check=True)  # noqa: S607 - its last process is still ending


PROGRAM = """
import json, os, sys, tempfile
import datasets
from dataset_num_proc import WorkerDied, watch
datasets.disable_progress_bars()
def grow(row, index):
    if index == 5 and sys.argv[2] == "grow":
        return {"y": len(bytearray(b"x") * (800 << 20))}
    if index == 5:
        os.kill(os.getpid(), 9)
    return {"y": 1}
if __name__ == "__main__":
    import multiprocess
    multiprocess.set_start_method(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        datasets.Dataset.from_dict({"x": list(range(40))}).save_to_disk(folder)
        try:
            with watch():
                datasets.load_from_disk(folder).map(grow, with_indices=True, num_proc=2)
        except WorkerDied as error:
            seen = error.evidence.memory
            print(json.dumps([error.verdict.value, seen.group_kills, seen.limit, error.evidence.deaths[0].peak_bytes]))
"""


@needs_root
@needs_memory_v1
@needs_datasets
@pytest.mark.timeout(60)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize(("how", "expected"), [("grow", ["out-of-memory", 1]), ("kill", ["killed", 0])])
def test_a_real_kill(group: Path, tmp_path: Path, method: str, how: str, expected: list[object]) -> None:
    """A worker that the kernel kills for memory is told from one that got SIGKILL by hand, with limit and peak."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [
        "sh",
        "-ec",
        f'echo $$ > {group}/cgroup.procs; exec "$@"',
        "sh",
        sys.executable,
        str(program),
        method,
        how,
    ]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, check=False, text=True, env=environ, cwd=tmp_path)

    said = json.loads(done.stdout)
    assert said[:3] == [*expected, 500 * MIB]
    assert said[3] > 50 * MIB

"""`take_snapshot` on the live machine: what it finds, and that it leaves no trace."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dataset_num_proc.machine.contexts import _unloaded
from dataset_num_proc.machine.files import Reader, number_after
from dataset_num_proc.machine.host import parse_cpu_list
from dataset_num_proc.machine.mounts import parse_memberships, parse_mounts, visible
from dataset_num_proc.machine.probe import environment, take_snapshot
from dataset_num_proc.policy.request import Request
from dataset_num_proc.policy.rules import decide
from tests.capabilities import needs_linux, needs_root
from tests.machine.interpreter import python

TRACES = """
import json, os, signal, sys
{before}
def state():
    modules = [sys.modules[name] for name in ("multiprocessing", "multiprocess") if name in sys.modules]
    return {{
        "pinned": [module.get_start_method(allow_none=True) for module in modules],
        "environ": dict(os.environ),
        "handlers": [str(signal.getsignal(number)) for number in signal.valid_signals()],
        "files": sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else [],
        "path": list(sys.path),
        "directory": os.getcwd(),
        "filters": str(__import__("warnings").filters),
    }}
import multiprocessing
before = state()
from dataset_num_proc.machine.probe import take_snapshot
first, second = take_snapshot(), take_snapshot(scan=False)
heavy = [name for name in ("torch", "datasets", "numpy", "dill", "psutil", "multiprocess") if name in sys.modules]
print(json.dumps([before == state(), heavy, first.start_methods.multiprocess.method]))
"""


@needs_linux
def test_no_trace(tmp_path: Path) -> None:
    """Nothing is pinned, imported, opened or changed by two snapshots in a fresh interpreter."""
    unchanged, heavy, method = json.loads(python("-c", TRACES.format(before=""), folder=tmp_path))
    assert unchanged
    assert heavy == []
    assert method == "fork"


def test_no_trace_on_a_loaded_multiprocess(tmp_path: Path) -> None:
    """A `multiprocess` that is imported already is read and not pinned."""
    unchanged, heavy, _ = json.loads(python("-c", TRACES.format(before="import multiprocess"), folder=tmp_path))
    assert unchanged
    assert not set(heavy) & {"torch", "datasets", "numpy"}


METHODS = """
import json
{before}
from dataset_num_proc.machine.probe import take_snapshot
methods = take_snapshot().start_methods
print(json.dumps([[m.method, m.pinned, m.offered] for m in (methods.multiprocess, methods.multiprocessing)]))
"""


@needs_linux
def test_start_methods_before_and_after_the_import(tmp_path: Path) -> None:
    """What is said of `multiprocess` before it is imported is what it says of itself afterwards."""
    before = json.loads(python("-c", METHODS.format(before=""), folder=tmp_path))
    after = json.loads(python("-c", METHODS.format(before="import multiprocess"), folder=tmp_path))
    assert before == after
    assert before[0] == ["fork", False, ["fork", "spawn", "forkserver"]]


@needs_linux
@pytest.mark.parametrize("module", ["multiprocess", "multiprocessing"])
def test_pinned_start_method(module: str, tmp_path: Path) -> None:
    """A method that was set for one module is pinned there, and nowhere else."""
    set_it = f"import {module}; {module}.set_start_method('spawn')"
    found = json.loads(python("-c", METHODS.format(before=set_it), folder=tmp_path))
    one, other = found if module == "multiprocess" else found[::-1]
    assert one[:2] == ["spawn", True]
    assert other[1] is False


@pytest.mark.parametrize(
    ("platform", "method", "first"),
    [("linux", "fork", "fork"), ("darwin", "fork", "spawn"), ("win32", "spawn", "spawn")],
)
def test_unloaded_multiprocess(platform: str, method: str, first: str) -> None:
    """`multiprocess` forks on macOS too, where it lists spawn first; on Windows there is only spawn."""
    facts = _unloaded(platform)
    assert (facts.method, facts.offered[0], facts.pinned) == (method, first, False)


@pytest.mark.parametrize("module", ["multiprocess", "multiprocessing"])
def test_daemonic(module: str, tmp_path: Path) -> None:
    """A daemon of one module may not have children of that module; the flag is per module."""
    (tmp_path / "script.py").write_text(
        f"import json, {module}\n"
        "from dataset_num_proc.machine.probe import take_snapshot\n"
        "def ask():\n"
        "    print(json.dumps(take_snapshot().process.daemonic))\n"
        "if __name__ == '__main__':\n"
        f"    child = {module}.get_context('spawn').Process(target=ask, daemon=True)\n"
        "    child.start(); child.join()\n"
    )
    found = json.loads(python("script.py", folder=tmp_path))
    assert found == {"multiprocess": module == "multiprocess", "multiprocessing": module == "multiprocessing"}


@needs_linux
def test_live_facts() -> None:
    """On the live machine the mask, the memory and the place of the caller are those of this process."""
    snapshot = take_snapshot()
    assert snapshot.cpu.affinity == len(os.sched_getaffinity(0))
    assert snapshot.cpu.host is not None
    assert snapshot.cpu.host >= snapshot.cpu.affinity
    assert snapshot.memory.available is not None
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < snapshot.memory.available < total
    assert snapshot.process.threads is not None
    assert environment() == dict(os.environ)


@needs_linux
def test_affinity_is_fresh(tmp_path: Path) -> None:
    """A mask that was narrowed since the last snapshot is seen, and a variable of Python's does not change the host."""
    script = (
        "import os\n"
        "from dataset_num_proc.machine.probe import take_snapshot\n"
        "host = take_snapshot().cpu.host\n"
        "os.environ['PYTHON_CPU_COUNT'] = '100000'\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "cpu = take_snapshot().cpu\n"
        "print(cpu.affinity, cpu.host == host, dict(cpu.declared))\n"
    )
    assert python("-c", script, folder=tmp_path) == "1 True {'PYTHON_CPU_COUNT': 100000}"


def test_without_scan() -> None:
    """Without the scan, open files and threads are not known, and that is said."""
    snapshot = take_snapshot(scan=False)
    assert snapshot.process.threads is None
    assert snapshot.memory.shm_free is None
    assert {"process.threads", "memory.shm_free"} <= {entry.what for entry in snapshot.unreadable}


def test_root_as_a_path(tmp_path: Path) -> None:
    """A root may be a path or text, with or without a slash at its end."""
    (tmp_path / "environ").write_text("NCPUS=3\n")
    assert take_snapshot(tmp_path) == take_snapshot(f"{tmp_path}/")
    assert take_snapshot(tmp_path).cpu.declared == {"NCPUS": 3}


LIMITED = """
import os, resource
from dataset_num_proc.machine.probe import take_snapshot
before = take_snapshot().process.pids_free
os.setgid(65534); os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, ({limit}, {limit}))
print(before, take_snapshot().process.pids_free)
"""


@needs_linux
@needs_root
@pytest.mark.parametrize(("limit", "bound"), [(1000, True), (1 << 15, False)])
def test_task_limit_of_a_user(limit: int, bound: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a column of the table
    """RLIMIT_NPROC binds a user, less the tasks it has; not the superuser, and not where it is a whole machine's."""
    before, after = python("-c", LIMITED.format(limit=limit), folder=tmp_path).split()
    if bound:
        assert 900 <= int(after) <= 1000
    else:
        assert after == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0-3,8\n", {0, 1, 2, 3, 8}),
        (b"5", {5}),
        (b"", None),
        (b"3-1", None),
        (b"0-99999999999", None),
        (b"a-b", None),
        (b"-1", None),
    ],
)
def test_cpu_list(text: bytes, expected: set[int] | None) -> None:
    """A list of cpus is read in full or not at all, and never blown up."""
    assert parse_cpu_list(text) == expected


@needs_linux
def test_long_files_are_read_whole(tmp_path: Path) -> None:
    """A file of many pages is read to its end."""
    (tmp_path / "long").write_bytes(b"0123456789abcde\n" * 1000)
    assert Reader(tmp_path).read(b"/long") == b"0123456789abcde\n" * 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"\na 5 kB\n", 5), (b"\na 5", 5), (b"\nb 5\n", None), (b"\na x\n", None), (b"\naa 5\n", None)],
)
def test_number_after(text: bytes, expected: int | None) -> None:
    """The number of a line is found by the line's own key."""
    assert number_after(text, b"\na ", b" kB") == expected


def test_memberships() -> None:
    """Named hierarchies are no controllers, colons in a path stay, and lines of garbage are passed over."""
    text = b"9:name=systemd:/s\n2:cpu,cpuacct:/a:b\n0::/u\n5::/odd\n:\nx\n3:memory:relative\n"
    assert parse_memberships(text) == {b"name=systemd": b"/s", b"cpu": b"/a:b", b"cpuacct": b"/a:b", b"": b"/u"}


def test_visible_mounts() -> None:
    """Of a mount and what was mounted over it only the second is left; its neighbours and children stay."""
    text = (
        b"22 1 0:1 / / rw - ext4 x rw\n"
        b"30 22 0:2 / /cg rw - cgroup2 a rw\n"
        b"31 22 0:3 / /cg/memory rw - cgroup b rw,memory\n"
        b"32 22 0:4 / /cgx rw - cgroup c rw,cpu\n"
        b"33 22 0:5 / /cg rw - tmpfs d rw\n"
        b"34 33 0:6 / /cg/cpu rw - cgroup e rw,cpu\n"
    )
    assert [mount.identity for mount in visible(parse_mounts(text))] == [b"32", b"34"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sys/fs/cgroup/a/cpu.max", "9" * 400 + " 100000\n"),
        ("sys/fs/cgroup/a/cpu.max", "99999999999999999999 100000\n"),
        ("sys/fs/cgroup/a/memory.max", "9" * 400),
        ("proc/meminfo", f"MemTotal: 8 kB\nMemAvailable: {'9' * 400} kB\n"),
        ("proc/self/cgroup", "0::/a\0b\n"),
        ("proc/self/mountinfo", "30 1 0:30 / /sys/fs/cgroup\\000 rw - cgroup2 c rw\n"),
    ],
)
def test_numbers_and_names_beyond_reason(path: str, text: str, tmp_path: Path) -> None:
    """A number that no kernel writes and a name that no file can have are not known, and a decision is still made."""
    files = {
        "proc/self/cgroup": "0::/a\n",
        "proc/self/mountinfo": "30 1 0:30 / /sys/fs/cgroup rw - cgroup2 c rw\n",
        "proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 8388608 kB\n",
        "sys/devices/system/cpu/online": "0-7\n",
        path: text,
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    snapshot = take_snapshot(tmp_path)
    assert snapshot.cpu.quota is None
    assert snapshot.memory.headroom is None
    assert decide(Request(), snapshot).workers >= 0

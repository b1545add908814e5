"""Recorded Linux machines, written as files below a directory for `take_snapshot(root=…)`.

One job: to put down what the kernel would show. It knows nothing of how it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

V2_MOUNT = "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw\n"
V1_MEMORY_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:12 - cgroup cgroup rw,memory\n"
V1_CPU_MOUNT = "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:13 - cgroup cgroup rw,cpu,cpuacct\n"
PROC_MOUNT = "22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
CONTROLLERS = {"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n"}


def write(  # noqa: PLR0913 - one argument a fact
    root: Path,
    files: Mapping[str, str | int],
    *,
    cpus: int = 64,
    allowed: str | None = None,
    total: int = 512 << 30,
    available: int = 480 << 30,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """A machine below `root`, with `files` (a text, or a number for a line of its own) besides the host's figures.

    Args:
        root: an empty directory.
        files: path below `root` → content.
        cpus: processors online.
        allowed: the affinity mask, all of them where not given.
        total: bytes of memory.
        available: bytes that are free or can be.
        environ: variables of the process.
    """
    host = {
        "proc/meminfo": f"MemTotal: {total >> 10} kB\nMemAvailable: {available >> 10} kB\n",
        "proc/self/status": f"Name:\tpython\nThreads:\t1\nCpus_allowed_list:\t{allowed or f'0-{cpus - 1}'}\n",
        "sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        "environ": "".join(f"{name}={value}\n" for name, value in (environ or {}).items()),
    }
    for name, content in {**host, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else f"{content}\n", encoding="utf-8")
    return root


def v2(path: str, **groups: Mapping[str, str | int]) -> dict[str, str | int]:
    """The files of a cgroup v2 machine whose process is in `path`.

    Args:
        path: the process's group, such as "/user.slice/job.scope".
        **groups: `at_0` for the root of the mount, `at_1` for the first component of `path`, …: file name → content.
    """
    files: dict[str, str | int] = {
        "proc/self/cgroup": f"0::{path}\n",
        "proc/self/mountinfo": PROC_MOUNT + V2_MOUNT,
        **CONTROLLERS,
    }
    parts = [part for part in path.split("/") if part]
    for name, content in groups.items():
        folder = "/".join(["sys/fs/cgroup", *parts[: int(name.removeprefix("at_"))]])
        files |= {f"{folder}/{file}": text for file, text in content.items()}
    return files


def v1(path: str, memory: Mapping[str, str | int]) -> dict[str, str | int]:
    """The files of a cgroup v1 machine whose process is in `path`, with the memory controller's files there."""
    return {
        "proc/self/cgroup": f"9:name=systemd:{path}\n4:pids:{path}\n3:memory:{path}\n2:cpu,cpuacct:{path}\n",
        "proc/self/mountinfo": PROC_MOUNT + V1_MEMORY_MOUNT + V1_CPU_MOUNT,
        **{f"sys/fs/cgroup/memory{path.rstrip('/')}/{file}": text for file, text in memory.items()},
    }

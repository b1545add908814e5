"""What the machine as a whole has: processors, memory, the tasks that one user may have, `/dev/shm`.

One job: to read the host, live or recorded. It may not know of control groups, which only take from it.

On Linux the kernel's own files are read: psutil reads the same ones, and is slow to import. Elsewhere psutil is asked.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from typing import Any, NamedTuple

from dataset_num_proc.machine.files import Reader, number_after

_KIB = 1024
_MOST_CPUS = 1 << 16  # eight times what Linux can be built for; anything longer is no list of processors
_ALLOWED = re.compile(rb"^Cpus_allowed_list:\s*(\S*)", re.MULTILINE)
_USER = re.compile(rb"^Uid:\s*(\d+)", re.MULTILINE)
_MOST_TASKS = re.compile(rb"^Max processes\s+(\d+)", re.MULTILINE)
# Counting a user's tasks takes a directory listing for each process. A limit above this is that of a whole machine (the
# kernel's default is half of all the tasks it can have) and would not be met by any number of workers.
_SMALL_TASK_LIMIT = 1 << 15


class Memory(NamedTuple):
    """Bytes of memory in all, and that can be had without swapping."""

    total: int | None
    available: int | None


def parse_cpu_list(text: bytes) -> frozenset[int] | None:
    """The processors of a list as the kernel writes it ("0-3,8"); `None` for anything else."""
    cpus: set[int] = set()
    try:
        for run in text.strip().split(b","):
            first, _, last = run.partition(b"-")
            low, high = int(first), int(last or first)
            if not 0 <= low <= high < _MOST_CPUS:
                return None
            cpus.update(range(low, high + 1))
    except ValueError:
        return None
    return frozenset(cpus)


def recorded_cpus(reader: Reader) -> tuple[int | None, frozenset[int] | None]:
    """Processors online on a recorded machine, and those in the recorded process's affinity mask."""
    path = b"/sys/devices/system/cpu/online"
    data = reader.read(path)
    online = parse_cpu_list(data) if data is not None else None
    if data is not None and online is None:
        reader.malformed(path, data)
    match = _ALLOWED.search(reader.read(b"/proc/self/status") or b"")
    return len(online) if online else None, parse_cpu_list(match[1]) if match else None


def live_cpus() -> tuple[int | None, int | None]:
    """Processors online here, and in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        affinity = len(os.sched_getaffinity(0))
        return _online(affinity), affinity
    try:
        import psutil

        return _online(None), len(psutil.Process().cpu_affinity() or ()) or None
    except Exception:  # noqa: BLE001 - psutil may be missing, has no affinity on macOS, and raises errors of its own
        return _online(None), None


@lru_cache(maxsize=1)
def _online(_affinity: int | None) -> int | None:
    """Processors online, asked again when the mask changes: the mask is the tighter of the two, and cheaper to read."""
    if not hasattr(os, "sysconf"):
        return os.cpu_count()
    # Not `os.cpu_count()` where there is a choice: since Python 3.13 a variable can make it say anything.
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    return online if online > 0 else None


def memory(reader: Reader) -> Memory:
    """Memory of the machine, from /proc/meminfo."""
    data = reader.read(b"/proc/meminfo")
    if data is None:
        return Memory(None, None)
    text = b"\n" + data

    def amount(key: bytes) -> int | None:
        number = number_after(text, b"\n" + key + b":", b" kB")
        return None if number is None else number * _KIB

    available = amount(b"MemAvailable")
    if available is None:
        # Kernels before 3.14, and some sandboxes: the rule of thumb that MemAvailable replaced.
        free, cache = amount(b"MemFree"), amount(b"Cached")
        if free is not None and cache is not None:
            available = max(0, free + (amount(b"Buffers") or 0) + cache - (amount(b"Shmem") or 0))
    return Memory(amount(b"MemTotal"), available)


def memory_elsewhere(reader: Reader) -> Memory:
    """Memory of a machine that is not Linux."""
    try:
        import psutil

        seen = psutil.virtual_memory()
    except Exception as error:  # noqa: BLE001 - psutil may be missing, and raises errors of its own
        reader.note("psutil", f"{type(error).__name__}: {error}")
        return Memory(None, None)
    return Memory(int(seen.total), int(seen.available))


def shm_free() -> int | None:
    """Free bytes of /dev/shm, `None` where there is none."""
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108 - the kernel's own place, only looked at
    except (AttributeError, OSError):
        return None
    return state.f_bavail * state.f_frsize


def user_tasks_free(reader: Reader) -> int | None:
    """Tasks that this user may still start under RLIMIT_NPROC, `None` where it binds nobody.

    The kernel counts threads of all processes with the user's id, and does not hold the superuser to it.
    """
    limit = _live_task_limit() if reader.live else _recorded_task_limit(reader)
    if limit is None or limit >= _SMALL_TASK_LIMIT:
        return None
    # The directory of a process that changed its user is the superuser's, so a live one is asked itself.
    owner = os.getuid() if reader.live else _owner(reader, b"/proc/self")
    processes = (b"/proc/" + name for name in reader.names(b"/proc") if name.isdigit())
    tasks = sum(_tasks(reader, process) for process in processes if _owner(reader, process) == owner)
    return max(0, limit - tasks)


def _live_task_limit() -> int | None:
    if sys.platform == "win32" or os.geteuid() == 0:
        return None
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _recorded_task_limit(reader: Reader) -> int | None:
    limits = _MOST_TASKS.search(reader.read(b"/proc/self/limits") or b"")
    user = _USER.search(reader.read(b"/proc/self/status") or b"") if limits else None
    return int(limits[1]) if limits and not (user and int(user[1]) == 0) else None


def _owner(reader: Reader, directory: bytes) -> int | None:
    try:
        return os.stat(reader.prefix + directory).st_uid  # noqa: PTH116 - the path is bytes
    except OSError:  # it has ended meanwhile
        return None


def _tasks(reader: Reader, process: bytes) -> int:
    try:
        return len(os.listdir(reader.prefix + process + b"/task"))  # noqa: PTH208 - the path is bytes
    except OSError:  # it has ended meanwhile, or its threads were not recorded
        return int(os.path.isdir(reader.prefix + process))  # noqa: PTH112 - the path is bytes


def recorded_environ(reader: Reader) -> dict[str, str]:
    """The environment of a recorded process, from the file `environ` at the root: a line KEY=VALUE for each."""
    lines = os.fsdecode(reader.read(b"/environ") or b"").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def recorded_threads(reader: Reader) -> int | None:
    """Threads of a recorded process."""
    return number_after(b"\n" + (reader.read(b"/proc/self/status") or b""), b"\nThreads:")


def installed_versions(names: tuple[str, ...]) -> dict[str, Any]:
    """Versions of installed distributions by name, `None` for those that are not here, without importing any."""
    from importlib import metadata

    def version(name: str) -> str | None:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    return {name: version(name) for name in names}

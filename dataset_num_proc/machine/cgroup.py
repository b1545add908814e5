"""What the control groups leave to this process: processors, memory, tasks.

One job: the tightest limit among the process's own group and every group above it, each limit with the usage of its own
directory. It may not choose between versions or places (`mounts` did), nor round: half a core stays 0.5.

A missing file, "max", an empty file or a period of 0 all mean "no limit here". Memory that the kernel would give back
when asked counts as free: data sets are mapped files, so a busy group is full of page cache, and a probe that counts
the cache as used sees nothing free where gigabytes are. Shared memory is no such cache, though it is listed as one.
"""

from __future__ import annotations

from typing import NamedTuple

from dataset_num_proc.machine.files import Reader, number_after, shown
from dataset_num_proc.machine.mounts import Group
from dataset_num_proc.policy.facts import MOST_CORES

# "No limit" of version 1 is the largest multiple of a page that the kernel can hold, which differs with the page size.
_NO_LIMIT = 1 << 62


_LONGEST_PAIR = 64  # bytes of a quota and its period; the kernel's have twenty digits each


class Quota(NamedTuple):
    """Bandwidth in cores, and the file that set it."""

    cores: float
    source: str


class Room(NamedTuple):
    """One group's memory, in bytes: its limit, what is left under it, and the file that set the limit."""

    headroom: int
    limit: int
    source: str


def cpu_quota(reader: Reader, group: Group) -> Quota | None:
    """The tightest bandwidth quota, `None` where no group sets one."""
    read = _quota_v1 if group.version == 1 else _quota_v2
    quotas = [quota for directory in group.directories if (quota := read(reader, directory))]
    return min((quota for quota in quotas if quota.cores < MOST_CORES), default=None)


def _quota_v1(reader: Reader, directory: bytes) -> Quota | None:
    path = directory + b"/cpu.cfs_quota_us"
    quota = reader.number(path)
    if quota is None or quota <= 0:
        return None
    period = reader.number(directory + b"/cpu.cfs_period_us")
    if period is None or period <= 0:
        reader.note(path, "no period to go with it")
        return None
    return Quota(quota / period, shown(path))


def _quota_v2(reader: Reader, directory: bytes) -> Quota | None:
    path = directory + b"/cpu.max"
    data = reader.read(path)
    if data is None or data.startswith(b"max"):
        return None
    try:
        quota, period = map(int, data.split() if len(data) <= _LONGEST_PAIR else ())
    except ValueError:
        reader.malformed(path, data)
        return None
    return Quota(quota / period, shown(path)) if quota > 0 and period > 0 else None


def memory_room(reader: Reader, group: Group, total: int | None) -> Room | None:
    """The group with the least headroom, `None` where no group sets a limit.

    Args:
        reader: reads the files.
        group: the memory controller's groups.
        total: memory of the machine in bytes. A limit that is no smaller limits nothing.
    """
    largest = _NO_LIMIT if total is None else min(total, _NO_LIMIT)
    rooms = _rooms_v1(reader, group, largest) if group.version == 1 else _rooms_v2(reader, group, largest)
    return min(rooms, default=None)


def _rooms_v2(reader: Reader, group: Group, largest: int) -> list[Room]:
    rooms = []
    for directory in group.directories:
        # Above `memory.high` a group is not killed but slowed down to a crawl, which for a worker is no better.
        paths = (directory + b"/memory.max", directory + b"/memory.high")
        limits = [
            (limit, path) for path in paths if (limit := reader.number(path)) is not None and 0 <= limit < largest
        ]
        if limits:
            limit, path = min(limits)
            used = _used(reader, directory + b"/memory.current", directory + b"/memory.stat", _RECLAIMABLE_V2)
            rooms.append(Room(max(0, limit - used), limit, shown(path)))
    return rooms


def _rooms_v1(reader: Reader, group: Group, largest: int) -> list[Room]:
    def room(limit: int, source: bytes, directory: bytes) -> Room:
        usage, stat = directory + b"/memory.usage_in_bytes", directory + b"/memory.stat"
        return Room(max(0, limit - _used(reader, usage, stat, _RECLAIMABLE_V1)), limit, shown(source))

    rooms = []
    for directory in group.directories:
        path = directory + b"/memory.limit_in_bytes"
        limit = reader.number(path)
        if limit is not None and 0 <= limit < largest:
            rooms.append(room(limit, path, directory))
    path, hierarchical = _hierarchical_limit(reader, group)
    if hierarchical is not None and all(hierarchical < seen.limit for seen in rooms) and hierarchical < largest:
        # Set by a group above all that the name space shows; the topmost one shown is nearest to what that group uses.
        rooms.append(room(hierarchical, path, group.directories[-1]))
    return rooms


def _hierarchical_limit(reader: Reader, group: Group) -> tuple[bytes, int | None]:
    """The tightest limit on the way to the root as version 1's kernel computed it, name spaces or not."""
    for directory in group.directories:
        path = directory + b"/memory.stat"
        data = reader.read(path)
        if data is not None:
            return path, number_after(b"\n" + data, b"\nhierarchical_memory_limit ")
    return b"", None


class _Reclaimable(NamedTuple):
    """Keys of memory.stat: what the kernel can drop at once, and what of it has to be written back first."""

    plus: tuple[bytes, ...]
    minus: tuple[bytes, ...]


_RECLAIMABLE_V1 = _Reclaimable((b"inactive_file ", b"active_file "), (b"dirty ", b"writeback "))
_RECLAIMABLE_V2 = _Reclaimable(
    (b"inactive_file ", b"active_file ", b"slab_reclaimable "), (b"file_dirty ", b"file_writeback ")
)


def _used(reader: Reader, usage_path: bytes, stat_path: bytes, keys: _Reclaimable) -> int:
    """What a group uses and cannot give back; 0 where its usage is not known, and its limit then binds whole."""
    usage = reader.number(usage_path)
    if usage is None:
        reader.note(usage_path, "not known, so the whole limit counts as free")
        return 0
    data = reader.read(stat_path)
    if data is None:
        reader.note(stat_path, "not known, so all page cache counts as used")
        return usage
    text = b"\n" + data
    reclaimable = sum(_stat(text, key) for key in keys.plus) - sum(_stat(text, key) for key in keys.minus)
    return usage - max(0, min(reclaimable, usage))


def _stat(text: bytes, key: bytes) -> int:
    """A number of memory.stat; version 1 counts usage of the whole subtree, so the `total_` of a key is preferred."""
    number = number_after(text, b"\ntotal_" + key)
    return (number_after(text, b"\n" + key) if number is None else number) or 0


def pids_free(reader: Reader, group: Group) -> int | None:
    """Tasks that may still be started under the tightest `pids.max`. Threads are tasks too."""
    free = []
    for directory in group.directories:
        limit = reader.number(directory + b"/pids.max")
        if limit is not None:
            path = directory + b"/pids.current"
            current = reader.number(path)
            if current is None:
                reader.note(path, "not known, so the whole limit counts as free")
            free.append(max(0, limit - (current or 0)))
    return min(free, default=None)


def cpuset(reader: Reader, group: Group) -> tuple[bytes, bytes] | None:
    """The processors of the nearest group that names any, as the kernel writes them ("0-3,8"), and the file."""
    effective = b"/cpuset.effective_cpus" if group.version == 1 else b"/cpuset.cpus.effective"
    for directory in group.directories:
        for name in (effective, b"/cpuset.cpus"):
            data = reader.read(directory + name)
            if data is not None and data.strip():
                return data.strip(), directory + name
    return None

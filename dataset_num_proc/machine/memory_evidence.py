"""Whether the kernel killed for memory: its counters before and after, and its log.

One job: to read them. It may not judge. `failcnt` is not read: it counts page cache that was given back too.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import NamedTuple

from dataset_num_proc.machine import cgroup, host
from dataset_num_proc.machine.files import Reader, number_after, shown
from dataset_num_proc.machine.mounts import Group, locate
from dataset_num_proc.policy.autopsy import MemoryEvidence

_INITIAL_PIDS = "pid:[4026531836]"  # include/linux/proc_ns.h: PROC_PID_INIT_INO
_KILLED = re.compile(rb"Killed process (\d+)")


class Counters(NamedTuple):
    """Kills for memory so far, by file; the process's own group first."""

    own: tuple[str, int] | None
    above: tuple[tuple[str, int], ...]
    host: int | None


def counters(reader: Reader | None = None) -> Counters:
    """The counters as they stand."""
    reader = reader or Reader()
    group = _memory_group(reader)
    found = _group_counters(reader, group) if group else []
    kills = number_after(b"\n" + (reader.read(b"/proc/vmstat") or b""), b"\noom_kill ")
    own = found[0] if found and found[0][1] is not None else None
    # Version 1 counts a kill in the victim's own group alone; there the groups above say nothing about this one.
    rest = found[1:] if group and group.version == 2 else []  # noqa: PLR2004 - the kernel's own numbering
    return Counters(
        None if own is None or own[1] is None else (own[0], own[1]),
        tuple((path, count) for path, count in rest if count is not None),
        kills,
    )


def _memory_group(reader: Reader) -> Group | None:
    return locate(reader, reader.read(b"/proc/self/cgroup")).by_controller.get(b"memory")


def _group_counters(reader: Reader, group: Group) -> list[tuple[str, int | None]]:
    name = b"/memory.oom_control" if group.version == 1 else b"/memory.events"
    paths = [directory + name for directory in group.directories]
    return [(shown(path), number_after(b"\n" + (reader.read(path) or b""), b"\noom_kill ")) for path in paths]


def since(before: Counters, pid: int | None, reader: Reader | None = None) -> MemoryEvidence:
    """What has happened since `before`; `pid` is the process that the kernel's log is searched for."""
    live = reader is None
    reader = reader or Reader()
    now = counters(reader)
    own = _rise(before.own, now.own)
    above = [rise for old, new in zip(before.above, now.above) if (rise := _rise(old, new)) is not None]  # noqa: B905 - 3.10
    highest = max(above, default=None, key=lambda rise: rise[0])
    host_kills = None if before.host is None or now.host is None else now.host - before.host
    group = _memory_group(reader)
    room = cgroup.memory_room(reader, group, host.memory(reader).total) if group else None
    risen = own if own is not None and own[0] > 0 else highest if own is None else None
    return MemoryEvidence(
        group_kills=None if own is None else own[0],
        ancestor_kills=None if highest is None else highest[0],
        host_kills=host_kills,
        named_in_kernel_log=named_in_kernel_log(pid) if live and pid is not None else None,
        limit=room.limit if room else None,
        usage=room.limit - room.headroom if room else None,
        source=risen[1] if risen else room.source if room else None,
        before=risen[2] if risen else None,
    )


def _rise(old: tuple[str, int] | None, new: tuple[str, int] | None) -> tuple[int, str, int] | None:
    """By how much a counter rose, its file, and what it was; `None` where it is not the same counter."""
    if old is None or new is None or old[0] != new[0]:
        return None
    return new[1] - old[1], new[0], old[1]


def named_in_kernel_log(pid: int) -> bool | None:
    """Whether the kernel's log says that it killed `pid` for memory; `None` where it cannot be read.

    The log has the pids of the machine; inside a container those here are others.
    """
    with suppress(OSError):
        if sys.platform == "linux" and os.readlink("/proc/self/ns/pid") == _INITIAL_PIDS:  # noqa: PTH115 - as everywhere here
            return any(found == pid for found in _killed_pids())
    return None


def _killed_pids() -> list[int]:
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    pids: list[int] = []
    try:
        while True:
            try:
                record = os.read(descriptor, 8192)
            except BlockingIOError:  # the end of what there is
                return pids
            except BrokenPipeError:  # this record was overwritten meanwhile; the next read has the next one
                continue
            if b"Memory cgroup out of memory" in record or b"Out of memory" in record:
                pids += [int(found) for found in _KILLED.findall(record)]
    finally:
        os.close(descriptor)

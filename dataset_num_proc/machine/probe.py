"""`take_snapshot`: everything that a decision rests on, read at this moment.

One job: to put the readings together, and to say of each fact that is missing why. It decides nothing, and changes
nothing: no start method gets fixed, nothing heavy is imported, no device is touched.

Limits, usage and the process's own state are read anew each time. Kept are only the places of the control groups (while
the process stays in them), the layout of the main script (while its file stays as it is), and the installed versions.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from dataset_num_proc.machine import cgroup, hazards, host, ranks, scheduler
from dataset_num_proc.machine.contexts import daemonic, start_methods
from dataset_num_proc.machine.files import Reader
from dataset_num_proc.machine.main_module import Main, describe
from dataset_num_proc.machine.mounts import Group, locate
from dataset_num_proc.machine.variables import chosen
from dataset_num_proc.policy.facts import (
    FORK,
    CpuFacts,
    LibraryFacts,
    MainModule,
    MemoryFacts,
    ProcessFacts,
    Snapshot,
    StartMethods,
    Unreadable,
)

_VARIABLES = frozenset(scheduler.VARIABLES | ranks.VARIABLES | {"CUDA_VISIBLE_DEVICES"})
_PYTHON = ".".join(map(str, sys.version_info[:3]))
_UNKNOWN = {
    "cpu.host": "the system does not say how many processors are online",
    "cpu.affinity": "no affinity mask to be read",
    "cpu.quota": "no control group sets a cpu quota",
    "memory.available": "no MemAvailable, nor what it could be computed from",
    "memory.headroom": "no control group sets a memory limit",
    "memory.shm_free": "no /dev/shm, or it was not looked at",
    "process.threads": "not counted",
    "process.python_threads": "not recorded",
    "process.pids_free": "no limit on tasks that workers could meet",
    "process.accelerator_count": "only a driver could tell",
}
_NOT_LOOKED_AT = Main(MainModule.UNKNOWN)
_NOTES = {what: Unreadable(what, why) for what, why in _UNKNOWN.items()}


class _Surroundings(NamedTuple):
    """What every part of a snapshot is made from."""

    reader: Reader
    linux: bool
    environ: Mapping[str, str]
    groups: Mapping[bytes, Group]
    ranks: ranks.Ranks


def take_snapshot(root: str | os.PathLike[str] = "/", *, scan: bool = True) -> Snapshot:
    """Reads the machine, or a recorded one.

    Args:
        root: directory below which a machine's files are. For any but "/", the processors online, the affinity mask and
            the memory come from the recorded `sys` and `proc`, the variables from a file `environ` of KEY=VALUE lines,
            and the process is taken to be a plain one: what this interpreter has up says nothing about a recorded one.
        scan: also list this process's open files (for devices of accelerators) and threads, look at /dev/shm and, where
            workers are forked, into the main script. A decision about a map that forks does without, and a process may
            have thousands of files open.

    Returns:
        The facts. What is not known is `None`, and `Snapshot.unreadable` says why; nothing is raised for it.
    """
    around = _surroundings(Reader(root))
    reader, libraries = around.reader, _libraries()
    cpu, memory = _cpu(around), _memory(around, shm=scan and reader.live)
    methods = start_methods(libraries.multiprocess, reader) if reader.live else StartMethods()
    forks = methods.multiprocess.method == methods.multiprocessing.method == FORK
    process = (
        _process(around, cpu, scan=scan, main=scan or not forks) if reader.live else _recorded_process(around, cpu)
    )
    _explain(reader, cpu, memory, process)
    return Snapshot(cpu, memory, process, methods, libraries, tuple(reader.unreadable))


def environment(root: str | os.PathLike[str] = "/") -> dict[str, str]:
    """The environment of this process, or of the one recorded below `root`."""
    reader = Reader(root)
    return dict(os.environ) if reader.live else host.recorded_environ(reader)


def _surroundings(reader: Reader) -> _Surroundings:
    environ = chosen(os.environ if reader.live else host.recorded_environ(reader), _VARIABLES)
    linux = not reader.live or sys.platform.startswith("linux")
    groups: Mapping[bytes, Group] = {}
    if linux:
        path = b"/proc/self/cgroup"
        before = len(reader.unreadable)
        memberships = reader.read(path)
        if memberships is None and len(reader.unreadable) == before:
            reader.note(path, "not there")
        groups, notes = locate(reader, memberships)
        reader.unreadable.extend(notes)
    place = ranks.local_ranks(environ, reader) if environ else ranks.Ranks()
    return _Surroundings(reader, linux, environ, groups, place)


@lru_cache(maxsize=1)
def _libraries() -> LibraryFacts:
    return LibraryFacts(**host.installed_versions(("datasets", "multiprocess", "torch")))


def _cpu(around: _Surroundings) -> CpuFacts:
    reader = around.reader
    online, affinity = host.live_cpus() if reader.live else _recorded_cpus(around)
    group = around.groups.get(b"cpu")
    quota = cgroup.cpu_quota(reader, group) if group else None
    declared = scheduler.declared_cpus(around.environ, reader) if around.environ else {}
    return CpuFacts(online, affinity, quota and quota.cores, quota and quota.source, declared)


def _recorded_cpus(around: _Surroundings) -> tuple[int | None, int | None]:
    """Processors online and allowed; a live mask is within the cpuset already, a recorded one need not be."""
    reader = around.reader
    online, allowed = host.recorded_cpus(reader)
    group = around.groups.get(b"cpuset")
    found = cgroup.cpuset(reader, group) if group else None
    if found:
        named = host.parse_cpu_list(found[0])
        if named is None:
            reader.malformed(found[1], found[0])
        elif allowed and not allowed & named:
            reader.note(found[1], "names none of the processors in the affinity mask")
        else:
            allowed = named if allowed is None else allowed & named
    return online, len(allowed) if allowed else None


def _memory(around: _Surroundings, *, shm: bool) -> MemoryFacts:
    reader = around.reader
    seen = host.memory(reader) if around.linux else host.memory_elsewhere(reader)
    group = around.groups.get(b"memory")
    room = cgroup.memory_room(reader, group, seen.total) if group else None
    environ, local_ranks = around.environ, around.ranks.local_world_size
    return MemoryFacts(
        available=seen.available,
        headroom=room.headroom if room else None,
        limit=room.limit if room else None,
        headroom_source=room.source if room else None,
        declared=scheduler.declared_memory(environ, local_ranks, reader) if environ else {},
        shm_free=host.shm_free() if shm else None,
    )


def _process(around: _Surroundings, cpu: CpuFacts, *, scan: bool, main: bool) -> ProcessFacts:
    """State of this process; the main module's only where fresh interpreters would import it."""
    reader, place = around.reader, around.ranks
    frame = sys._getframe(1)  # noqa: SLF001 - the one way to this thread's stack that costs nothing
    seen = describe(sys.modules.get("__main__"), frame) if main else _NOT_LOOKED_AT
    return ProcessFacts(
        platform=sys.platform,
        python=_PYTHON,
        daemonic=daemonic(),
        threads=hazards.thread_count(reader) if scan else None,
        main=seen.kind,
        accelerators=hazards.accelerators(reader) | (hazards.open_devices(reader) if scan else frozenset()),
        distributed=hazards.distributed(reader),
        local_rank=place.local_rank,
        local_world_size=place.local_world_size,
        pids_free=_pids_free(around),
        python_threads=threading.active_count(),
        runtimes=hazards.runtimes(reader),
        importing=hazards.importing(frame),
        main_file=seen.file,
        main_line=seen.line,
        cpus_per_rank=_cpus_per_rank(place, cpu),
        accelerator_count=hazards.accelerator_count(around.environ, reader),
    )


def _recorded_process(around: _Surroundings, cpu: CpuFacts) -> ProcessFacts:
    """State of a recorded process: a plain one but for what its files say."""
    place, threads = around.ranks, host.recorded_threads(around.reader)
    return ProcessFacts(
        python=_PYTHON,
        threads=threads,
        python_threads=1 if threads == 1 else None,
        local_rank=place.local_rank,
        local_world_size=place.local_world_size,
        pids_free=_pids_free(around),
        cpus_per_rank=_cpus_per_rank(place, cpu),
        accelerator_count=hazards.accelerator_count(around.environ, around.reader),
    )


def _cpus_per_rank(place: ranks.Ranks, cpu: CpuFacts) -> bool:
    """Whether Slurm gave each task processors of its own: the mask holds one task's, and the host has them all."""
    each = cpu.declared.get("SLURM_CPUS_PER_TASK")
    if place.launcher != ranks.SLURM or each is None or cpu.affinity is None or cpu.host is None:
        return False
    return cpu.affinity <= each and cpu.affinity * place.local_world_size <= cpu.host


def _pids_free(around: _Surroundings) -> int | None:
    group = around.groups.get(b"pids")
    in_group = cgroup.pids_free(around.reader, group) if group else None
    of_user = host.user_tasks_free(around.reader) if around.linux else None
    return of_user if in_group is None else in_group if of_user is None else min(in_group, of_user)


def _explain(reader: Reader, cpu: CpuFacts, memory: MemoryFacts, process: ProcessFacts) -> None:
    """Notes why each fact that is missing is not known."""
    for what, value in (
        ("cpu.host", cpu.host),
        ("cpu.affinity", cpu.affinity),
        ("cpu.quota", cpu.quota),
        ("memory.available", memory.available),
        ("memory.headroom", memory.headroom),
        ("memory.shm_free", memory.shm_free),
        ("process.threads", process.threads),
        ("process.python_threads", process.python_threads),
        ("process.pids_free", process.pids_free),
        ("process.accelerator_count", process.accelerator_count),
    ):
        if value is None:
            reader.unreadable.append(_NOTES[what])

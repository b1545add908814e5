"""What dead processes left behind, and the machine's state beside them, as `Evidence`.

One job: to gather it. It may not judge.
"""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from dataset_num_proc.machine import cgroup, host, memory_evidence
from dataset_num_proc.machine.files import Reader
from dataset_num_proc.machine.members import Member
from dataset_num_proc.machine.mounts import locate
from dataset_num_proc.machine.observed import ERROR, TASK, TRACE, read
from dataset_num_proc.policy.autopsy import Death, Evidence


def of_machine(before: memory_evidence.Counters, pid: int | None) -> Evidence:
    """The machine at this moment.

    Args:
        before: the kernel's counters when the pool was made.
        pid: of the process that SIGKILL ended, to be looked for in the kernel's log.
    """
    reader = Reader()
    pids = locate(reader, reader.read(b"/proc/self/cgroup")).by_controller.get(b"pids")
    disk_free = None
    with suppress(OSError):
        disk_free = shutil.disk_usage(tempfile.gettempdir()).free
    return Evidence(
        memory=memory_evidence.since(before, pid),
        shm_free=host.shm_free(),
        disk_free=disk_free,
        pids_free=cgroup.pids_free(reader, pids) if pids else None,
        address_space=_address_space(),
    )


def _address_space() -> int | None:
    """The limit of this process, which its children inherit; `None` for none."""
    import resource  # there is none on Windows, where nothing is watched

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def of_pool(machine: Evidence, deaths: Sequence[Member], members: Sequence[Member]) -> Evidence:
    """`machine` with what is known of these processes, all of which should have ended."""
    for member in members:
        member.ended()
    return replace(
        machine,
        deaths=tuple(_death(member) for member in deaths),
        exit_codes={member.process.pid: member.code for member in members if member.process.pid is not None},
        peak_bytes=max((member.peak for member in members if member.peak), default=None),
    )


def _death(member: Member) -> Death:
    shard, rows = None, None
    with suppress(ValueError):
        shard, rows = json.loads(read(member.path + TASK))
    return Death(
        pid=member.process.pid,
        exit_code=member.code,
        role=member.role,
        shard=shard if isinstance(shard, int) else None,
        rows=(rows[0], rows[1]) if rows else None,
        peak_bytes=member.peak,
        trace=read(member.path + TRACE).strip(),
        error=read(member.path + ERROR).strip(),
        signal=_signal_name(member.code),
    )


def text_of(error: BaseException) -> str:
    """An exception in one line, with its type: a bare EOFError has no text of its own."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _signal_name(code: int | None) -> str | None:
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal has no name
        return f"signal {-code}"

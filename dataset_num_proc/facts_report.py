"""What the machine said, as text for people.

One job: wording of a `Snapshot`. Every figure is one of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from dataset_num_proc.policy.facts import CpuFacts, MemoryFacts, ProcessFacts, Snapshot, StartMethodFacts


def size(count: int | None) -> str:
    """Bytes in the largest binary unit that keeps a figure before the point; "not known" for `None`."""
    if count is None:
        return "not known"
    for unit, width in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << width:
            return f"{count / (1 << width):.1f} {unit}"
    return f"{count} B"


def facts_in_full(snapshot: Snapshot) -> str:
    """Everything the machine said, a subject a line, with its sources."""
    cpu, memory, process = snapshot.cpu, snapshot.memory, snapshot.process
    unknown = "".join(f"\n           {item.what}: {item.why}" for item in snapshot.unreadable)
    return f"""\
cpus       host {_known(cpu.host)}, affinity {_known(cpu.affinity)}, {_quota(cpu)}{_declared(cpu.declared)}
memory     {size(memory.available)} available on the host; {_headroom(memory)}{_declared(memory.declared)}
           free in /dev/shm: {size(memory.shm_free)}
process    main module: {process.main.value}; {_threads(process)}
           accelerators up: {", ".join(sorted(process.accelerators)) or "none"}; {_runtimes(process)}
           {_rank(process)}; processes that may be started: {_pids(process)}
workers    multiprocess (maps): {_method(snapshot.start_methods.multiprocess)}
           multiprocessing (exports, packing): {_method(snapshot.start_methods.multiprocessing)}
no figure for{unknown or " nothing of the above"}"""


def _runtimes(process: ProcessFacts) -> str:
    up = [*(["collectives"] if process.distributed else []), *sorted(process.runtimes)]
    return f"runtimes up: {', '.join(up) or 'none'}"


def _method(facts: StartMethodFacts) -> str:
    how = ", set" if facts.pinned else ""
    return f"{facts.method}{how} (offered: {', '.join(facts.offered)})" if facts.method else "not known"


def _known(value: int | None) -> str:
    return "not known" if value is None else str(value)


def _threads(process: ProcessFacts) -> str:
    return f"threads: {_known(process.threads)}, of which Python's: {_known(process.python_threads)}"


def _pids(process: ProcessFacts) -> str:
    return "no limit found" if process.pids_free is None else str(process.pids_free)


def _rank(process: ProcessFacts) -> str:
    ranks = process.local_world_size
    return "one rank" if ranks == 1 else f"local rank {_known(process.local_rank)} of {ranks}"


def _quota(cpu: CpuFacts) -> str:
    return "no quota" if cpu.quota is None else f"quota {cpu.quota:g} ({cpu.quota_source})"


def _headroom(memory: MemoryFacts) -> str:
    if memory.headroom is None:
        return "no control group limits it"
    return f"{size(memory.headroom)} of the {size(memory.limit)} that {memory.headroom_source} allows"


def _declared(declared: Mapping[str, int]) -> str:
    return "".join(f"; {name}={value}" for name, value in declared.items())

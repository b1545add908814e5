"""Values → text for people, dicts for JSON.

One job: wording. Every figure in a sentence comes from a `Reason`'s `seen` or from the `Snapshot`; nothing is
computed here that a decision would rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dataset_num_proc.policy.decision import FINAL, Decision, Reason, ReasonCode
from dataset_num_proc.policy.facts import CpuFacts, MemoryFacts, ProcessFacts, Snapshot, StartMethodFacts
from dataset_num_proc.policy.findings import Finding
from dataset_num_proc.policy.replay import from_json, to_json

__all__ = [
    "SCHEMA",
    "decision_to_json",
    "facts_in_full",
    "findings_in_full",
    "findings_to_json",
    "from_json",
    "in_full",
    "in_one_line",
    "meaning",
    "sentence",
    "to_json",
]

SCHEMA = 1


# --- JSON -----------------------------------------------------------------------------------------------------------


def decision_to_json(decision: Decision, site: str, num_proc: int | None) -> dict[str, Any]:
    """The decision as plain JSON values."""
    return {
        "workers": decision.workers,
        "start_method": decision.start_method,
        "binding": decision.binding.code.value,
        "site": site,
        "num_proc": num_proc,
        "reasons": [
            {"code": reason.code.value, "limit": reason.limit, "seen": dict(reason.seen)} for reason in decision.reasons
        ],
    }


def findings_to_json(found: Iterable[Finding]) -> list[dict[str, str]]:
    """The findings as plain JSON values."""
    return [{"code": finding.code, "text": finding.text, "next": finding.next} for finding in found]


# --- text -----------------------------------------------------------------------------------------------------------


def size(count: int | None) -> str:
    """Bytes in the largest binary unit that keeps a figure before the point; "not known" for `None`."""
    if count is None:
        return "not known"
    for unit, width in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << width:
            return f"{count / (1 << width):.1f} {unit}"
    return f"{count} B"


def count_of(number: int) -> str:
    """A worker count in words: 0 is "in this process"."""
    return "in this process" if number == 0 else f"{number} workers"


def _cpus(seen: Mapping[str, Any]) -> str:
    figures = ", ".join(
        f"{name} {value:g}"
        for name, value in seen.items()
        if value is not None and name not in {"usable", "local_ranks"}
    )
    ranks = f", divided by {seen['local_ranks']} local ranks" if seen["local_ranks"] > 1 else ""
    if seen["usable"] is None:
        return "no cpu figure could be read"
    share = f"half of {seen['usable']} usable cpus, at least two" if seen["usable"] > 1 else "less than two usable cpus"
    return f"{share} ({figures}{ranks})"


def _memory(seen: Mapping[str, Any]) -> str:
    ranks = f" ÷ {seen['local_ranks']} local ranks" if seen["local_ranks"] > 1 else ""
    return (
        f"{size(seen['available'])} available ({seen['source']}) × {seen['memory_share']:g}{ranks}"
        f" ÷ {size(seen['bytes_per_worker'])} a worker covers {seen['affordable']}"
    )


def _rows(seen: Mapping[str, Any]) -> str:
    return f"{seen['rows']:,} rows (fewer than {seen['min_rows']:,} are mapped in process unless asked)"


def _pids(seen: Mapping[str, Any]) -> str:
    return f"{seen['pids_free']} processes and threads may be started; a worker takes {1 + seen['threads_per_worker']}"


def _spawn_not_ready(seen: Mapping[str, Any]) -> str:
    if seen["function"]:
        return f"workers start by {seen['start_method']}, but {seen['function']}"
    if seen["line"]:
        guard = f'put line {seen["line"]} of {seen["file"]} and what follows it under `if __name__ == "__main__":`'
        return f"workers start by {seen['start_method']} and would run {seen['file']} again: {guard}"
    return f"workers start by {seen['start_method']}, and cannot import a main module of kind “{seen['main']}”"


def _cost(seen: Mapping[str, Any]) -> str:
    seconds, best = seen["seconds_in_process"], seen["seconds_with_workers"]
    return f"predicted {seconds:.2f} s in process, {best:.2f} s with the best count"


_SOURCES = {
    "site": "this site uses it whatever the default is",
    "argument": "asked for",
    "environment": "set by DATASET_NUM_PROC_START_METHOD",
    "hazards": "a fork is not safe here",
    "default": "the default of the module",
}


def _start_method(seen: Mapping[str, Any]) -> str:
    hazards = f" — {'; '.join(seen['hazards'])}" if seen["hazards"] else ""
    return f"{seen['method']}: {_SOURCES[seen['source']]}{hazards}"


_SENTENCES: dict[ReasonCode, Callable[[Mapping[str, Any]], str]] = {
    ReasonCode.OVERRIDE: lambda seen: f"set by {seen['source'] or 'Settings.override'}, obeyed verbatim",
    ReasonCode.DAEMONIC: lambda seen: f"this process is a daemon of {seen['module']} and may not start workers",
    ReasonCode.IMPORTING: lambda seen: f"{seen['module']} is being imported: move the call under a function",
    ReasonCode.NO_START_METHOD: lambda seen: f"{seen['module']} offers no usable start method here",
    ReasonCode.SPAWN_NOT_READY: _spawn_not_ready,
    ReasonCode.ACCELERATOR_FORK: lambda seen: f"{', '.join(seen['initialised'])} is up here and the function uses it",
    ReasonCode.CPUS: _cpus,
    ReasonCode.MEMORY: _memory,
    ReasonCode.ROWS: _rows,
    ReasonCode.PIDS: _pids,
    ReasonCode.DEVICES: lambda seen: f"{seen['devices']} visible accelerators",
    ReasonCode.COST: _cost,
    ReasonCode.START_METHOD: _start_method,
}


def sentence(reason: Reason) -> str:
    """One reason in words, with its figures; where it has none, the meaning of its code."""
    words = _SENTENCES.get(reason.code)
    if words:
        return words(reason.seen)
    text = meaning(reason.code)
    return text[0].lower() + text[1:]


def meaning(code: ReasonCode) -> str:
    """The user-facing meaning of a code."""
    return (code.__doc__ or "").rstrip(".")


def in_one_line(decision: Decision, site: str) -> str:
    """The decision for a log line or a warning: what was asked, what is given, what bound it, how to overrule it."""
    asked = f"{decision.asked} asked, " if decision.reduced else ""
    way = f" by {decision.start_method}" if decision.workers else ""
    bound = decision.binding
    line = f"{site}: {asked}{count_of(decision.workers)}{way} ({bound.code.value}: {sentence(bound)})"
    return f"{line}. DATASET_NUM_PROC overrules." if decision.reduced and bound.code not in FINAL else line


def in_full(decision: Decision, site: str, num_proc: int | None) -> str:
    """The decision with every reason, the binding one first."""
    lines = [
        f"num_proc={num_proc} for {site}: {count_of(decision.workers)}"
        + (f", {decision.start_method}" if decision.workers else "")
    ]
    width = max(len(reason.code.value) for reason in decision.reasons)
    for place, reason in enumerate(decision.reasons):
        limit = "–" if reason.limit is None else str(reason.limit)
        lines.append(f"  {'→' if place == 0 else ' '} {reason.code.value:<{width}}  {limit:>5}  {sentence(reason)}")
    return "\n".join(lines)


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
           {_rank(process)}; processes that may be started: {_known(process.pids_free)}
workers    multiprocess (maps): {_method(snapshot.start_methods.multiprocess)}
           multiprocessing (exports, packing): {_method(snapshot.start_methods.multiprocessing)}
not known{unknown or "  nothing of the above"}"""


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


def findings_in_full(found: Iterable[Finding]) -> str:
    """The findings, each with its next step."""
    return "\n".join(f"! {finding.code}: {finding.text}\n  → {finding.next}" for finding in found) or "no findings"

"""Values → text for people, dicts for JSON.

One job: wording. Every figure in a sentence comes from a `Reason`'s `seen` or from the `Snapshot`; nothing is
computed here that a decision would rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dataset_num_proc.facts_report import facts_in_full, size
from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode
from dataset_num_proc.policy.findings import Finding
from dataset_num_proc.policy.replay import SCHEMA, from_json, to_json
from dataset_num_proc.policy.request import Settings

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
    "settings_to_json",
    "size",
    "to_json",
]


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


def settings_to_json(settings: Settings) -> dict[str, Any]:
    """What the operator said, as plain JSON values; `Settings(**…)` takes them back."""
    names = ("override", "override_source", "start_method")
    return {name: getattr(settings, name) for name in names}


def findings_to_json(found: Iterable[Finding]) -> list[dict[str, str]]:
    """The findings as plain JSON values."""
    return [{"code": finding.code, "text": finding.text, "next": finding.next} for finding in found]


# --- text -----------------------------------------------------------------------------------------------------------


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
        f" ÷ {size(seen['bytes_per_worker'])} a worker (bytes_per_worker) covers {seen['affordable']}"
    )


def _rows(seen: Mapping[str, Any]) -> str:
    few = f", and fewer than {seen['min_rows']:,} are mapped in process unless asked" if seen["few"] else ""
    return f"rows: {seen['rows']:,}{few}"


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
    text = meaning(reason.code).partition(". ")[0]
    return text[0].lower() + text[1:]


def meaning(code: ReasonCode) -> str:
    """The user-facing meaning of a code."""
    return (code.__doc__ or "").rstrip(".")


_OVERRULED = frozenset(
    {ReasonCode.CAP, ReasonCode.CPUS, ReasonCode.MEMORY, ReasonCode.ROWS, ReasonCode.PIDS, ReasonCode.COST}
)
"""Bounds that the operator may well overrule; behind the others stands a crash, a hang or wrong data."""


def in_one_line(decision: Decision, site: str) -> str:
    """The decision for a log line or a warning: what was asked, what is given, what bound it, how to overrule it."""
    asked = f"{decision.asked} asked, " if decision.reduced else ""
    way = f" by {decision.start_method}" if decision.workers else ""
    bound = decision.binding
    line = f"{site}: {asked}{count_of(decision.workers)}{way} ({bound.code.value}: {sentence(bound)})"
    remedy = decision.reduced and bound.code in _OVERRULED
    return f"{line}. To have {decision.asked} all the same: DATASET_NUM_PROC={decision.asked}" if remedy else line


def in_spite_of(decision: Decision) -> str | None:
    """What speaks against an override that is obeyed, in words; `None` where nothing does."""
    passed = [reason for reason in decision.reasons[1:] if reason.limit is None]
    against = "; ".join(sentence(reason) for reason in passed if reason.code is not ReasonCode.START_METHOD)
    if not decision.workers or not against:
        return None
    source = decision.binding.seen["source"] or "Settings.override"
    return f"{decision.workers} workers, as {source} says, although {against}"


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


def findings_in_full(found: Iterable[Finding]) -> str:
    """The findings, each with its next step."""
    return "\n".join(f"! {finding.code}: {finding.text}\n  → {finding.next}" for finding in found) or "no findings"

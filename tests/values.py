"""Snapshots from a few words, for tests that pass values.

One job: a large Linux machine that forks, changed by what a test names. Nothing here is read from the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dataset_num_proc.policy.decision import Decision, ReasonCode
from dataset_num_proc.policy.facts import (
    CpuFacts,
    LibraryFacts,
    MemoryFacts,
    ProcessFacts,
    Snapshot,
    StartMethodFacts,
    StartMethods,
)
from dataset_num_proc.policy.request import Request, Settings
from dataset_num_proc.policy.rules import decide

GIB = 1 << 30
MIB = 1 << 20
POSIX = ("fork", "spawn", "forkserver")

NO_CPUS = CpuFacts()
NO_MEMORY = MemoryFacts()


def starts(method: str | None, *, pinned: bool = False, offered: tuple[str, ...] = POSIX) -> StartMethodFacts:
    """Facts of one module's start method."""
    return StartMethodFacts(method, pinned=pinned, offered=offered)


def machine(method: Any = "fork", **facts: Any) -> Snapshot:  # noqa: ANN401 - typed by the parts
    """A machine with 64 cpus and 512 GiB free, whose two modules start workers by `method`.

    Args:
        method: start method of both modules; `multiprocess=` and `multiprocessing=` say it for one.
        **facts: fields of the snapshot's parts by name, such as `affinity=4, headroom=GIB`. `declared` is the
            processors', `memory_declared` the memory's; `datasets` is a release.
    """
    values: dict[str, Any] = {"host": 64, "affinity": 64, "available": 512 * GIB, "datasets": "5.2.0", **facts}
    memory_declared: Mapping[str, int] = values.pop("memory_declared", {})
    modules = {name: values.pop(name, method) for name in ("multiprocess", "multiprocessing")}
    methods = {name: facts if isinstance(facts, StartMethodFacts) else starts(facts) for name, facts in modules.items()}
    parts: dict[str, Any] = {}
    for name, kind in (
        ("cpu", CpuFacts),
        ("memory", MemoryFacts),
        ("process", ProcessFacts),
        ("libraries", LibraryFacts),
    ):
        own = {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}
        if name == "memory":
            own["declared"] = memory_declared
        parts[name] = kind(**own)
    return Snapshot(**parts, start_methods=StartMethods(**methods), **values)


def answer(
    value: object = None,
    snapshot: Snapshot | None = None,
    settings: Settings | None = None,
    **fields: Any,  # noqa: ANN401
) -> Decision:
    """The decision for `value` on `snapshot`, a large machine where not given."""
    return decide(Request.of(value, **fields), snapshot or machine(), settings)


def limits(decision: Decision) -> dict[ReasonCode, int | None]:
    """What each rule allowed."""
    return {reason.code: reason.limit for reason in decision.reasons}

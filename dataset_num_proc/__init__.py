"""How many workers, and how to start them: decided from what the machine really gives, and explained.

     environ ─► Settings ─┐
     caller  ─► Request ──┼─► decide() ─► Decision ─► encode(site) ─► num_proc=…          policy/   (pure)
     machine ─► Snapshot ─┘                  │                            │
       ▲ take_snapshot()                     └─► apply scope ─── call                     machine/

    import dataset_num_proc as dnp

    ds.map(f, num_proc=dnp.num_proc(16, rows=len(ds)))         # one call at a map site

    with dnp.workers(16, rows=len(ds)) as n:                   # decides, applies, restores
        ds = ds.map(f, num_proc=n)

Every name is imported when it is first used: importing the package itself loads nothing else. Type checkers read the
names in `__init__.pyi`.
"""

from __future__ import annotations

__version__ = "0.1.0"

_HOMES = {
    "api": ("decode", "encode", "mp_context", "num_proc", "plan", "take_snapshot", "workers"),
    "errors": (
        "ScopeBusy",
        "DatasetNumProcError",
        "DatasetNumProcWarning",
        "OversizeRow",
        "PackingError",
        "RowsLost",
        "SettingsError",
        "SettingsWarning",
        "SiteError",
        "StuckInTeardown",
        "UnsafeStartMethod",
        "UpstreamUnknown",
        "WorkerDied",
        "WorkerStalled",
        "WorkerStartFailed",
        "WorkersReduced",
    ),
    "mapping": ("filter", "map"),
    "policy.autopsy": ("Death", "Evidence", "MemoryEvidence", "Stalled", "Verdict"),
    "options": ("Options",),
    "policy.cost": ("Profile",),
    "policy.decision": ("Decision", "Reason", "ReasonCode"),
    "policy.facts": (
        "CpuFacts",
        "LibraryFacts",
        "MainModule",
        "MemoryFacts",
        "ProcessFacts",
        "Snapshot",
        "StartMethodFacts",
        "StartMethods",
        "Unreadable",
    ),
    "policy.request": ("Request", "Settings", "Workload"),
    "policy.rules": ("decide",),
    "report": ("from_json", "to_json"),
    "watching": ("Watch", "watch"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]  # noqa: PLE0604 - strings, all of them


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module  # not at the top: it would be most of what the package costs

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

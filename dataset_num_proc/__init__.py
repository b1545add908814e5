"""How many workers, and how to start them: decided from what the machine really gives, and explained.

     environ ─► Settings ─┐
     caller  ─► Request ──┼─► decide() ─► Decision ─► encode(site) ─► num_proc=…          policy/   (pure)
     machine ─► Snapshot ─┘                  │                            │
       ▲ take_snapshot()                     └─► apply scope ─── call                     machine/

    import dataset_num_proc as dnp

    ds.map(f, num_proc=dnp.num_proc(16, rows=len(ds)))         # one call at a map site

    with dnp.workers(16, rows=len(ds)) as n:                   # decides, applies, restores
        ds = ds.map(f, num_proc=n)

Every name is imported when it is first used: importing the package itself loads nothing else.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own, without importing typing: type checkers go by the name
if TYPE_CHECKING:
    from dataset_num_proc.api import Options, decode, encode, mp_context, num_proc, plan, take_snapshot, workers
    from dataset_num_proc.errors import (
        DatasetNumProcError,
        DatasetNumProcWarning,
        SettingsError,
        SettingsWarning,
        SiteError,
        UnsafeStartMethod,
        WorkersReduced,
    )
    from dataset_num_proc.policy.cost import Profile
    from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode
    from dataset_num_proc.policy.facts import (
        CpuFacts,
        LibraryFacts,
        MainModule,
        MemoryFacts,
        ProcessFacts,
        Snapshot,
        StartMethodFacts,
        StartMethods,
    )
    from dataset_num_proc.policy.request import Request, Settings, Workload
    from dataset_num_proc.policy.rules import decide
    from dataset_num_proc.report import from_json, to_json

__version__ = "0.1.0"

_HOMES = {
    "api": ("Options", "decode", "encode", "mp_context", "num_proc", "plan", "take_snapshot", "workers"),
    "errors": (
        "DatasetNumProcError",
        "DatasetNumProcWarning",
        "SettingsError",
        "SettingsWarning",
        "SiteError",
        "UnsafeStartMethod",
        "WorkersReduced",
    ),
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
    ),
    "policy.request": ("Request", "Settings", "Workload"),
    "policy.rules": ("decide",),
    "report": ("from_json", "to_json"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CpuFacts",
    "DatasetNumProcError",
    "DatasetNumProcWarning",
    "Decision",
    "LibraryFacts",
    "MainModule",
    "MemoryFacts",
    "Options",
    "ProcessFacts",
    "Profile",
    "Reason",
    "ReasonCode",
    "Request",
    "Settings",
    "SettingsError",
    "SettingsWarning",
    "SiteError",
    "Snapshot",
    "StartMethodFacts",
    "StartMethods",
    "UnsafeStartMethod",
    "WorkersReduced",
    "Workload",
    "__version__",
    "decide",
    "decode",
    "encode",
    "from_json",
    "mp_context",
    "num_proc",
    "plan",
    "take_snapshot",
    "to_json",
    "workers",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

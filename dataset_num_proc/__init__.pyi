from dataset_num_proc.api import decode, encode, mp_context, num_proc, plan, take_snapshot, workers
from dataset_num_proc.errors import (
    DatasetNumProcError,
    DatasetNumProcWarning,
    OversizeRow,
    PackingError,
    RowsLost,
    ScopeBusy,
    SettingsError,
    SettingsWarning,
    SiteError,
    StuckInTeardown,
    UnsafeStartMethod,
    UpstreamUnknown,
    WorkerDied,
    WorkersReduced,
    WorkerStalled,
    WorkerStartFailed,
)
from dataset_num_proc.mapping import filter, map  # noqa: A004 - the names that they have in `datasets`
from dataset_num_proc.options import Options
from dataset_num_proc.policy.autopsy import Death, Evidence, MemoryEvidence, Stalled, Verdict
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
    Unreadable,
)
from dataset_num_proc.policy.request import Request, Settings, Workload
from dataset_num_proc.policy.rules import decide
from dataset_num_proc.report import from_json, to_json
from dataset_num_proc.watching import Watch, watch

__version__: str

__all__ = [
    "CpuFacts",
    "DatasetNumProcError",
    "DatasetNumProcWarning",
    "Death",
    "Decision",
    "Evidence",
    "LibraryFacts",
    "MainModule",
    "MemoryEvidence",
    "MemoryFacts",
    "Options",
    "OversizeRow",
    "PackingError",
    "ProcessFacts",
    "Profile",
    "Reason",
    "ReasonCode",
    "Request",
    "RowsLost",
    "ScopeBusy",
    "Settings",
    "SettingsError",
    "SettingsWarning",
    "SiteError",
    "Snapshot",
    "Stalled",
    "StartMethodFacts",
    "StartMethods",
    "StuckInTeardown",
    "Unreadable",
    "UnsafeStartMethod",
    "UpstreamUnknown",
    "Verdict",
    "Watch",
    "WorkerDied",
    "WorkerStalled",
    "WorkerStartFailed",
    "WorkersReduced",
    "Workload",
    "__version__",
    "decide",
    "decode",
    "encode",
    "filter",
    "from_json",
    "map",
    "mp_context",
    "num_proc",
    "plan",
    "take_snapshot",
    "to_json",
    "watch",
    "workers",
]

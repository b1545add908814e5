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

__version__: str

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

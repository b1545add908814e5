"""The axes of the matrix: for each, its values by label.

One job: to list what is varied. It knows nothing of the rules and of the laws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataset_num_proc.policy.cost import Profile
from dataset_num_proc.policy.encoding import SITES
from dataset_num_proc.policy.facts import FORK, FORKSERVER, SPAWN, MainModule
from dataset_num_proc.policy.request import GIB, Workload

MIB = 1 << 20
Labels = dict[str, str]
"""A cell: the label of its value on every axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        values: what each label stands for; the first is the default.
        weight: how often the default is taken again before each other label, so that vetoes do not hide the ceilings.
        descending: labels from the most generous value to the tightest, where the values are limits.
    """

    values: Mapping[str, Any]
    weight: int = 0
    descending: tuple[str, ...] = ()

    @property
    def default(self) -> str:
        """The label that says nothing of note."""
        return next(iter(self.values))

    @property
    def spread(self) -> tuple[str, ...]:
        """The labels, each as often as it is to be taken."""
        default, *others = self.values
        return (default, *(label for other in others for label in (*[default] * self.weight, other)))


def _plain(*values: object) -> dict[str, Any]:
    return {str(value).lower(): value for value in values}


def _gib(*counts: float) -> dict[str, Any]:
    return {f"{count:g} GiB": int(count * GIB) for count in counts}


def _limits(values: dict[str, Any], *, first: str | None = None, weight: int = 0) -> Axis:
    """Limits, from the most generous to the tightest; `first` is the default, else the most generous."""
    order = sorted(values, key=lambda label: label != (first or next(iter(values))))
    return Axis({label: values[label] for label in order}, weight, tuple(values))


MACHINE_AXES: dict[str, Axis] = {
    "platform": Axis(_plain("linux", "darwin", "win32"), 2),
    "multiprocess": Axis(_plain(FORK, SPAWN, FORKSERVER, None), 2),
    "multiprocessing": Axis(_plain(FORK, SPAWN, FORKSERVER, None), 2),
    "python": Axis(_plain("3.11.7", "3.10.12", "3.12.4", "3.13.1", "3.14.0")),
    "datasets": Axis(_plain("5.2.0", "3.4.1", "3.6.0", "4.0.0", "4.1.0", "4.7.0", "4.8.0", None)),
    "ranks": Axis({"1": (1, False), "2": (2, False), "8": (8, False), "8 with cpus of their own": (8, True)}),
    "hazards": Axis(
        {
            "none": {},
            "cuda, 1 device": {"accelerators": frozenset({"cuda"}), "accelerator_count": 1},
            "cuda, 8 devices": {"accelerators": frozenset({"cuda", "/dev/nvidia0"}), "accelerator_count": 8},
            "xpu": {"accelerators": frozenset({"xpu"})},
            "jax and ray": {"accelerators": frozenset({"jax"}), "runtimes": frozenset({"ray"})},
            "distributed": {"distributed": True},
            "native threads": {"threads": 9, "python_threads": 2},
        },
        2,
    ),
    "daemonic": Axis(
        {
            "no": {"multiprocess": False, "multiprocessing": False},
            "in multiprocess": {"multiprocess": True, "multiprocessing": False},
            "in multiprocessing": {"multiprocess": False, "multiprocessing": True},
            "in both": {"multiprocess": True, "multiprocessing": True},
        },
        4,
    ),
    "importing": Axis(_plain(None, "train"), 7),
    "main": Axis({main.value: main for main in MainModule}, 2),
    "host cpus": Axis({**_plain(64, 192, 16, 4, 2, 1), "unknown": None}, descending=("192", "64", "16", "4", "2", "1")),
    "affinity": _limits(_plain(None, 64, 12, 3, 1), weight=2),
    "quota": _limits(_plain(None, 8.0, 2.5, 1.9, 0.5), weight=2),
    "declared cpus": _limits(
        {
            "none": {},
            "SLURM_CPUS_PER_TASK=12": {"SLURM_CPUS_PER_TASK": 12},
            "NSLOTS=4": {"NSLOTS": 4},
            "PYTHON_CPU_COUNT=1": {"PYTHON_CPU_COUNT": 1},
        },
        weight=2,
    ),
    "host memory": _limits({"unknown": None, **_gib(2048, 512, 64, 22, 7, 0.5)}, first="512 GiB"),
    "group memory": _limits({"none": None, **_gib(200, 32, 11, 0.5)}, weight=2),
    "cache in the group": _limits({"all that is used": 1.0, "half": 0.5, "none": 0.0}),
    "declared memory": _limits(
        {
            "none": {},
            "SLURM_MEM_PER_NODE=48 GiB": {"SLURM_MEM_PER_NODE": 48 * GIB},
            "SLURM_MEM_PER_NODE=3 GiB": {"SLURM_MEM_PER_NODE": 3 * GIB},
        },
        weight=2,
    ),
    "pids": _limits(_plain(None, 4000, 150, 40, 9), weight=2),
}
MEMORY_AXES = ("host memory", "group memory", "cache in the group", "declared memory")
CPU_AXES = ("host cpus", "affinity", "quota", "declared cpus")

_COMPUTES = Profile(wall_seconds_per_row=2e-3, cpu_seconds_per_row=2e-3)
_WAITS = Profile(wall_seconds_per_row=2e-2, cpu_seconds_per_row=1e-3, bytes_per_worker=300 * MIB)
_LIGHT = Profile(wall_seconds_per_row=2e-6, cpu_seconds_per_row=2e-6, bytes_per_worker=90 * MIB, payload_bytes=40 * MIB)

QUESTION_AXES: dict[str, Axis] = {
    "site": Axis(dict.fromkeys(SITES)),
    "override": Axis(_plain(None, 0, 1, 2, 7, 100), 3),
    "settings": Axis(
        {
            "default": {},
            "cap of 3": {"auto_cap": 3},
            "no automatic workers": {"auto_cap": 0},
            "tight memory": {"memory_share": 0.25, "bytes_per_worker": 2 * GIB},
            "few rows will do": {"min_rows": 30, "auto_cap": 24},
            "packing by spawn": {"start_method": SPAWN},
            "packing by fork": {"start_method": FORK},
        }
    ),
    "work": Axis(
        {
            "map": {},
            "64 MiB a worker": {"bytes_per_worker": 64 * MIB},
            "5 GiB a worker": {"bytes_per_worker": 5 * GIB},
            "computes": {"profile": _COMPUTES},
            "waits": {"profile": _WAITS},
            "light": {"profile": _LIGHT},
            "side effects": {"side_effects": True},
            "uses an accelerator": {"touches_accelerator": True},
            "cannot be sent": {"spawn_ready": False, "spawn_problem": "a lambda"},
            "streamed": {"streaming": True},
            "eight threads a worker": {"threads_per_worker": 8},
            "start method auto": {"start_method": "auto"},
            "start method spawn": {"start_method": SPAWN, "spawn_ready": True},
            "start method fork": {"start_method": FORK},
            "packing": {"workload": Workload.PACKING},
            "packing by forkserver": {"workload": Workload.PACKING, "start_method": FORKSERVER},
            "packing with an accelerator": {"workload": Workload.PACKING, "touches_accelerator": True},
        }
    ),
    "rows": _limits(_plain(None, 1_000_000, 5000, 4999, 40, 1)),
    "request": Axis({"auto": None, **_plain(0, 2, 5, 16, 100)}),
}
AXES: dict[str, Axis] = {**MACHINE_AXES, **QUESTION_AXES}

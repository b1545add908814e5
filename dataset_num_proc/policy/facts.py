"""What the machine says, as values: `Snapshot` and its parts.

One job: to hold the facts that a decision rests on. It may not read anything: `dataset_num_proc.machine` fills it in.

`None` always means "not known"; `Snapshot.unreadable` then says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

FORK, SPAWN, FORKSERVER = "fork", "spawn", "forkserver"


class MainModule(str, Enum):
    """What `__main__` is, as far as a freshly started child could import it again."""

    MODULE = "module"
    """Run by `python -m`, or a console script: importable by name."""
    FILE = "file"
    """A script whose work stands under an `if __name__ == "__main__"` guard."""
    UNGUARDED = "unguarded"
    """A script that does its work while it is imported."""
    STDIN = "stdin"
    """Piped into the interpreter: there is nothing to import."""
    COMMAND = "command"
    """`python -c`: the child's `__main__` has none of its names."""
    INTERACTIVE = "interactive"
    """A prompt or a notebook: the child's `__main__` has none of its names."""
    UNKNOWN = "unknown"
    """No file, no spec: an embedded interpreter, or a source that cannot be read."""


IMPORTABLE_MAINS = frozenset({MainModule.MODULE, MainModule.FILE})


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """Processors that this process may use.

    Attributes:
        host: processors online on the machine.
        affinity: processors in this process's affinity mask (already within its cpuset).
        quota: the tightest cgroup bandwidth quota, in cores (0.5 is half a core), from its own group up to the root.
        quota_source: the file that set `quota`.
        declared: scheduler variables by name, in cores. They only ever lower an answer.
    """

    host: int | None = None
    affinity: int | None = None
    quota: float | None = None
    quota_source: str | None = None
    declared: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a quota that no count could be made of."""
        if self.quota is not None and not 0 < self.quota < MOST_CORES:
            message = f"CpuFacts.quota={self.quota!r}: accepted is None, or cores above 0"
            raise ValueError(message)


MOST_CORES = 1e9
"""A quota of so many cores limits nothing on any machine."""


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Memory that this process may take, in bytes.

    Attributes:
        available: what the host can give without swapping (`MemAvailable`).
        headroom: the tightest `limit − (usage − reclaimable)` of every control group from the process's own up to the
            root.
        limit: the limit of the group that gives `headroom`.
        headroom_source: the file that set `limit`.
        declared: scheduler limits by variable name, for the whole node. They only ever lower an answer.
        shm_free: free bytes of `/dev/shm`.
    """

    available: int | None = None
    headroom: int | None = None
    limit: int | None = None
    headroom_source: str | None = None
    declared: Mapping[str, int] = field(default_factory=dict)
    shm_free: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Live state of the process that would start the workers.

    Attributes:
        platform: `sys.platform`.
        python: version, as "3.11.7".
        daemonic: per module ("multiprocess", "multiprocessing"), whether this process may not have children there.
        threads: threads that the kernel counts in this process.
        main: what `__main__` is.
        accelerators: accelerator runtimes that are up here: "cuda", "xpu", "npu", "mlu", "musa", "hpu", "jax", or the
            device node that is held open ("/dev/nvidia0"), whatever library opened it.
        distributed: a collective runtime is up here (torch.distributed, DeepSpeed, NCCL).
        local_rank: this process's rank on its node, where a launcher said so.
        local_world_size: ranks on this node, 1 without a launcher.
        pids_free: processes and threads that may still be started.
        python_threads: threads that Python itself started, this one included; the rest of `threads` are native.
        runtimes: other runtimes up here whose threads do not survive a fork, such as "ray".
        importing: the module whose import is in progress on this thread.
        main_file: base name of the main script.
        main_line: the first line of the main script that a child would run again, where it is unguarded.
        cpus_per_rank: the launcher gave each local rank cpus of its own: affinity and per-task variables are then this
            rank's share already.
        accelerator_count: accelerators visible to this process, where that can be told without asking a driver.
    """

    platform: str = "linux"
    python: str = "3.11.0"
    daemonic: Mapping[str, bool] = field(default_factory=lambda: {"multiprocess": False, "multiprocessing": False})
    threads: int | None = 1
    main: MainModule = MainModule.MODULE
    accelerators: frozenset[str] = frozenset()
    distributed: bool = False
    local_rank: int | None = None
    local_world_size: int = 1
    pids_free: int | None = None
    python_threads: int | None = 1
    runtimes: frozenset[str] = frozenset()
    importing: str | None = None
    main_file: str | None = None
    main_line: int | None = None
    cpus_per_rank: bool = False
    accelerator_count: int | None = None

    def __post_init__(self) -> None:
        """Refuse a node without ranks: this process is one."""
        if self.local_world_size < 1:
            message = f"ProcessFacts.local_world_size={self.local_world_size!r}: accepted is at least 1"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class StartMethodFacts:
    """Start method of one module.

    Attributes:
        method: the method that the module's next pool would really use.
        pinned: whether the module's default context is fixed already.
        offered: the methods that the module offers here, its own order.
    """

    method: str | None = None
    pinned: bool = False
    offered: tuple[str, ...] = ()


_POSIX = StartMethodFacts(FORK, pinned=False, offered=(FORK, SPAWN, FORKSERVER))


@dataclass(frozen=True, slots=True)
class StartMethods:
    """Start methods of the two modules, never merged: `datasets` maps through one and exports through the other."""

    multiprocess: StartMethodFacts = _POSIX
    multiprocessing: StartMethodFacts = _POSIX

    def of(self, module: str) -> StartMethodFacts:
        """Facts of the module named `module`."""
        return self.multiprocessing if module == "multiprocessing" else self.multiprocess


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """Installed versions, `None` where a library is not installed. Read without importing it."""

    datasets: str | None = None
    multiprocess: str | None = None
    torch: str | None = None

    @property
    def datasets_version(self) -> tuple[int, ...]:
        """`datasets` as a tuple; the newest known behaviour where it is not installed."""
        return version_tuple(self.datasets) or NEWEST_DATASETS


NEWEST_DATASETS = (5, 2, 0)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A fact that could not be had, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision rests on, at one moment."""

    cpu: CpuFacts = field(default_factory=CpuFacts)
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    process: ProcessFacts = field(default_factory=ProcessFacts)
    start_methods: StartMethods = field(default_factory=StartMethods)
    libraries: LibraryFacts = field(default_factory=LibraryFacts)
    unreadable: tuple[Unreadable, ...] = ()


@lru_cache(maxsize=64)
def version_tuple(text: str | None) -> tuple[int, ...]:
    """The leading numbers of a version: "4.0.0.dev1" is (4, 0, 0); empty where there are none."""
    numbers: list[int] = []
    for part in (text or "").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if digits:
            numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)

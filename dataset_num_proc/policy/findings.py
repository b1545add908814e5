"""What is wrong with a machine or a process for worker pools, each with one next step.

One job: snapshot, settings and environment → `Finding`s for `doctor`. A limit that works as it should is no finding;
a fact that would end in a dead, stuck or missing worker is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dataset_num_proc.policy.case import available_memory
from dataset_num_proc.policy.ceilings import POOL_PIDS
from dataset_num_proc.policy.facts import FORK, IMPORTABLE_MAINS, MainModule, Snapshot
from dataset_num_proc.policy.request import GIB, Settings
from dataset_num_proc.policy.start_method import fork_hazards

SMALL_SHM = 256 << 20
"""Docker gives /dev/shm 64 MiB unless asked; one batch of a DataLoader worker can be more, and ends in SIGBUS."""
SOCKET_PATH = 107
"""Bytes of an AF_UNIX path on Linux, without the final zero (`sun_path`, unix(7))."""
SOCKET_NAME = 40
"""What the manager adds to the temporary folder: "/pymp-xxxxxxxx/listener-xxxxxxxx" and room for counters."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend.

    Attributes:
        code: a stable name.
        text: what was found.
        next: one next step.
    """

    code: str
    text: str
    next: str


Check = Callable[[Snapshot, Settings, Mapping[str, str]], "Finding | None"]


def findings(snapshot: Snapshot, settings: Settings, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Everything found, in the order of `CHECKS`; empty where nothing is wrong."""
    return tuple(found for check in CHECKS if (found := check(snapshot, settings, environ)) is not None)


def _ignored_variable(_snapshot: Snapshot, settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    if not settings.ignored:
        return None
    texts = "; ".join(f"{item.variable}={item.text!r}" for item in settings.ignored)
    accepted = "; ".join(f"{item.variable}: {item.accepted}" for item in settings.ignored)
    return Finding("variable-ignored", f"Set, but not usable: {texts}.", f"Accepted is {accepted}; or unset it.")


def _memory_unknown(snapshot: Snapshot, _settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    if available_memory(snapshot)[0] is not None:
        return None
    text = "Neither the free memory of the host nor that of a control group can be read: no count is bounded by memory."
    return Finding("memory-unknown", text, "Pass a count that you know fits, or set DATASET_NUM_PROC.")


def _memory_short(snapshot: Snapshot, settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    available, source = available_memory(snapshot)
    needed = 2 * settings.bytes_per_worker * snapshot.process.local_world_size / settings.memory_share
    if available is None or available >= needed:
        return None
    text = f"{available / GIB:.1f} GiB available ({source}) do not cover two workers on each rank: maps run in process."
    return Finding("memory-short", text, "Pass bytes_per_worker= where you know that a worker needs less.")


def _few_pids(snapshot: Snapshot, settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    free, ranks = snapshot.process.pids_free, snapshot.process.local_world_size
    if free is None or free // ranks >= POOL_PIDS + 2 * settings.auto_cap:
        return None
    text = f"Only {free} more processes and threads may be started here."
    return Finding("few-pids", text, "Raise pids.max or `ulimit -u`, or set OMP_NUM_THREADS=1.")


def _small_shm(snapshot: Snapshot, _settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    free = snapshot.memory.shm_free
    if free is None or free >= SMALL_SHM:
        return None
    text = f"Only {free >> 20} MiB of /dev/shm are free: workers that share tensors there die of a bus error."
    return Finding("small-shm", text, "Start the container with --shm-size=1g (maps are not affected).")


def _long_tmpdir(snapshot: Snapshot, _settings: Settings, environ: Mapping[str, str]) -> Finding | None:
    folder = next((environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)), "")
    if snapshot.process.platform == "win32" or len(folder.encode()) + SOCKET_NAME <= SOCKET_PATH:
        return None
    length = len(folder.encode())
    text = f"TMPDIR is {length} bytes long: a pool's sockets live there, and a socket's path may have {SOCKET_PATH}."
    return Finding("long-tmpdir", text, "Set TMPDIR to a short folder, such as /tmp.")


def _methods_differ(snapshot: Snapshot, _settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    maps, others = snapshot.start_methods.multiprocess, snapshot.start_methods.multiprocessing
    if not others.pinned or others.method == maps.method:
        return None
    text = (
        f"multiprocessing was set to {others.method}, but datasets maps through multiprocess, which uses {maps.method}."
    )
    return Finding("start-methods-differ", text, "Set multiprocess's method too, or pass start_method= to workers().")


def _fork_with_hazards(snapshot: Snapshot, _settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    hazards = fork_hazards(snapshot.process)
    if not hazards or snapshot.start_methods.multiprocess.method != FORK:
        return None
    text = f"Forked workers share a state that cannot be forked: {'; '.join(hazards)}."
    return Finding("fork-hazards", text, 'Map before that is up, or use workers(start_method="auto").')


def _main_not_importable(snapshot: Snapshot, _settings: Settings, _environ: Mapping[str, str]) -> Finding | None:
    process = snapshot.process
    if process.main in IMPORTABLE_MAINS or snapshot.start_methods.multiprocess.method == FORK:
        return None
    where = process.main_file or process.main.value
    text = f"Workers are fresh interpreters here, and {where} cannot be imported again without doing its work."
    guard = f'Put line {process.main_line} of {where} and what follows under `if __name__ == "__main__":`.'
    return Finding(
        "unguarded-main", text, guard if process.main is MainModule.UNGUARDED else "Run the work from a script file."
    )


def _nvml_check(snapshot: Snapshot, _settings: Settings, environ: Mapping[str, str]) -> Finding | None:
    if (
        snapshot.libraries.torch is None
        or not snapshot.process.accelerator_count
        or environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") == "1"
    ):
        return None
    text = "torch.cuda.is_available() and device_count() initialise the driver, after which a fork is not safe, unseen."
    return Finding("nvml-check", text, "Set PYTORCH_NVML_BASED_CUDA_CHECK=1 before Python starts.")


CHECKS: tuple[Check, ...] = (
    _ignored_variable,
    _memory_unknown,
    _memory_short,
    _few_pids,
    _small_shm,
    _long_tmpdir,
    _methods_differ,
    _fork_with_hazards,
    _main_not_importable,
    _nvml_check,
)

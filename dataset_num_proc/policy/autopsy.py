"""What killed a worker: evidence in, verdict out.

One job: to name the cause of the first death, or of a stall, from what was seen. It may not look at the machine, and
blames memory on evidence alone: a segmentation fault beside a full memory is a segmentation fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dataset_num_proc.policy.described import Described

_IMPORT_ERRORS = ("ModuleNotFoundError", "ImportError", "AttributeError", "NameError", "FileNotFoundError")
_SILENCE = ("EOFError", "BrokenPipeError", "ConnectionResetError")
_WITHOUT_MANAGER = (*_SILENCE, "ConnectionRefusedError", "FileNotFoundError")
"""What a worker raises that asks a manager which is gone; its socket may be gone too."""


class Verdict(Described):
    """What ended a worker. Each member carries its meaning for users as its docstring."""

    OUT_OF_MEMORY = "out-of-memory", "The kernel killed it to have memory back."
    KILLED = "killed", "It got SIGKILL, and nothing shows that the kernel sent it for memory."
    SEGFAULT = "segfault", "It touched memory that is not its own: a crash in compiled code."
    BUS_ERROR = "bus-error", "It touched a mapped page that could not be had: a file cut short, or a full file system."
    ABORTED = "aborted", "Compiled code gave up by itself."
    SIGNALLED = "signalled", "Another signal ended it; SIGTERM comes from outside: a scheduler, a preemption, a user."
    EXITED = "exited", "Something in it called exit before its work was done."
    IMPORT_FAILED = "import-failed", "It could not import the main module, or could not have the function."
    START_FAILED = "start-failed", "It could not be started."
    MANAGER_DIED = "manager-died", "The process that carries the workers' results ended."
    STALLED = "stalled", "No progress, and no worker used a processor or a disk, for as long as was allowed."
    UNKNOWN = "unknown", "It ended, and how is not known."


@dataclass(frozen=True, slots=True)
class Death:
    """One process that ended.

    Attributes:
        pid: of the process; `None` where it never had one.
        exit_code: its status, negative for a signal; `None` where it is not known.
        role: "worker" or "manager".
        shard: number of the shard that it worked on.
        rows: first row, and the one after the last, that it had still to do.
        peak_bytes: the most memory that it held at once.
        trace: what `faulthandler` wrote as it died.
        error: text of an exception outside the user's function: an import, a function that does not arrive.
        signal: name of the signal that ended it, "SIGKILL", where one did.
    """

    pid: int | None
    exit_code: int | None
    role: str = "worker"
    shard: int | None = None
    rows: tuple[int, int] | None = None
    peak_bytes: int | None = None
    trace: str = ""
    error: str = ""
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """Whether the kernel killed for memory while the workers ran, and how full the group was. In bytes.

    Attributes:
        group_kills: kills counted in the process's own group; `None` where no such counter can be read.
        ancestor_kills: kills counted in the groups above it, where those say more than the own.
        host_kills: kills on the whole machine (`/proc/vmstat`), neighbours' among them.
        named_in_kernel_log: whether the kernel's log names the first dead pid; `None` where it cannot be read.
        limit: the tightest limit of the groups.
        usage: what the group used at the death.
        source: the file of the counter that rose, else of the limit.
        before: the counter in `source` before.
    """

    group_kills: int | None = None
    ancestor_kills: int | None = None
    host_kills: int | None = None
    named_in_kernel_log: bool | None = None
    limit: int | None = None
    usage: int | None = None
    source: str | None = None
    before: int | None = None

    @property
    def proven(self) -> bool:
        """Whether it is certain that a process of this group was killed for memory."""
        return bool(self.named_in_kernel_log or self.group_kills)

    @property
    def killed(self) -> bool:
        """Whether the kernel killed for memory, surely or very likely.

        The kernel counts every kill in the victim's own group, whoever ran out. Where that counter can be read and
        stands still, a kill elsewhere on the machine was a neighbour's.
        """
        if self.proven:
            return True
        return self.group_kills is None and bool(self.ancestor_kills or self.host_kills)


@dataclass(frozen=True, slots=True)
class Stalled:
    """One worker that did nothing.

    Attributes:
        pid: of the worker.
        state: the kernel's letter for it: "S" sleeping, "T" stopped.
        stack: what it was doing, as `faulthandler` wrote it; empty where it could not be had.
        rows: the row that it has had all that time, and the one after it, where that is known.
    """

    pid: int
    state: str
    stack: str = ""
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen of one pool.

    Attributes:
        deaths: who ended before the pool's own teardown, in order of time. Clean exits of spent workers, replacements,
            and what the teardown ended are not in it.
        exit_codes: status by pid of every process of the pool.
        memory: kills and limits.
        shm_free, disk_free, pids_free: free bytes of `/dev/shm` and of the folder for temporary files, and tasks that
            may still be started, at the first death.
        address_space: bytes that each process may map at most (`ulimit -v`); `None` where there is no such limit.
        start_method: how the workers were started.
        start_error: text of the error that kept a process from starting.
        stalled: every worker, where none made progress.
        stalled_for: seconds without progress.
        importing: the module whose import was in progress on the thread that made the pool.
        peak_bytes: the most memory that any one worker held at once.
    """

    deaths: tuple[Death, ...] = ()
    exit_codes: Mapping[int, int | None] = field(default_factory=dict)
    memory: MemoryEvidence = field(default_factory=MemoryEvidence)
    shm_free: int | None = None
    disk_free: int | None = None
    pids_free: int | None = None
    address_space: int | None = None
    start_method: str | None = None
    start_error: str = ""
    stalled: tuple[Stalled, ...] = ()
    stalled_for: float = 0.0
    importing: str | None = None
    peak_bytes: int | None = None


# By name: the number of SIGBUS is 7 on Linux and 10 on macOS, where 10 is SIGUSR1 on Linux.
_SIGNALS = {
    "SIGKILL": Verdict.KILLED,
    "SIGSEGV": Verdict.SEGFAULT,
    "SIGBUS": Verdict.BUS_ERROR,
    "SIGABRT": Verdict.ABORTED,
}


def autopsy(evidence: Evidence) -> Verdict:
    """The verdict on the first death, else on the failed start, else on the stall."""
    if evidence.start_error:
        return _of_failed_start(evidence)
    if evidence.deaths:
        return _of_death(evidence.deaths[0], evidence)
    return Verdict.STALLED if evidence.stalled else Verdict.UNKNOWN


def cause_first(deaths: tuple[Death, ...]) -> tuple[Death, ...]:
    """`deaths`, with the manager's first where the first worker ended for want of it.

    A worker that still takes its queue when the manager is killed fails at once, and may be seen to end before it.
    """
    managers = tuple(death for death in deaths if death.role == "manager")
    if not managers or deaths[0].signal is not None or not any(name in deaths[0].error for name in _WITHOUT_MANAGER):
        return deaths
    return (*managers, *(death for death in deaths if death.role != "manager"))


def _of_failed_start(evidence: Evidence) -> Verdict:
    """Of a process that did not come as far as to answer.

    What the parent then has is the end of a pipe: no more than that the child is gone. How it went is in its status,
    and where there is none, in the kernel's counters; a child that failed by itself has said so.
    """
    first = evidence.deaths[0] if evidence.deaths else Death(None, None)
    if first.signal is not None:
        return _of_death(first, evidence)
    if first.exit_code is None and evidence.memory.proven and _is_silence(first.error or evidence.start_error):
        return Verdict.OUT_OF_MEMORY
    return _of_start(first.error or evidence.start_error)


def _is_silence(text: str) -> bool:
    return last_error(text).startswith(_SILENCE)


def _of_start(text: str) -> Verdict:
    """Of a process that ended with an exception before it had work to do."""
    return Verdict.IMPORT_FAILED if last_error(text).startswith(_IMPORT_ERRORS) else Verdict.START_FAILED


def last_error(text: str) -> str:
    """The exception that a traceback ends with, in one line: its type, and the beginning of its text.

    What stands at the margin is a type or a heading; a text of several lines is mostly indented.
    """
    lines = text.strip().splitlines()
    place = max((at for at, line in enumerate(lines) if line[:1].strip()), default=0)
    return " ".join(line.strip() for line in lines[place : place + 4]).strip()


def _of_death(death: Death, evidence: Evidence) -> Verdict:
    if death.signal == "SIGKILL" and evidence.memory.killed:
        return Verdict.OUT_OF_MEMORY
    if death.role == "manager":
        return Verdict.MANAGER_DIED
    if death.exit_code is None:
        return Verdict.UNKNOWN
    if death.exit_code < 0:
        return _SIGNALS.get(death.signal or "", Verdict.SIGNALLED)
    return _of_start(death.error) if death.error else Verdict.EXITED

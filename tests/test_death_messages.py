"""What the errors of dead, stuck and unstartable workers say, word for word; that they pickle and are RuntimeErrors."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from dataset_num_proc.death_report import death_message, teardown_message
from dataset_num_proc.errors import WorkerDied, WorkerStalled, WorkerStartFailed
from dataset_num_proc.policy.autopsy import Death, Evidence, MemoryEvidence, Stalled, Verdict, autopsy
from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode

DECISION = Decision(4, "fork", (Reason(ReasonCode.ASKED, 4),))
TRACE = (
    'Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File "a.py", line 9 in f'
)
GHOST = "Traceback (most recent call last):\n  File \"x\"\nModuleNotFoundError: No module named 'ghost'"
STACK = (
    'Thread 0x2 (most recent call first):\n  File "c.py", line 3 in follow\n\n'
    'Current thread 0x1 (most recent call first):\n  File "a.py", line 6 in locked\n  File "b.py", line 2 in run'
)
MESSAGES = {
    "out of memory": (
        Evidence(
            deaths=(Death(7, -9, shard=2, rows=(4000, 6000), peak_bytes=1288490189, signal="SIGKILL"),),
            memory=MemoryEvidence(group_kills=1, limit=4 << 30, source="/sys/fs/cgroup/memory.events", before=3),
        ),
        """\
Worker 7 was ended by signal 9 (SIGKILL): out of memory
  means    The kernel killed it to have memory back.
  work     shard 2, within rows 4000 to 5999
  seen     /sys/fs/cgroup/memory.events counted 3 → 4 kills for memory; limit 4.0 GiB; the worker held 1.2 GiB at most
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     use fewer workers (DATASET_NUM_PROC=2), or a smaller batch_size and writer_batch_size""",
    ),
    "very likely out of memory": (
        Evidence(deaths=(Death(7, -9, signal="SIGKILL"),), memory=MemoryEvidence(host_kills=2)),
        """\
Worker 7 was ended by signal 9 (SIGKILL): very likely out of memory
  means    The kernel killed it to have memory back.
  seen     the machine counted 2 kills for memory, the group's own counter cannot be read
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     use fewer workers (DATASET_NUM_PROC=2), or a smaller batch_size and writer_batch_size""",
    ),
    "killed": (
        Evidence(deaths=(Death(7, -9, signal="SIGKILL"),), memory=MemoryEvidence(group_kills=0, host_kills=1)),
        """\
Worker 7 was ended by signal 9 (SIGKILL): killed
  means    It got SIGKILL, and nothing shows that the kernel sent it for memory.
  seen     no kill for memory was counted: a user, a scheduler or a memory guard sent it
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     look for who sent it: `dmesg | tail`, the scheduler's log, earlyoom or systemd-oomd""",
    ),
    "segfault": (
        Evidence(
            deaths=(
                Death(7, -11, shard=0, rows=(7, 20), signal="SIGSEGV", trace=TRACE),
                Death(8, -9, signal="SIGKILL"),
            )
        ),
        """\
Worker 7 was ended by signal 11 (SIGSEGV): segfault
  means    It touched memory that is not its own: a crash in compiled code.
  work     shard 0, within rows 7 to 19
  said     Fatal Python error: Segmentation fault; File "a.py", line 9 in f
  others   Worker 8 was ended by signal 9 (SIGKILL)
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     map a few of these rows with num_proc=None in a process of its own: `python -X faulthandler`""",
    ),
    "bus error": (
        Evidence(deaths=(Death(7, -7, signal="SIGBUS"),), shm_free=0, disk_free=3 << 30),
        """\
Worker 7 was ended by signal 7 (SIGBUS): bus error
  means    It touched a mapped page that could not be had: a file cut short, or a full file system.
  seen     0 B free in /dev/shm, 3.0 GiB on the disk for temporary files
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     free /dev/shm (docker: --shm-size) or the disk, or find who truncates a file in use""",
    ),
    "aborted": (
        Evidence(deaths=(Death(7, -6, signal="SIGABRT"),), memory=MemoryEvidence(group_kills=1)),
        """\
Worker 7 was ended by signal 6 (SIGABRT): aborted
  means    Compiled code gave up by itself.
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     map a few of these rows with num_proc=None in a process of its own: what it wrote to stderr says why""",
    ),
    "aborted under a limit": (
        Evidence(deaths=(Death(7, -6, signal="SIGABRT"),), address_space=4 << 30),
        """\
Worker 7 was ended by signal 6 (SIGABRT): aborted
  means    Compiled code gave up by itself.
  seen     each process may map 4.0 GiB (ulimit -v); one that is refused more may abort
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     map a few of these rows with num_proc=None in a process of its own: what it wrote to stderr says why""",
    ),
    "signalled": (
        Evidence(deaths=(Death(7, -15, signal="SIGTERM"),), memory=MemoryEvidence(group_kills=1)),
        """\
Worker 7 was ended by signal 15 (SIGTERM): signalled
  means    Another signal ended it; SIGTERM comes from outside: a scheduler, a preemption, a user.
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     look for who sent it: a scheduler, a preemption, a time limit""",
    ),
    "unknown": (
        Evidence(deaths=(Death(7, None),)),
        """\
Worker 7 ended: unknown
  means    It ended, and how is not known.
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     map a few of these rows with num_proc=None in a process of its own""",
    ),
    "exited": (
        Evidence(deaths=(Death(7, 0),)),
        """\
Worker 7 exited with status 0: exited
  means    Something in it called exit before its work was done.
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     look for os._exit or sys.exit in the function and in the libraries that it calls""",
    ),
    "import failed": (
        Evidence(deaths=(Death(7, 1, error=GHOST),)),
        """\
Worker 7 exited with status 1: import failed
  means    It could not import the main module, or could not have the function.
  said     ModuleNotFoundError: No module named 'ghost'
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     move the function to a module that a fresh interpreter can import, or use fork""",
    ),
    "start failed": (
        Evidence(start_error="BlockingIOError: [Errno 11] Resource temporarily unavailable", pids_free=0),
        """\
A worker could not be started: start failed
  means    It could not be started.
  seen     0 processes and threads may still be started
  said     BlockingIOError: [Errno 11] Resource temporarily unavailable
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     use fewer workers: DATASET_NUM_PROC=2""",
    ),
    "long TMPDIR": (
        Evidence(deaths=(Death(9, 1, role="manager"),), start_error="OSError: AF_UNIX path too long"),
        """\
Manager 9 exited with status 1: start failed
  means    It could not be started.
  said     OSError: AF_UNIX path too long
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     set TMPDIR to a short path, such as /tmp: the manager's socket lives there""",
    ),
    "unguarded main": (
        Evidence(
            deaths=(Death(9, 1, role="manager", error="RuntimeError: its bootstrapping phase"),), start_error="EOFError"
        ),
        """\
Manager 9 exited with status 1: start failed
  means    It could not be started.
  said     RuntimeError: its bootstrapping phase
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     put the work of the main script under `if __name__ == "__main__":`""",
    ),
    "killed as it starts": (
        Evidence(
            deaths=(Death(9, -9, role="manager", signal="SIGKILL"),),
            start_error="EOFError",
            memory=MemoryEvidence(group_kills=1, limit=4 << 30, source="/sys/fs/cgroup/memory.events", before=3),
        ),
        """\
Manager 9 was ended by signal 9 (SIGKILL): out of memory
  means    The kernel killed it to have memory back.
  seen     /sys/fs/cgroup/memory.events counted 3 → 4 kills for memory; limit 4.0 GiB
  said     EOFError
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     use fewer workers (DATASET_NUM_PROC=2), or a smaller batch_size and writer_batch_size""",
    ),
    "gone as it starts": (
        Evidence(start_error="BrokenPipeError", memory=MemoryEvidence(named_in_kernel_log=True)),
        """\
A worker could not be started: out of memory
  means    The kernel killed it to have memory back.
  seen     the kernel's log names it as killed for memory
  said     BrokenPipeError
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     use fewer workers (DATASET_NUM_PROC=2), or a smaller batch_size and writer_batch_size""",
    ),
    "manager died": (
        Evidence(deaths=(Death(9, -9, role="manager", signal="SIGKILL"),), memory=MemoryEvidence(group_kills=0)),
        """\
Manager 9 was ended by signal 9 (SIGKILL): manager died
  means    The process that carries the workers' results ended.
  seen     no kill for memory was counted: a user, a scheduler or a memory guard sent it
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     see what ended it: `dmesg | tail`""",
    ),
    "waiting": (
        Evidence(stalled=(Stalled(7, "S", STACK),), stalled_for=301.0),
        """\
1 worker did nothing for 301 s: stalled
  means    No progress, and no worker used a processor or a disk, for as long as was allowed.
  seen     7 waiting: File "a.py", line 6 in locked; File "b.py", line 2 in run
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     start clean workers: DATASET_NUM_PROC_START_METHOD=forkserver""",
    ),
    "waiting for an import": (
        Evidence(stalled=(Stalled(7, "S"), Stalled(8, "S")), stalled_for=1.6, importing="prepare"),
        """\
2 workers did nothing for 2 s: stalled
  means    No progress, and no worker used a processor or a disk, for as long as was allowed.
  seen     7 waiting: its stack could not be had
           8 waiting: its stack could not be had
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     move the map under a function: it runs while prepare is imported, and waits for that import""",
    ),
    "stalled": (
        Evidence(stalled=(Stalled(7, "S", STACK), Stalled(8, "T")), stalled_for=61.2),
        """\
2 workers did nothing for 61 s: stalled
  means    No progress, and no worker used a processor or a disk, for as long as was allowed.
  seen     7 waiting: File "a.py", line 6 in locked; File "b.py", line 2 in run
           8 stopped by a signal: its stack could not be had
  decided  4 workers by fork (asked: the count that the caller asked for)
  next     see who stops worker 8; `kill -CONT 8` lets it go on""",
    ),
}


@pytest.mark.parametrize(("evidence", "message"), MESSAGES.values(), ids=MESSAGES)
def test_what_is_said(evidence: Evidence, message: str) -> None:
    """Who, of what, what was seen, what was decided, and one next step."""
    assert death_message(autopsy(evidence), evidence, DECISION) == message


def test_what_is_said_of_a_teardown() -> None:
    """What is done, who would not end, where each was, and one next step; as short as the others."""
    stuck = (Stalled(7, "S", STACK), Stalled(8, "T"))
    assert (
        teardown_message(stuck)
        == """\
Stuck in teardown: all results are there, but 2 workers did not end when told to, and had to be killed
  seen     7 waiting: File "a.py", line 6 in locked; File "b.py", line 2 in run
           8 stopped by a signal: its stack could not be had
  next     look for what holds it there: a thread that is no daemon, a handler of SIGTERM, an exit hook"""
    )
    assert rows_of(teardown_message([Stalled(7, "S", STACK.replace("a.py", "a" * 500))] * 100)) <= 24


def test_no_verdict_is_without_its_words() -> None:
    """Each has at least one message above."""
    assert {autopsy(evidence) for evidence, _ in MESSAGES.values()} == set(Verdict)


def rows_of(text: str) -> int:
    """How many rows of a terminal of 80 columns a text takes."""
    return sum(max(1, -(-len(line) // 80)) for line in text.splitlines())


@pytest.mark.parametrize(("evidence", "message"), MESSAGES.values(), ids=MESSAGES)
def test_it_fits_a_terminal_screen(evidence: Evidence, message: str) -> None:
    """24 rows of 80 columns, however much was seen."""
    much = replace(
        evidence,
        deaths=tuple(
            replace(evidence.deaths[0], pid=1 << 22, error=one.error and one.error + "x" * 5000, trace="y" * 5000)
            for one in evidence.deaths[:1] * 100
        ),
        stalled=tuple(Stalled(1 << 22, "S", STACK.replace("a.py", "a" * 500) * 100) for _ in evidence.stalled * 100),
        start_error=evidence.start_error and evidence.start_error + "z" * 5000,
    )
    text = death_message(autopsy(much), much, DECISION, no_retry="of 15.0 GiB available 50% may be taken" * 3)
    assert autopsy(much) is autopsy(evidence)
    assert len(text) > len(message)
    assert rows_of(text) <= 24


NO_MEMORY = MESSAGES["out of memory"][0]
NO_PROCESS = MESSAGES["start failed"][0]


@pytest.mark.parametrize(
    ("evidence", "workers", "then"),
    [
        (NO_MEMORY, 16, "use fewer workers (DATASET_NUM_PROC=8), or a smaller batch_size and writer_batch_size"),
        (NO_MEMORY, 3, "use fewer workers (DATASET_NUM_PROC=2), or a smaller batch_size and writer_batch_size"),
        (NO_MEMORY, 2, "have one worker hold less: a smaller batch_size and writer_batch_size"),
        (NO_PROCESS, 16, "use fewer workers: DATASET_NUM_PROC=8"),
        (NO_PROCESS, 2, "map in this process: DATASET_NUM_PROC=0"),
    ],
)
def test_fewer_workers_are_fewer_than_there_were(evidence: Evidence, workers: int, then: str) -> None:
    """The next step is one that has not been tried, and never 1, which is a pool too."""
    decision = Decision(workers, "fork", (Reason(ReasonCode.ASKED, workers),))
    assert death_message(autopsy(evidence), evidence, decision).splitlines()[-1] == f"  next     {then}"


def test_when_all_tries_are_used_up() -> None:
    """What kept the last from this process is said, and fewer workers are not advised: they have been tried."""
    lines = death_message(Verdict.OUT_OF_MEMORY, NO_MEMORY, DECISION, no_retry="a worker's peak was 9 GiB").splitlines()
    assert lines[-2:] == [
        "  retry    a worker's peak was 9 GiB",
        "  next     have one worker hold less: a smaller batch_size and writer_batch_size",
    ]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict_has_a_next_step(verdict: Verdict) -> None:
    """Whatever the evidence, even none."""
    assert "  next     " in death_message(verdict, Evidence(deaths=(Death(7, None),)))


@pytest.mark.parametrize("kind", [WorkerDied, WorkerStalled, WorkerStartFailed])
def test_the_errors(kind: type[WorkerDied]) -> None:
    """They are caught as RuntimeError, and pickle with all their fields."""
    evidence = MESSAGES["segfault"][0]
    error = kind("text", verdict=Verdict.SEGFAULT, exit_codes={7: -11}, evidence=evidence, decision=DECISION)
    assert isinstance(error, RuntimeError)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again), again.verdict) == (kind, "text", Verdict.SEGFAULT)
    assert (again.exit_codes, again.evidence, again.decision) == ({7: -11}, evidence, DECISION)

"""From evidence to a verdict, and what must not be blamed."""

from __future__ import annotations

import pickle

import pytest

from dataset_num_proc.policy.autopsy import (
    Death,
    Evidence,
    MemoryEvidence,
    Stalled,
    Verdict,
    autopsy,
    cause_first,
    last_error,
)

KILLED = Death(10, -9, signal="SIGKILL")
PRESSURE = MemoryEvidence(group_kills=1, limit=1 << 30, before=3)
GHOST = "Traceback (most recent call last):\n  File \"x\"\nModuleNotFoundError: No module named 'ghost'\n"
BOOTSTRAP = """Traceback (most recent call last):
  File "<string>", line 1, in <module>
RuntimeError: 
        An attempt has been made to start a new process before the
        current process has finished its bootstrapping phase.
"""  # noqa: W291 - as Python writes it


def died(exit_code: int | None, signal: str | None = None, **fields: object) -> Death:
    """A worker's death."""
    return Death(10, exit_code, signal=signal, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("death", "verdict"),
    [
        (KILLED, Verdict.KILLED),
        (died(-11, "SIGSEGV"), Verdict.SEGFAULT),
        (died(-7, "SIGBUS"), Verdict.BUS_ERROR),
        (died(-10, "SIGBUS"), Verdict.BUS_ERROR),
        (died(-6, "SIGABRT"), Verdict.ABORTED),
        (died(-15, "SIGTERM"), Verdict.SIGNALLED),
        (died(-10, "SIGUSR1"), Verdict.SIGNALLED),
        (died(-40, "signal 40"), Verdict.SIGNALLED),
        (died(0), Verdict.EXITED),
        (died(3), Verdict.EXITED),
        (died(1), Verdict.EXITED),
        (died(1, error=GHOST), Verdict.IMPORT_FAILED),
        (died(1, error=BOOTSTRAP), Verdict.START_FAILED),
        (died(None), Verdict.UNKNOWN),
        (died(-9, "SIGKILL", role="manager"), Verdict.MANAGER_DIED),
        (died(0, role="manager"), Verdict.MANAGER_DIED),
    ],
)
def test_the_first_death(death: Death, verdict: Verdict) -> None:
    """Each status has one verdict, and none of them is memory without evidence."""
    assert autopsy(Evidence(deaths=(death,))) is verdict


@pytest.mark.parametrize(
    ("memory", "verdict"),
    [
        (PRESSURE, Verdict.OUT_OF_MEMORY),
        (MemoryEvidence(named_in_kernel_log=True), Verdict.OUT_OF_MEMORY),
        (MemoryEvidence(host_kills=1), Verdict.OUT_OF_MEMORY),
        (MemoryEvidence(ancestor_kills=1), Verdict.OUT_OF_MEMORY),
        (MemoryEvidence(group_kills=0, host_kills=1), Verdict.KILLED),
        (MemoryEvidence(group_kills=0, ancestor_kills=2, host_kills=2), Verdict.KILLED),
        (MemoryEvidence(group_kills=0, named_in_kernel_log=False), Verdict.KILLED),
        (MemoryEvidence(limit=100, usage=100), Verdict.KILLED),
    ],
)
def test_a_kill_is_memory_on_evidence_alone(memory: MemoryEvidence, verdict: Verdict) -> None:
    """A kill counted for the own group is proof; a neighbour's, or a full group, is nothing."""
    assert autopsy(Evidence(deaths=(KILLED,), memory=memory)) is verdict


@pytest.mark.parametrize("death", [died(-11, "SIGSEGV"), died(-7, "SIGBUS"), died(-15, "SIGTERM"), died(0), died(137)])
def test_nothing_but_a_kill_is_memory(death: Death) -> None:
    """A crash, a bus error, a SIGTERM or an exit beside kills for memory keeps its own name."""
    assert autopsy(Evidence(deaths=(death,), memory=PRESSURE)) is not Verdict.OUT_OF_MEMORY


def test_a_manager_is_killed_for_memory_too() -> None:
    """The manager holds the results of in-memory data sets, and is often the largest."""
    death = died(-9, "SIGKILL", role="manager")
    assert autopsy(Evidence(deaths=(death,), memory=PRESSURE)) is Verdict.OUT_OF_MEMORY


def test_only_the_first_death_counts() -> None:
    """What comes after it, the teardown's -15 among them, is a consequence."""
    assert autopsy(Evidence(deaths=(died(-11, "SIGSEGV"), KILLED), memory=PRESSURE)) is Verdict.SEGFAULT


MANAGER = died(-9, "SIGKILL", role="manager")
RESET = died(1, error="RuntimeError: ConnectionResetError: [Errno 104] Connection reset by peer")


@pytest.mark.parametrize(
    ("deaths", "verdict"),
    [
        ((RESET, MANAGER), Verdict.MANAGER_DIED),
        ((MANAGER, RESET), Verdict.MANAGER_DIED),
        ((RESET,), Verdict.START_FAILED),
        ((KILLED, MANAGER), Verdict.KILLED),
        ((died(1, error=GHOST), MANAGER), Verdict.IMPORT_FAILED),
        ((), Verdict.UNKNOWN),
    ],
)
def test_a_worker_that_has_lost_its_manager(deaths: tuple[Death, ...], verdict: Verdict) -> None:
    """A worker whose manager is gone fails, and may be seen first; nobody's own death is put down to the manager."""
    found = cause_first(deaths)
    assert autopsy(Evidence(deaths=found)) is verdict
    assert set(found) == set(deaths)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", Verdict.START_FAILED),
        ("OSError: AF_UNIX path too long", Verdict.START_FAILED),
        ("FileNotFoundError: [Errno 2] No such file or directory: '<stdin>'", Verdict.IMPORT_FAILED),
        (GHOST, Verdict.IMPORT_FAILED),
        (BOOTSTRAP, Verdict.START_FAILED),
        ("EOFError", Verdict.START_FAILED),
    ],
)
def test_a_failed_start(text: str, verdict: Verdict) -> None:
    """An import that failed is told from a process that could not be had."""
    assert autopsy(Evidence(start_error=text)) is verdict


@pytest.mark.parametrize(
    ("child", "memory", "verdict"),
    [
        (died(-9, "SIGKILL"), PRESSURE, Verdict.OUT_OF_MEMORY),
        (died(-9, "SIGKILL", role="manager"), PRESSURE, Verdict.OUT_OF_MEMORY),
        (died(-9, "SIGKILL"), MemoryEvidence(group_kills=0), Verdict.KILLED),
        (died(-9, "SIGKILL", role="manager"), MemoryEvidence(group_kills=0), Verdict.MANAGER_DIED),
        (died(-11, "SIGSEGV"), PRESSURE, Verdict.SEGFAULT),
        (died(None), PRESSURE, Verdict.OUT_OF_MEMORY),
        (None, PRESSURE, Verdict.OUT_OF_MEMORY),
        (None, MemoryEvidence(host_kills=1), Verdict.START_FAILED),
        (died(1), PRESSURE, Verdict.START_FAILED),
        (died(1, error=GHOST), PRESSURE, Verdict.IMPORT_FAILED),
        (died(None, error=GHOST), PRESSURE, Verdict.IMPORT_FAILED),
        (died(1, error=BOOTSTRAP), PRESSURE, Verdict.START_FAILED),
    ],
)
@pytest.mark.parametrize("silence", ["EOFError", "BrokenPipeError: [Errno 32] Broken pipe"])
def test_a_child_that_dies_as_it_starts(
    child: Death | None, memory: MemoryEvidence, verdict: Verdict, silence: str
) -> None:
    """Its signal, or else the kernel's counter, says more than the end of the pipe; its own word says most."""
    evidence = Evidence(deaths=(child,) if child else (), start_error=silence, memory=memory)
    assert autopsy(evidence) is verdict


def test_a_refused_start_beside_a_kill_for_memory() -> None:
    """What kept the process from being made is named, whatever the kernel killed meanwhile."""
    evidence = Evidence(start_error="BlockingIOError: [Errno 11] Resource temporarily unavailable", memory=PRESSURE)
    assert autopsy(evidence) is Verdict.START_FAILED


def test_a_stall_and_nothing_at_all() -> None:
    """Workers that do nothing are stalled; a death among them comes first; no evidence is no verdict."""
    stalled = (Stalled(10, "S"), Stalled(11, "T"))
    assert autopsy(Evidence(stalled=stalled)) is Verdict.STALLED
    assert autopsy(Evidence(stalled=stalled, deaths=(KILLED,))) is Verdict.KILLED
    assert autopsy(Evidence()) is Verdict.UNKNOWN


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_says_what_it_means(verdict: Verdict) -> None:
    """Each has a sentence of its own at run time, and compares equal to its word."""
    assert (verdict.__doc__ or "").endswith(".")
    assert verdict == verdict.value


def test_the_last_error_of_a_traceback() -> None:
    """Its type with the beginning of its text, on one line, also where the text has several."""
    assert last_error(GHOST) == "ModuleNotFoundError: No module named 'ghost'"
    assert last_error(BOOTSTRAP).startswith("RuntimeError: An attempt has been made to start a new process")
    assert not last_error("")


def test_evidence_pickles() -> None:
    """It travels in the error, between processes."""
    evidence = Evidence(deaths=(KILLED,), memory=PRESSURE, exit_codes={10: -9}, stalled=(Stalled(1, "S", "x"),))
    assert pickle.loads(pickle.dumps(evidence)) == evidence  # noqa: S301 - our own bytes

"""A scope that says what killed a worker.

One job: what the machine saw of a pool, the policy's verdict on it and the report's words, made into one exception. It
may not judge by itself, nor start or end a process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataset_num_proc.death_report import death_message, teardown_message
from dataset_num_proc.errors import StuckInTeardown, WorkerDied, WorkerStalled, WorkerStartFailed
from dataset_num_proc.machine.watch import Watcher, watched
from dataset_num_proc.notices import warn
from dataset_num_proc.policy.autopsy import Evidence, Verdict, autopsy

if TYPE_CHECKING:
    from dataset_num_proc.policy.decision import Decision

__all__ = ["Watch", "watch"]

_KINDS = {
    Verdict.STALLED: WorkerStalled,
    Verdict.IMPORT_FAILED: WorkerStartFailed,
    Verdict.START_FAILED: WorkerStartFailed,
}


@dataclass(frozen=True)
class Watch:
    """What is known so far of the pools of one scope."""

    _watcher: Watcher

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Of each pool that has ended, in order."""
        return tuple(self._watcher.evidence)

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that any one worker held at once; `None` where it could not be read."""
        return max((seen.peak_bytes for seen in self.evidence if seen.peak_bytes), default=None)


def judged(evidence: Evidence, decision: Decision | None) -> WorkerDied:
    """The error that stands for what was seen of a pool."""
    verdict = autopsy(evidence)
    kind = _KINDS.get(verdict, WorkerDied)
    message = death_message(verdict, evidence, decision)
    return kind(message, verdict=verdict, exit_codes=dict(evidence.exit_codes), evidence=evidence, decision=decision)


@contextmanager
def watch(
    *, decision: Decision | None = None, stall_timeout: float | None = None, helpers: bool = True
) -> Iterator[Watch]:
    """A scope in which a dead, stuck or unstartable worker is one error that names the cause.

    Watches every pool that this thread makes, of `multiprocess` (maps, `load_dataset`, `save_to_disk`) and of
    `multiprocessing` (exports). The exception of a map's function is raised when it happens, not after all other
    shards; Ctrl-C is a KeyboardInterrupt. Any other exception passes as the same object. On Windows nothing is watched.

    Pools of threads that have no scope of their own, such as an executor's, are watched too, and the error comes out of
    their call. Only while two threads have scopes nobody can say whose helper a third is: its pools are not watched.

    Args:
        decision: what the workers were started on; it goes into the error.
        stall_timeout: seconds after which workers that use no processor and no disk, and bring no result, are called
            stuck. `None` waits for ever.
        helpers: `False` leaves the pools of all other threads alone.

    Raises:
        WorkerDied: a worker or the manager ended before its work did.
        WorkerStartFailed: one could not start, or could not have the function.
        WorkerStalled: none did anything for `stall_timeout` seconds.

    Warns:
        StuckInTeardown: the results are there, but workers did not end when the pool told them to, within a second, or
            did nothing for `stall_timeout` seconds in a pool that was closed and joined. They are killed, and the
            results returned: an error would throw away rows that are whole.
    """

    def judge(evidence: Evidence, original: BaseException) -> WorkerDied:
        del original  # it is the cause
        return judged(evidence, decision)

    with watched(judge, stall_timeout, helpers=helpers) as watcher:
        yield Watch(watcher)
    if watcher.stuck:
        warn(teardown_message(watcher.stuck), StuckInTeardown)

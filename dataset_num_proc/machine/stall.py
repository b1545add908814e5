"""Whether a pool's workers still do anything.

One job: to notice that for a given time no worker used a processor, read or wrote, and no result came; then to have
each worker write its stack. It may not end anything.

A worker that waits for a disk (state "D") is slow and not stuck, however long it takes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from dataset_num_proc.machine.observed import STACK, read
from dataset_num_proc.machine.processes import activity
from dataset_num_proc.policy.autopsy import Stalled

_SECONDS_FOR_STACKS = 0.3
_AT_REST = frozenset("STtZX")


def dump_signal() -> int | None:
    """The signal on which workers write their stacks, unless this process uses it."""
    number = signal.SIGUSR1
    return int(number) if signal.getsignal(number) is signal.SIG_DFL else None


@dataclass
class StallWatch:
    """Looks at the workers of one pool.

    Attributes:
        timeout: seconds without work after which they are called stuck.
        dump_signal: on which workers write their stacks; `None` where there is none.
        stalled: every worker, once they are.
        for_seconds: how long they had done nothing then.
    """

    timeout: float
    dump_signal: int | None = None
    stalled: tuple[Stalled, ...] = ()
    for_seconds: float = 0.0
    _seen: dict[int, int] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)

    def look(self, workers: Sequence[tuple[int, str]], *, pending: bool) -> None:
        """Notes what the workers, by pid and path of their files, have done since the last look."""
        now = time.monotonic()
        acts = {pid: act for pid, _ in workers if (act := activity(pid)) is not None}
        work = {pid: act.work for pid, act in acts.items()}
        busy = any(act.state not in _AT_REST for act in acts.values())
        if busy or not pending or not acts or work != self._seen:
            self._seen, self._since = work, now
        elif now - self._since >= self.timeout:
            self.for_seconds = now - self._since
            self.stalled = stacks(workers, self.dump_signal)


def stacks(workers: Sequence[tuple[int, str]], dump_signal: int | None) -> tuple[Stalled, ...]:
    """Each worker that is there, by pid and path of its files, with its state and, where it can be had, its stack."""
    states = {pid: act.state for pid, _ in workers if (act := activity(pid)) is not None}
    written = stacks_written(workers, dump_signal)
    return tuple(Stalled(pid, states[pid], written[pid]) for pid, _ in workers if pid in states)


def stacks_written(workers: Sequence[tuple[int, str]], dump_signal: int | None) -> dict[int, str]:
    """The stacks of workers, by pid, as each wrote its own into its file when it was asked to; empty where none did."""
    if dump_signal is not None:
        for pid, path in workers:
            # Without its file the worker has a handler of its own for the signal, or none, and would die of it.
            if os.path.exists(path + STACK):  # noqa: PTH110 - paths of traces are text throughout
                with suppress(OSError):
                    os.kill(pid, dump_signal)
        time.sleep(_SECONDS_FOR_STACKS)
    return {pid: read(path + STACK).strip() for pid, path in workers}

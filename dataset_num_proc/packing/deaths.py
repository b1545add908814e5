"""What killed, stopped or kept back a packing worker, as one error.

One job: what is left of the workers → evidence → the policy's verdict → the error to raise. It may not judge by itself.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from dataset_num_proc.errors import WorkerDied
from dataset_num_proc.machine.evidence import of_machine, of_pool
from dataset_num_proc.machine.members import Member, severity
from dataset_num_proc.machine.memory_evidence import Counters
from dataset_num_proc.machine.processes import activity
from dataset_num_proc.machine.stall import stacks_written
from dataset_num_proc.packing.outcome import Failure
from dataset_num_proc.policy.autopsy import Evidence, Stalled
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.watching import judged


@dataclass(frozen=True)
class Dead:
    """The workers of a pool that cannot go on.

    Attributes:
        gone: those that ended by themselves, each with the row it had in hand and whether it was ready.
        all: every worker.
        before: the kernel's counters when the pool was made.
        killed: pid of one that SIGKILL ended.
        end: ends the rest.
        start_method: by which they were started.
        decision: what they were started on.
    """

    gone: list[tuple[Member, int | None, bool]]
    all: list[Member]
    before: Counters
    killed: int | None
    end: Callable[[], None]
    start_method: str
    decision: Decision | None

    def evidence(self) -> Evidence:
        """All that was seen; nothing is running afterwards."""
        machine = replace(of_machine(self.before, self.killed), start_method=self.start_method)
        self.end()
        ordered = sorted(self.gone, key=lambda one: severity(one[0]))
        found = of_pool(machine, [member for member, _, _ in ordered], self.all)
        rows = [row for _, row, _ in ordered]
        deaths = (
            replace(one, rows=None if row is None else (row, row + 1))
            for one, row in zip(found.deaths, rows)  # noqa: B905 - 3.10 is fine with it, and both come from `ordered`
        )
        return replace(found, deaths=tuple(deaths))


def death(dead: Dead) -> WorkerDied:
    """The error of workers that ended before their work did."""
    return judged(dead.evidence(), dead.decision)


def not_started(reason: Failure | BaseException, dead: Dead) -> WorkerDied:
    """The error of a worker that could not start, or not have the encoder; `reason` is its cause."""
    if isinstance(reason, Failure):
        text = reason.trace
    else:
        text = "".join(traceback.format_exception_only(type(reason), reason))
    return judged(replace(dead.evidence(), start_error=text), dead.decision)


def stall(member: Member, row: int | None, seconds: float, dead: Dead, dump_signal: int | None) -> WorkerDied:
    """The error of a worker that has had one row for too long, with its stack."""
    pid = member.process.pid
    seen = activity(pid)
    stack = stacks_written([(pid, member.path)], dump_signal)[pid]
    rows = None if row is None else (row, row + 1)
    stuck = Stalled(pid, seen.state if seen else "", stack, rows)
    return judged(replace(dead.evidence(), stalled=(stuck,), stalled_for=seconds), dead.decision)

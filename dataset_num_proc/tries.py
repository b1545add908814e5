"""One call of `datasets`, with as many tries as recovery allows.

One job: to run the call in a scope that is prepared and watched, and to leave nothing of a try that failed. The output
is that of the plain call: function and arguments are handed on as they are, and with them fingerprints and caches.
Which try comes next is the policy's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from dataset_num_proc.api import decided, settings_or_environment
from dataset_num_proc.calls import Call
from dataset_num_proc.death_report import death_message
from dataset_num_proc.errors import WorkerDied, WorkersReduced, WorkerStartFailed
from dataset_num_proc.machine.attribute_path import does_not_pickle
from dataset_num_proc.machine.largest_child import peak_of_ended_children
from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.notices import warn
from dataset_num_proc.options import Options
from dataset_num_proc.policy import recovery
from dataset_num_proc.policy.autopsy import Evidence, Verdict
from dataset_num_proc.policy.case import usable_cpus
from dataset_num_proc.policy.decision import Decision, ReasonCode
from dataset_num_proc.policy.facts import FORK, FORKSERVER, Snapshot
from dataset_num_proc.policy.request import Settings
from dataset_num_proc.report import count_of, size

OnDeath = Literal["step-down", "raise"]
_STEP_DOWN = "step-down"


@dataclass(frozen=True)
class Recovery:
    """What is to be done about a death or a stall: the arguments of those names of `dataset_num_proc.map`."""

    on_death: OnDeath
    retry_killed: bool
    stall_timeout: float | None

    def __post_init__(self) -> None:
        """Refuse another word."""
        if self.on_death not in {_STEP_DOWN, "raise"}:
            message = f"on_death={self.on_death!r}: accepted is {_STEP_DOWN!r} or 'raise'"
            raise ValueError(message)


@dataclass(frozen=True)
class _Plan:
    """What was decided for a call, and the machine and the operator that it rests on."""

    call: Call
    recover: Recovery
    decision: Decision
    snapshot: Snapshot
    settings: Settings
    start_method: str | None
    measured_anew: bool

    @classmethod
    def of(
        cls,
        call: Call,
        recover: Recovery,
        *,
        start_method: str | None,
        snapshot: Snapshot | None,
        settings: Settings | None,
    ) -> _Plan:
        """The decision for a call, told and warned about."""
        settings = settings_or_environment(settings)
        options: Options = {"dataset": call.dataset, "snapshot": snapshot, "settings": settings}
        options["function"] = call.function
        decision, seen, request = decided(call.asked, call.site, options, start_method=start_method, scope=True)
        method = decision.start_method if request.start_method is not None else None
        return cls(call, recover, decision, seen, settings, method, measured_anew=snapshot is None)

    @contextmanager
    def scope(self, workers: int) -> Iterator[None]:
        """A scope for one pool: prepared, watched, and cleared of what a failure leaves."""
        from dataset_num_proc.machine.apply import applied
        from dataset_num_proc.machine.leftovers import removed_on_failure
        from dataset_num_proc.watching import watch

        cpus = usable_cpus(self.snapshot)[0]
        with (
            applied(workers=workers, cpus=cpus, start_method=self.start_method),
            removed_on_failure(self.call.folders),
            # Nothing of the caller's runs inside: what other threads do meanwhile has nothing to do with it.
            watch(decision=self.decision, stall_timeout=self.recover.stall_timeout, helpers=False),
        ):
            yield

    def proven(self) -> int:
        """The workers that were decided on, or 0 where they could not have the function.

        Raises:
            WorkerStartFailed: a fresh one could not, and the count was asked for. A fork of a count that was asked for
                is not tried: what does not pickle is the pickler's own error there, with the path.
        """
        decision, function = self.decision, self.call.function
        if function is None or not decision.workers or (decision.start_method == FORK and decision.asked is not None):
            return decision.workers
        problem = does_not_pickle(function) if decision.start_method == FORK else self._arrival(function)
        if problem is None:
            return decision.workers
        if decision.asked is not None:
            evidence = Evidence(start_error=problem, start_method=decision.start_method)
            message = f"{self.call.site}: the function does not arrive in a worker started by {decision.start_method}: "
            raise WorkerStartFailed(
                message + problem, verdict=Verdict.IMPORT_FAILED, exit_codes={}, evidence=evidence, decision=decision
            )
        warn(
            f"{self.call.site}: in this process instead of {count_of(decision.workers)}: a worker started by "
            f"{decision.start_method} could not have the function ({problem})",
            WorkersReduced,
        )
        return 0

    def _arrival(self, function: Callable[..., Any]) -> str | None:
        """Why a fresh interpreter could not have the function."""
        from dataset_num_proc.machine import arrival

        try:
            with self.scope(1):
                return arrival.problem(function)
        except WorkerDied as error:
            if self.decision.asked is not None:
                raise
            return str(error)

    def step(self, tries: Sequence[recovery.Try]) -> recovery.Step:
        """What to do after the last of `tries`, by the memory that there is now."""
        now = take_snapshot(scan=False) if self.measured_anew else self.snapshot
        return recovery.next_step(tries, now, self.settings, retry_killed=self.recover.retry_killed)


def run(
    call: Call, recover: Recovery, *, start_method: str | None, snapshot: Snapshot | None, settings: Settings | None
) -> Any:  # noqa: ANN401 - the class of the data set
    """The call, with as many tries as recovery allows."""
    plan = _Plan.of(call, recover, start_method=start_method, snapshot=snapshot, settings=settings)
    workers = plan.proven()
    tries: list[recovery.Try] = []
    while workers:
        largest = peak_of_ended_children()
        try:
            with plan.scope(workers):
                return call(workers)
        except WorkerDied as error:
            if recover.on_death != _STEP_DOWN:
                raise
            tries.append(_try(workers, error, largest))
            step = plan.step(tries)
            if step.workers is None:
                _explain(error, step, plan)
                raise
            _warn_of_step(plan, error, tries[-1], step)
            workers = step.workers
    return call(0)


def _try(workers: int, error: WorkerDied, largest_before: int) -> recovery.Try:
    """The try that ended with `error`; its peak is the kernel's own where a worker of it was the largest child ever.

    Where none was, an earlier child held more than any of them: that bounds what nobody saw of a worker's short life.
    """
    done = recovery.Try.of(workers, error.verdict, error.evidence)
    largest = peak_of_ended_children()
    if largest > largest_before:
        return replace(done, peak_bytes=max(largest, done.peak_bytes or 0))
    waited_for = error.evidence.start_method != FORKSERVER
    return replace(done, peak_at_most=largest) if largest and waited_for else done


def _explain(error: WorkerDied, step: recovery.Step, plan: _Plan) -> None:
    """Has the error say why there is no further try, where fewer workers might have helped, and what is left to do."""
    if step.for_memory:
        need, room = size(step.peak_bytes), size(step.available)
        share = f"{plan.settings.memory_share:.0%}"
        why = f"not in this process: a worker's peak was {need}, and of {room} available {share} may be taken"
        error.args = (death_message(error.verdict, error.evidence, plan.decision, no_retry=why),)


def _warn_of_step(plan: _Plan, error: WorkerDied, last: recovery.Try, step: recovery.Step) -> None:
    binding, deaths = plan.decision.binding, error.evidence.deaths
    who = f"{len(deaths)} of {last.workers} workers {'was' if len(deaths) == 1 else 'were'}"
    if deaths[0].role == "manager":
        who = f"the manager of {last.workers} workers was"
    why = " for memory" if error.verdict is Verdict.OUT_OF_MEMORY else ""
    line = (
        f"{plan.call.site}: {who} killed{why} (peak {size(step.peak_bytes)}, now available {size(step.available)}): "
        f"going on {_way(step.workers or 0)}"
    )
    if binding.code is ReasonCode.OVERRIDE:
        line += f", fewer than the {binding.limit} of {binding.seen['source'] or 'Settings.override'}"
    warn(line, WorkersReduced)


def _way(workers: int) -> str:
    return f"with {count_of(workers)}" if workers else count_of(workers)

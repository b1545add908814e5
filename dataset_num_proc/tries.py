"""One call of `datasets`, with as many tries as recovery allows.

One job: to run the call in a scope that is prepared and watched, and to leave nothing of a try that failed. The output
is that of the plain call: function and arguments are handed on as they are, and with them fingerprints and caches.
Which try comes next is the policy's to say.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from dataset_num_proc.api import decided, settings_or_environment
from dataset_num_proc.errors import WorkerDied, WorkersReduced, WorkerStartFailed
from dataset_num_proc.machine.largest_child import peak_of_ended_children
from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.notices import warn
from dataset_num_proc.options import Options
from dataset_num_proc.policy import recovery
from dataset_num_proc.policy.autopsy import Evidence, Verdict
from dataset_num_proc.policy.case import usable_cpus
from dataset_num_proc.policy.decision import Decision, ReasonCode
from dataset_num_proc.policy.facts import FORK, Snapshot
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
class Call:
    """A call of a data set's method, whose worker count is still open.

    Attributes:
        site: name of the method, and of its row in the dialect table.
        dataset: whose method it is.
        function: the first argument.
        asked: the worker count that was asked for.
        bound: all arguments but that.
        streamed: the method takes no worker count.
    """

    site: str
    dataset: Any
    function: Callable[..., Any] | None
    asked: object
    bound: inspect.BoundArguments
    streamed: bool

    @classmethod
    def of(
        cls,
        site: str,
        dataset: Any,  # noqa: ANN401 - any class of `datasets`
        function: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Call:
        """The call with these arguments, by the signature that the method has in the installed release."""
        signature = inspect.signature(getattr(type(dataset), site))
        streamed = "num_proc" not in signature.parameters
        asked = kwargs.pop("num_proc", None) if streamed else None
        bound = signature.bind(dataset, function, *args, **kwargs)
        return cls(site, dataset, function, bound.arguments.pop("num_proc", asked), bound, streamed)

    def __call__(self, workers: int) -> Any:  # noqa: ANN401 - the class of `dataset`
        """The call with that many workers; 0 is "in this process", for which every release has `None`."""
        count = {} if self.streamed else {"num_proc": workers or None}
        return getattr(type(self.dataset), self.site)(*self.bound.args, **self.bound.kwargs, **count)

    def folders(self) -> Iterator[str]:
        """Where `datasets` writes the output, and its temporary files beside it."""
        arguments = self.bound.arguments
        named = [arguments.get("cache_file_name"), *(arguments.get("cache_file_names") or {}).values()]
        yield from (os.path.dirname(name) for name in named if name)  # noqa: PTH120 - as `datasets` does: "" is "here"
        splits = self.dataset.values() if isinstance(self.dataset, dict) else [self.dataset]
        for split in splits:
            if split.cache_files:
                yield os.path.dirname(split._get_cache_file_path(""))  # noqa: PTH120, SLF001 - the folder, whatever the rule


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
            watch(decision=self.decision, stall_timeout=self.recover.stall_timeout),
        ):
            yield

    def proven(self) -> int:
        """The workers that were decided on, or 0 where a fresh one could not have the function.

        Raises:
            WorkerStartFailed: it could not, and the count was asked for.
        """
        from dataset_num_proc.machine import arrival

        decision, function = self.decision, self.call.function
        if function is None or not decision.workers or decision.start_method == FORK:
            return decision.workers
        try:
            with self.scope(1):
                problem = arrival.problem(function)
        except WorkerDied as error:
            if decision.asked is not None:
                raise
            problem = str(error)
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
                _explain(error, step, plan.settings.memory_share)
                raise
            _warn_of_step(plan, error, tries[-1], step)
            workers = step.workers
    return call(0)


def _try(workers: int, error: WorkerDied, largest_before: int) -> recovery.Try:
    """The try that ended with `error`; its peak is the kernel's own where a worker of it was the largest child ever."""
    done = recovery.Try.of(workers, error.verdict, error.evidence)
    largest = peak_of_ended_children()
    return replace(done, peak_bytes=max(largest, done.peak_bytes or 0)) if largest > largest_before else done


def _explain(error: WorkerDied, step: recovery.Step, share: float) -> None:
    """Has the error say why there is no further try, where fewer workers might have helped."""
    if step.for_memory:
        need, room = size(step.peak_bytes), size(step.available)
        why = f"not in this process: a worker's peak was {need}, and of {room} available {share:.0%} may be taken"
        error.args = (f"{error}\n  {'retry':<8} {why}",)


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

"""The rules in their order: `decide(request, snapshot, settings)`.

One job: override, else the first veto, else every ceiling, of which the lowest wins; below two workers the work stays
in this process. The two tuples are the whole policy; what each rule says stands in `vetoes` and `ceilings`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from dataset_num_proc.policy import ceilings, vetoes
from dataset_num_proc.policy.case import Case
from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.request import NOTHING_SAID, Request, Settings

Rule = Callable[[Case], "Reason | None"]

VETOES: tuple[Rule, ...] = (
    vetoes.in_process,
    vetoes.side_effects,
    vetoes.streaming,
    vetoes.daemonic,
    vetoes.importing,
    vetoes.no_start_method,
    vetoes.spawn_not_ready,
    vetoes.macos_fork,
    vetoes.xpu_fork,
    vetoes.accelerator_fork,
)
"""The first that applies ends it."""

CEILINGS: tuple[Rule, ...] = (
    ceilings.asked,
    ceilings.cap,
    ceilings.cpus,
    ceilings.memory,
    ceilings.rows,
    ceilings.pids,
    ceilings.windows_handles,
    ceilings.devices,
    ceilings.cost,
)
"""The lowest wins; of equals the first."""


def decide(request: Request, snapshot: Snapshot, settings: Settings | None = None) -> Decision:
    """The worker count for one request on one machine.

    Pure and total: the same values always give the same answer, and every answer has a binding reason.

    Args:
        request: what the call site asks for.
        snapshot: what the machine says.
        settings: what the operator says; the defaults where not given.

    Raises:
        SiteError: the request names a site that is not in the dialect table.
    """
    settings = settings if settings is not None else NOTHING_SAID
    case = Case(request, snapshot, settings)
    if settings.override is not None:
        return _overridden(case, settings.override)
    for veto in VETOES:
        reason = veto(case)
        if reason is not None:
            asked = ceilings.asked(case) if request.workers else None
            return _answer(case, [reason, asked] if asked is not None else [reason])
    return _answer(case, [reason for ceiling in CEILINGS if (reason := ceiling(case)) is not None])


def _overridden(case: Case, count: int) -> Decision:
    """The operator's count, verbatim; lowered only where it could not run at all."""
    override = Reason(ReasonCode.OVERRIDE, count, {"source": case.settings.override_source})
    if not count:
        return _answer(case, [override])
    for obstacle in OBSTACLES:
        reason = obstacle(case)
        if reason is not None and (reason.limit or 0) < count:
            return _answer(case, [reason, override])
    decision = _answer(case, [override])
    vetoes_passed = [Reason(found.code, None, found.seen) for veto in VETOES[1:] if (found := veto(case)) is not None]
    return replace(decision, reasons=(*decision.reasons, *vetoes_passed)) if vetoes_passed else decision


OBSTACLES: tuple[Rule, ...] = (vetoes.streaming, vetoes.daemonic, vetoes.importing, ceilings.windows_handles)
"""What even the operator cannot overrule: the map takes no workers, may not start them, would hang, or could not wait
on them."""


_limit = attrgetter("limit")
"""Every rule sets one."""


def _answer(case: Case, reasons: list[Reason]) -> Decision:
    """The decision that `reasons` make: the lowest limit first, and never one worker."""
    reasons.sort(key=_limit)
    workers, choice = reasons[0].limit or 0, case.choice
    if workers <= 1:
        workers = 0
        reasons = [Reason(reason.code, 0, reason.seen) if reason.limit == 1 else reason for reason in reasons]
    if choice.hazards or (workers and choice.source != "default"):
        seen = {"method": choice.method, "source": choice.source, "hazards": list(choice.hazards)}
        reasons.append(Reason(ReasonCode.START_METHOD, None, seen))
    return Decision(workers, case.method, tuple(reasons))

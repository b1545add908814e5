"""The rules that keep the work in this process whatever the numbers say.

One job: each function is one veto: a `Reason` where it applies, `None` where it does not. Their order stands in
`rules`.
"""

from __future__ import annotations

from dataset_num_proc.policy.case import Case
from dataset_num_proc.policy.decision import Reason, ReasonCode
from dataset_num_proc.policy.encoding import LOKY
from dataset_num_proc.policy.facts import IMPORTABLE_MAINS
from dataset_num_proc.policy.request import Workload


def in_process(case: Case) -> Reason | None:
    """The caller asked for no workers."""
    return Reason(ReasonCode.IN_PROCESS, 0, {"asked": case.request.workers}) if case.request.workers == 0 else None


def side_effects(case: Case) -> Reason | None:
    """The function must run here."""
    return Reason(ReasonCode.SIDE_EFFECTS, 0) if case.request.side_effects else None


def streaming(case: Case) -> Reason | None:
    """A streamed map takes no workers."""
    return Reason(ReasonCode.STREAMING, 0) if case.request.streaming else None


def daemonic(case: Case) -> Reason | None:
    """A daemon of the module that would start them may not have children; the flag is per module."""
    for module in (case.module, case.site.also_module):
        if module is not None and case.process.daemonic.get(module):
            return Reason(ReasonCode.DAEMONIC, 0, {"module": module})
    return None


def importing(case: Case) -> Reason | None:
    """A pool started while a module is being imported waits for the import lock for ever."""
    importing = case.process.importing
    return Reason(ReasonCode.IMPORTING, 0, {"module": importing}) if importing else None


def no_start_method(case: Case) -> Reason | None:
    """Nothing is known to start workers by."""
    for module, method in ((case.module, case.method), (case.site.also_module, case.other_method)):
        if method is None:
            return Reason(ReasonCode.NO_START_METHOD, 0, {"module": module, "asked": case.request.start_method})
    return None


def spawn_not_ready(case: Case) -> Reason | None:
    """A fresh interpreter could not import the main module, or the function."""
    process, request = case.process, case.request
    # Our own packing workers, and loky's, import __main__ only where their payload lives there.
    main_ready = process.main in IMPORTABLE_MAINS or request.workload is Workload.PACKING or case.fresh == LOKY
    if case.fresh is None or (main_ready and request.spawn_ready is not False):
        return None
    problem = request.spawn_problem or (
        "the function cannot be sent to a fresh interpreter" if request.spawn_ready is False else None
    )
    seen = {"start_method": case.fresh, "function": problem, "main": process.main.value}
    return Reason(ReasonCode.SPAWN_NOT_READY, 0, {**seen, "file": process.main_file, "line": process.main_line})


def macos_fork(case: Case) -> Reason | None:
    """Fork on macOS, whatever the module offers."""
    return Reason(ReasonCode.MACOS_FORK, 0) if case.forks and case.process.platform == "darwin" else None


def xpu_fork(case: Case) -> Reason | None:
    """An initialised XPU and fork."""
    return Reason(ReasonCode.XPU_FORK, 0) if case.forks and "xpu" in case.process.accelerators else None


def accelerator_fork(case: Case) -> Reason | None:
    """The function would use, in a forked child, an accelerator that is up here."""
    up = case.process.accelerators
    if not case.forks or not up or not case.request.touches_accelerator:
        return None
    return Reason(ReasonCode.ACCELERATOR_FORK, 0, {"initialised": sorted(up)})

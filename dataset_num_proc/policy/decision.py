"""What we answer: `Decision`, and the `Reason`s that made it, as data.

One job: to carry an answer with everything that bounded it. Sentences for people are made elsewhere; the one-line
meaning of each code stands here, beside the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dataset_num_proc.policy.described import Described


class ReasonCode(Described):
    """Why a number is what it is. Each member carries its meaning for users as its docstring."""

    # The operator's word.
    OVERRIDE = "override", "An environment variable (or Settings.override) sets the count; it is obeyed verbatim."
    # Vetoes: no workers at all.
    IN_PROCESS = "in-process", "The caller asked for no workers (0 or 1)."
    SIDE_EFFECTS = "side-effects", "The function changes state of this process, so it must run here."
    STREAMING = "streaming", "A streamed data set is mapped as it is read; its map takes no workers."
    DAEMONIC = (
        "daemonic",
        "This process is a daemon of the module that would start the workers, and may not have children.",
    )
    IMPORTING = "importing", "A module is being imported on this thread; a pool started now would wait for it for ever."
    NO_START_METHOD = (
        "no-start-method",
        "No start method that is offered here is known for the module that starts the workers.",
    )
    SPAWN_NOT_READY = (
        "spawn-not-ready",
        "Workers would be fresh interpreters that cannot import the main module or the function.",
    )
    MACOS_FORK = "macos-fork", "Forked children of a threaded process crash on macOS."
    XPU_FORK = "xpu-fork", "An initialised Intel XPU does not survive a fork."
    ACCELERATOR_FORK = (
        "accelerator-fork",
        "The function uses an accelerator that is up here, and a forked child cannot use it again.",
    )
    # Ceilings: the lowest wins.
    ASKED = "asked", "The count that the caller asked for."
    CAP = "cap", "The most workers that are used without being asked. Bounds automatic counts alone."
    CPUS = "cpus", "Half of this rank's share of the usable cpus; on one cpu, none. Bounds automatic counts alone."
    MEMORY = "memory", "The workers that this rank's share of the available memory covers."
    ROWS = "rows", "Never more workers than rows; few rows are mapped in process."
    PIDS = "pids", "The processes and threads that this rank may still start."
    WINDOWS_HANDLES = "windows-handles", "Windows cannot wait on more than about 60 workers at a time."
    DEVICES = "devices", "The function uses an accelerator, and one worker per visible device is enough."
    COST = "cost", "The count with the least predicted time."
    # Says something, bounds nothing.
    START_METHOD = "start-method", "Why the workers would be started in this way."


@dataclass(frozen=True, slots=True)
class Reason:
    """One bound of a decision.

    Attributes:
        code: which rule.
        limit: the most workers that it allows (0 is "in this process", never 1); `None` where it sets no number.
        seen: the figures it rests on, by name, and where they come from.
    """

    code: ReasonCode
    limit: int | None
    seen: Mapping[str, Any] = field(default_factory=dict)


_REQUESTS = (ReasonCode.ASKED, ReasonCode.OVERRIDE)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one call site.

    Attributes:
        workers: 0 ("in this process") or at least 2, never 1: a pool of one only adds its cost.
        start_method: how the workers would be started.
        reasons: every bound, the binding one first.
    """

    workers: int
    start_method: str | None
    reasons: tuple[Reason, ...]

    @property
    def binding(self) -> Reason:
        """The reason that set the number."""
        return self.reasons[0]

    @property
    def asked(self) -> int | None:
        """The count that the caller or the operator asked for, `None` where the choice was ours."""
        for reason in self.reasons:
            if reason.code in _REQUESTS:
                return reason.limit
        return None

    @property
    def reduced(self) -> bool:
        """Whether less was granted than was asked for."""
        asked = self.asked
        return asked is not None and asked > self.workers

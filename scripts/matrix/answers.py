"""One answer of the matrix with all that a law needs to judge it.

One job: to hold it. Who asks stands in `walk`, what must hold in `laws`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dataset_num_proc.errors import SiteError
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.request import Request, Settings


class Machine:
    """One snapshot, the same machine from its last local rank, and what the laws need to know of it."""

    __slots__ = ("datasets", "memory", "process", "snapshot", "twin")

    def __init__(self, snapshot: Snapshot, twin: Snapshot) -> None:
        """Reckon the memory that all ranks may share, and the `datasets` release."""
        self.snapshot, self.twin, self.process = snapshot, twin, snapshot.process
        memory = snapshot.memory
        known = [each for each in (memory.available, memory.headroom, *memory.declared.values()) if each is not None]
        self.memory = min(known, default=None)
        release = snapshot.libraries.datasets
        self.datasets = (99,) if release is None else tuple(int(number) for number in release.split("."))


Moved = tuple[str, str, int, bool]
"""What is different, the site that reads the config, the count granted there, and whether there is no less memory."""


@dataclass(slots=True)
class Cell:
    """One answer and what it is compared with.

    Attributes:
        machine, request, settings: the question.
        decision: the answer.
        word: the answer as encoded for the request's site, or the error that there is no word for it.
        decoded: what `word` is read as there: a count, or `None` for "choose for me".
        twin_decision: the answer to the same question on the last local rank.
        asked_for: the answer when that many workers are asked for, all else alike.
        tighter: answers where one limit is tighter, or there are fewer rows, each with what is different.
        moved: the answer, recorded in a config and read with other memory.
    """

    machine: Machine
    request: Request
    settings: Settings
    decision: Decision
    word: int | SiteError | None
    decoded: int | None
    twin_decision: Decision
    asked_for: Callable[[int | None], int]
    tighter: list[tuple[str, int]]
    moved: list[Moved]

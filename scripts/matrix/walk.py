"""Walks cells: asks the rules, checks every law, and makes a failing cell as small as it gets.

One job: labels → broken laws. What is walked stands in `plan`, what must hold in `laws`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dataset_num_proc.errors import SiteError
from dataset_num_proc.policy import encoding, replay, rules
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.policy.facts import LibraryFacts, Snapshot
from dataset_num_proc.policy.request import Request, Settings
from matrix.answers import Cell, Machine, Moved
from matrix.axes import AXES, MEMORY_AXES, Labels
from matrix.cells import default_cell, question_of, snapshot_of, tighter
from matrix.laws import CELL_LAWS, READERS

Question = tuple[Request, Settings]


def _encode(decision: Decision, site: str, libraries: LibraryFacts) -> int | None:
    return encoding.encode(decision, site, libraries=libraries)


@dataclass(frozen=True, slots=True)
class Policy:
    """What is under test, as values, so that a test can hand in a mutant of any part.

    `decode` is asked once for each word at each site; the count that it gave is kept.
    """

    decide: Callable[[Request, Snapshot, Settings], Decision] = rules.decide
    encode: Callable[[Decision, str, LibraryFacts], int | None] = _encode
    decode: Callable[[object, str], Request] = encoding.decode
    to_json: Callable[[Snapshot], dict[str, Any]] = replay.to_json
    from_json: Callable[[Any], Snapshot] = replay.from_json
    counts_read: dict[tuple[str, int | None], int | None] = field(default_factory=dict)

    def said_and_read(
        self, decision: Decision, site: str, libraries: LibraryFacts
    ) -> tuple[int | SiteError | None, int | None]:
        """The decision in the site's words, or the error that it has none; and the count that is read from it there."""
        try:
            word = self.encode(decision, site, libraries)
        except SiteError as error:
            return error, None
        if (site, word) not in self.counts_read:
            self.counts_read[site, word] = self.decode(word, site).workers
        return word, self.counts_read[site, word]


@dataclass(slots=True)
class Neighbours:
    """What a family of cells is compared with.

    Attributes:
        tighter: (what is different, the answers there in the family's order).
        moved: (what is different, that machine): the same machine with other memory.
    """

    tighter: list[tuple[str, Sequence[int]]] = field(default_factory=list)
    moved: list[tuple[str, Machine]] = field(default_factory=list)


def machine_of(cell: Labels) -> Machine:
    """The machine of a cell, seen from its first and from its last local rank."""
    return Machine(snapshot_of(cell), snapshot_of(cell, last_rank=True))


def broken_replay(policy: Policy, machine: Machine) -> str | None:
    """Law 12 on one machine, through the text that a file would hold."""
    snapshot = machine.snapshot
    again = policy.from_json(json.loads(json.dumps(policy.to_json(snapshot))))
    return None if again == snapshot else f"read back as {again}"


def family_of_cells(
    policy: Policy, machine: Machine, family: Sequence[Question], neighbours: Neighbours
) -> Iterator[Cell]:
    """The answers on one machine to questions that differ in the count alone, with all that the laws need."""
    snapshot = machine.snapshot
    first, settings = family[0]
    decisions = [policy.decide(request, snapshot, settings) for request, _ in family]
    known = {request.workers: decision.workers for (request, _), decision in zip(family, decisions, strict=True)}
    carried: dict[int | None, list[Moved]] = {}

    def asked_for(count: int | None) -> int:
        if count not in known:
            known[count] = policy.decide(replace(first, workers=count), snapshot, settings).workers
        return known[count]

    for index, ((request, _), decision) in enumerate(zip(family, decisions, strict=True)):
        word, count = policy.said_and_read(decision, request.site, snapshot.libraries)
        moved: list[Moved] = []
        if neighbours.moved and request.site in READERS and not isinstance(word, SiteError):
            if count not in carried:
                carried[count] = list(
                    _carried(policy, machine, (replace(request, workers=count), settings), neighbours)
                )
            moved = carried[count]
        twin = policy.decide(request, machine.twin, settings)
        tighter = [(what, answers[index]) for what, answers in neighbours.tighter]
        yield Cell(machine, request, settings, decision, word, count, twin, asked_for, tighter, moved)


def _carried(policy: Policy, machine: Machine, question: Question, neighbours: Neighbours) -> Iterator[Moved]:
    """A config's count at each site that reads it, on the same machine with other memory."""
    request, settings = question
    for what, other in neighbours.moved:
        no_less = other.memory is None or (machine.memory is not None and other.memory >= machine.memory)
        for reader in READERS[request.site]:
            granted = policy.decide(replace(request, site=reader), other.snapshot, settings).workers
            yield what, reader, granted, no_less


def broken_laws(cell: Cell) -> dict[int, str]:
    """Every law that the cell breaks, each with what was seen."""
    return {number: seen for number, law in CELL_LAWS if (seen := law(cell)) is not None}


def examine(policy: Policy, labels: Labels) -> tuple[dict[int, str], Decision]:
    """One cell alone, against every tighter value of every limit: slow, and independent of the plan."""
    machine, question = machine_of(labels), question_of(labels)
    neighbours = Neighbours(moved=[("the same memory", machine)])
    for axis in AXES:
        for label in tighter(labels, axis):
            other = {**labels, axis: label}
            request, settings = question_of(other)
            answer = policy.decide(request, machine_of(other).snapshot, settings).workers
            neighbours.tighter.append((f"{axis}={label}", [answer]))
    for axis in MEMORY_AXES:
        for label in AXES[axis].values:
            neighbours.moved.append((f"{axis}={label}", machine_of({**labels, axis: label})))
    (cell,) = family_of_cells(policy, machine, [question], neighbours)
    broken = broken_laws(cell)
    if seen := broken_replay(policy, machine):
        broken[12] = seen
    return broken, cell.decision


def smallest(policy: Policy, labels: Labels, law: int) -> Labels:
    """The cell with as many axes at their default as still break `law`."""
    defaults = default_cell()
    small, before = labels, None
    while small != before:
        before = small
        for axis, default in defaults.items():
            fewer = {**small, axis: default}
            if fewer != small and law in examine(policy, fewer)[0]:
                small = fewer
    return small

"""A run over the plan: each block walked, each answer checked, counted and digested.

One job: blocks → `Run`. It prints nothing and judges nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from dataset_num_proc.errors import SiteError
from matrix.answers import Cell, Machine
from matrix.axes import MEMORY_AXES, Labels
from matrix.cells import default_cell, question_of
from matrix.plan import REQUESTS, ROWS, machines, variants
from matrix.walk import Neighbours, Policy, Question, broken_laws, broken_replay, family_of_cells, machine_of

Family = tuple[Labels, list[Question]]
Answer = tuple[str, int]
"""Code of the binding reason, workers."""


@dataclass(slots=True)
class Run:
    """What a run has seen.

    Attributes:
        cells: answers checked.
        two_step: counts recorded in a config and checked again at the site that reads them.
        tally: (axis, label, binding reason) → cells and workers in all.
        blocks: a digest of the answers of each block.
        failures: the first cell that breaks each law.
    """

    cells: int = 0
    two_step: int = 0
    tally: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    blocks: list[str] = field(default_factory=list)
    failures: dict[int, Labels] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """One digest of every answer."""
        return hashlib.sha256("".join(self.blocks).encode()).hexdigest()

    def count(self, labels: Labels, answer: Answer, cells: int) -> None:
        """Adds `cells` times the same answer under every axis of `labels`."""
        binding, workers = answer
        for at in labels.items():
            entry = self.tally.setdefault((*at, binding), [0, 0])
            entry[0] += cells
            entry[1] += cells * workers


class BlockWalk:
    """One block: its machines, each asked every question of its families."""

    def __init__(self, run: Run, policy: Policy, block: int) -> None:
        """Lay out the questions: they are the same on every machine of the block."""
        self.run, self.policy, self.block = run, policy, block
        self.families: list[Family] = []
        for variant in variants(block):
            for rows in ROWS:
                labels = {**variant, "rows": rows}
                self.families.append((labels, [question_of({**labels, "request": request}) for request in REQUESTS]))
        self.answers: Counter[tuple[int, int, Answer]] = Counter()
        self.hash = hashlib.sha256()

    def walk(self) -> None:
        """The machines with a tighter limit first, the one itself last: its answers are compared with theirs."""
        stars = [(axis, labels, machine_of(labels)) for axis, labels in machines(self.block)]
        _, _, base = stars[-1]
        moved = [(f"{axis}={labels[axis]}", machine) for axis, labels, machine in stars if axis in MEMORY_AXES]
        tighter: list[tuple[str, list[list[int]]]] = []
        for axis, labels, machine in stars:
            others = moved if axis is None else [("more memory", base)] if axis in MEMORY_AXES else []
            granted = self.ask(labels, machine, [] if axis else tighter, others)
            if axis is not None:
                tighter.append((f"{axis}={labels[axis]}", granted))
        for (index, position, answer), cells in self.answers.items():
            self.run.count({**self.families[index][0], "request": REQUESTS[position]}, answer, cells)
        self.run.blocks.append(self.hash.hexdigest()[:12])

    def ask(
        self,
        labels: Labels,
        machine: Machine,
        tighter: list[tuple[str, list[list[int]]]],
        moved: list[tuple[str, Machine]],
    ) -> list[list[int]]:
        """The workers granted on one machine, by family and request. Each answer is checked, counted and digested."""
        if broken_replay(self.policy, machine):
            self.run.failures.setdefault(12, {**default_cell(), **labels})
        granted: list[list[int]] = []
        on_this_machine: Counter[Answer] = Counter()
        for index, (family, questions) in enumerate(self.families):
            neighbours = Neighbours([(what, answers[index]) for what, answers in tighter], moved)
            fewer = index % len(ROWS)
            # Without rows a measurement says nothing: that is another question, not a looser limit.
            if fewer and not (family["rows"] == "none" and questions[0][0].profile):
                neighbours.tighter.append(("fewer rows", granted[-1]))
            cells = list(family_of_cells(self.policy, machine, questions, neighbours))
            granted.append([cell.decision.workers for cell in cells])
            on_this_machine.update(self.judged(labels, index, cells))
        self.run.cells += sum(on_this_machine.values())
        for answer, count in on_this_machine.items():
            self.run.count(labels, answer, count)
        return granted

    def judged(self, labels: Labels, index: int, cells: list[Cell]) -> list[Answer]:
        """The answers of one family, each checked against every law."""
        answers = [(cell.decision.binding.code.value, cell.decision.workers) for cell in cells]
        for position, (cell, answer) in enumerate(zip(cells, answers, strict=True)):
            for law in broken_laws(cell):
                whole = {**labels, **self.families[index][0], "request": REQUESTS[position]}
                self.run.failures.setdefault(law, whole)
            self.answers[index, position, answer] += 1
            self.run.two_step += len(cell.moved)
        self.hash.update(";".join(map(answer_in_text, cells, answers)).encode())
        return answers


def run(policy: Policy, blocks: int) -> Run:
    """The first `blocks` blocks; it ends with the block in which a law is broken."""
    seen = Run()
    for block in range(blocks):
        BlockWalk(seen, policy, block).walk()
        if seen.failures:
            break
    return seen


def answer_in_text(cell: Cell, answer: Answer) -> str:
    """All of an answer that a caller could act on."""
    binding, workers = answer
    word = "no word" if isinstance(cell.word, SiteError) else cell.word
    return f"{workers} {cell.decision.start_method} {binding} {word}"

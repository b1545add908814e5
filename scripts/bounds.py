"""Goals of benchmarks: what a figure should be, and what it must not pass.

One job: to say which of a benchmark's figures is where, in a line each, and whether all are near enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Bound(NamedTuple):
    """What a figure should be, and what it must not pass: a shared machine doubles a time now and then.

    Attributes:
        goal: short of it is said.
        most: past it the benchmark fails.
        form: how both are written.
    """

    goal: float
    most: float
    form: str = "{:g}"


def told(figures: Iterable[tuple[str, float, Bound]]) -> int:
    """Prints a line for each figure; the exit status, 1 where one is past what it must not pass."""
    status = 0
    for text, figure, (goal, most, form) in figures:
        verdict = "ok    " if figure <= goal else "short " if figure <= most else "FAILED"
        print(f"{verdict} {text}; the goal is {form.format(goal)}, and more than {form.format(most)} fails")
        status |= not figure <= most
    return status

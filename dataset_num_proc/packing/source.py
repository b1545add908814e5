"""Reading a source of rows, pass after pass, and knowing where one is in it.

One job: rows in order, and the place at the end of each window of them. What becomes of the rows is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from typing import Any

from dataset_num_proc.errors import PackingError

EXACT_STATES = 4
"""The `datasets` release from which a stream keeps an exact state: before, one of a table goes on after the whole batch
that it was in, and rows are lost (3.4.1: after 3 rows of a shard of 24, at the 25th)."""


@dataclass(frozen=True)
class Place:
    """Where in a source one stands.

    Attributes:
        passes: whole passes before this one.
        rows: rows read in this pass.
        rows_read: rows read in all passes.
        source: the source's own state, where it keeps one.
        finished: there are no more rows.
    """

    passes: int = 0
    rows: int = 0
    rows_read: int = 0
    source: Any = None
    finished: bool = False


def own_state(source: object) -> Callable[[], Any] | None:
    """How to ask a source for its own state; `None` where it keeps none, or none that can be relied on."""
    if (
        type(source).__module__.partition(".")[0] == "datasets"
        and int(version("datasets").partition(".")[0]) < EXACT_STATES
    ):
        return None
    found: Callable[[], Any] | None = getattr(source, "state_dict", None)
    return found


@dataclass
class Reader:
    """Reads a source, and keeps the place at the end of each window.

    Attributes:
        source: the rows; it is iterated once for each pass.
        place: where it was read up to; at first, where to begin.
        window: rows between two marks.
        cyclic: begin again at the end, for ever, each time with the next epoch set.
        epoch: of the first pass.
        beginning: the source's own state at its start, where it was given another one since.
        marks: the place at the end of each window that was read and is not packed yet.
        rows_of_a_pass: how many there were in the last whole pass; `None` before its end.
    """

    source: Any
    place: Place
    window: int
    cyclic: bool
    epoch: int
    beginning: Any
    marks: deque[Place] = field(default_factory=deque, init=False)
    rows_of_a_pass: int | None = field(default=None, init=False)

    def rows(self) -> Iterator[Any]:
        """The rows, from the place where it begins."""
        state = own_state(self.source)
        while not self.place.finished:
            for row in self._pass():
                self._step(state)
                yield row
            self._end_of_pass()

    def _pass(self) -> Iterator[Any]:
        place = self.place
        if place.passes and hasattr(self.source, "set_epoch"):
            self.source.set_epoch(self.epoch + place.passes)
        if place.source is None:
            return islice(self.source, place.rows, None)
        self.source.load_state_dict(place.source)
        return iter(self.source)

    def _step(self, state: Callable[[], Any] | None) -> None:
        place = self.place
        end_of_window = (place.rows_read + 1) % self.window == 0
        # No state in between: it may cost the copy of a shuffle buffer.
        kept = state() if state is not None and end_of_window else None
        self.place = Place(place.passes, place.rows + 1, place.rows_read + 1, kept)
        if end_of_window:
            self.marks.append(self.place)

    def _end_of_pass(self) -> None:
        place = self.place
        if not self.cyclic or (not place.rows and not place.passes):
            self.place = Place(place.passes, place.rows, place.rows_read, finished=True)
            return
        if not place.rows:
            message = "the source gave no rows when it was iterated again, and cyclic=True needs one that does"
            raise PackingError(message)
        self.rows_of_a_pass = place.rows
        self.place = Place(place.passes + 1, 0, place.rows_read, self.beginning)

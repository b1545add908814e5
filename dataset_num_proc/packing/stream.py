"""One pass after the other over a source, packed window by window, with a state to go on from.

One job: rows and their outcomes in, packs out, in order; and where one stands between two packs. How rows are encoded
is the pool's.

A window is so many rows of the source, whatever became of them, so that packs depend on the rows alone. What has been
read ahead counts for nothing: a state holds the source's place at the end of the last window that was packed, and the
encoded rows of that window that no pack has been given out with. Going on from it encodes no row again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, NamedTuple

from dataset_num_proc.errors import PackingError, RowsLost
from dataset_num_proc.packing.outcome import Outcome
from dataset_num_proc.packing.pool import EncoderPool
from dataset_num_proc.packing.source import Place, Reader
from dataset_num_proc.packing.strategy import Strategy, admits

STATE_VERSION = 1


class Item(NamedTuple):
    """One encoded row, or a part of one.

    Attributes:
        row: its number, counted over all passes.
        tokens: its length.
        value: what the encoder gave.
    """

    row: int
    tokens: int
    value: Any


@dataclass(frozen=True)
class Plan:
    """How a stream is packed.

    Attributes:
        strategy: packs each window.
        capacity: most tokens of a pack.
        window: rows of the source that are packed together.
        cyclic: begin again at the end of the source, for ever.
        oversize: what becomes of an item longer than the capacity.
        tokens_of: the length of an item.
    """

    strategy: Strategy
    capacity: int
    window: int
    cyclic: bool
    oversize: str
    tokens_of: Callable[[Any], int]

    @property
    def identity(self) -> dict[str, Any]:
        """What packs depend on besides the rows."""
        return {"strategy": str(self.strategy), "capacity": self.capacity, "window": self.window}


def checked_state(state: Mapping[str, Any], plan: Plan) -> Mapping[str, Any]:
    """A state that a stream with this plan can go on from.

    Raises:
        PackingError: it was made by another version, or by another plan, which would pack other rows together.
    """
    here = {"version": STATE_VERSION, **plan.identity}
    other = [f"{name} {state.get(name)!r}, here {value!r}" for name, value in here.items() if state.get(name) != value]
    if other:
        message = f"the state cannot be gone on from: {'; '.join(other)}"
        raise PackingError(message)
    return state


class PackStream:
    """One iteration: packs in order, and a state between any two of them.

    Attributes:
        left_out: encoded rows, or parts of them, that were too long and were left out as `oversize` says.
    """

    def __init__(
        self,
        source: Iterable[Any],
        plan: Plan,
        epoch: int,
        state: Mapping[str, Any] | None,
        beginning: Any = None,  # noqa: ANN401 - the source's
    ) -> None:
        start = Place(**state["place"]) if state else Place(source=beginning)
        self._plan, self._epoch = plan, epoch
        self._reader = Reader(source, start, window=plan.window, cyclic=plan.cyclic, epoch=epoch, beginning=beginning)
        self._place = start
        self._packs = state["packs"] if state else 0
        self._carried = [Item(*item) for item in state["carried"]] if state else []
        self._pending = deque([Item(*item) for item in pack] for pack in state["pending"]) if state else deque()
        self._rows_before = start.rows_read
        self._barren = 0
        self.left_out = 0

    def packs(self, pool: EncoderPool) -> Iterator[list[Any]]:
        """The packs, each a list of what the encoder gave."""
        yield from self._give_out()
        if self._place.finished:
            return
        items = list(self._carried)
        with closing(pool.encode(self._reader.rows())) as outcomes:
            for outcome in outcomes:
                items += self._items(outcome, pool)
                if (outcome.index + 1) % self._plan.window == 0:
                    self._pack(items, self._reader.marks.popleft())
                    items = list(self._carried)
                    yield from self._give_out()
        self._pack(items, self._reader.place)
        yield from self._give_out()

    def state(self) -> dict[str, Any]:
        """Where this stands: rows count as consumed once the packs that they are in have been given out."""
        kept = [*chain.from_iterable(self._pending), *self._carried]
        return {
            "version": STATE_VERSION,
            **self._plan.identity,
            "epoch": self._epoch,
            "packs": self._packs,
            "rows_consumed": self._place.rows_read - len({item.row for item in kept}),
            "place": asdict(self._place),
            "carried": [tuple(item) for item in self._carried],
            "pending": [[tuple(item) for item in pack] for pack in self._pending],
        }

    def _items(self, outcome: Outcome, pool: EncoderPool) -> list[Item]:
        """What one row gives to pack; a list of it is several items, and nothing is none."""
        row, value, plan = self._rows_before + outcome.index, outcome.value, self._plan
        nothing = value is None or (isinstance(value, Sized) and not len(value))
        values = value if isinstance(value, list) else [] if nothing else [value]
        parts = [Item(row, plan.tokens_of(value), value) for value in values]
        items = [item for item in parts if admits(plan.oversize, row, item.tokens, plan.capacity)]
        self.left_out += len(parts) - len(items)
        self._barren = 0 if items else self._barren + 1
        rows = self._reader.rows_of_a_pass
        if rows and self._barren >= rows:
            message = f"none of the {rows} rows of a whole pass gave anything to pack, and cyclic=True would go on so"
            raise RowsLost(message, stats=pool.stats)
        return items

    def _pack(self, items: list[Item], place: Place) -> None:
        """Packs a window that ends at that place."""
        lengths = [item.tokens for item in items]
        packs, carried = self._plan.strategy.pack_window(lengths, self._plan.capacity, last=place.finished)
        self._pending = deque([items[position] for position in pack] for pack in packs)
        self._carried = [items[position] for position in carried]
        self._place = place

    def _give_out(self) -> Iterator[list[Any]]:
        while self._pending:
            pack = self._pending.popleft()
            self._packs += 1
            yield [item.value for item in pack]

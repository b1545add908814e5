"""Which rows go into which pack: lengths in, a layout out.

One job: the layout of a whole data set, window by window. It depends on the lengths, the capacity, the strategy and the
window alone, never on a worker count. Values alone, never the machine.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dataset_num_proc.packing import bins, bulk
from dataset_num_proc.packing.strategy import (
    ERROR,
    OWN_PACK,
    Strategy,
    admits,
    oversize_rule,
    positive,
    strategy_of,
    tokens_of,
)

Rows = Sequence[int]
BULKY = bins.best_fit_decreasing
"""The algorithm of which `bulk` has a version for many rows."""


@dataclass(frozen=True, slots=True)
class PackLayout:
    """Rows by pack: `len(layout)` packs, and `layout[k]` is the list of the row numbers of one.

    Attributes:
        strategy: name and version.
        capacity: most tokens of a pack.
        members: row numbers, pack after pack.
        ends: where each pack ends in `members`.
        lengths: tokens of each pack.
        dropped: numbers of the rows that were too long and are in no pack.
    """

    strategy: str
    capacity: int
    members: Rows = field(repr=False)
    ends: Rows = field(repr=False)
    lengths: Rows = field(repr=False)
    dropped: Rows = ()

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, pack: int) -> list[int]:
        pack = range(len(self.ends))[pack]
        return list(self.members[self.ends[pack - 1] if pack else 0 : self.ends[pack]])

    def __iter__(self) -> Iterator[list[int]]:
        start = 0
        for end in self.ends:
            yield list(self.members[start:end])
            start = end

    @property
    def indices(self) -> list[list[int]]:
        """The row numbers of every pack."""
        return list(self)

    @property
    def efficiency(self) -> float:
        """Tokens over the capacity of all packs; 1.0 where there are none."""
        return sum(self.lengths) / (self.capacity * len(self)) if len(self) else 1.0


def pack_lengths(  # noqa: PLR0913 - keywords, each of which has a default
    lengths: Iterable[object],
    capacity: int,
    *,
    strategy: str = "bfd",
    window: int | None = None,
    oversize: str = ERROR,
    legacy_chunks: int = 1,
    progress: Callable[[int], object] | None = None,
) -> PackLayout:
    """The layout of rows of these lengths.

    Args:
        lengths: tokens of each row; a list of numbers is a row of several parts that stay together.
        capacity: most tokens of a pack.
        strategy: "bfd" (best fit, longest first), "ffd" (first fit, longest first: as full, and most often one mix of
            lengths repeated), "wfd" (packs of like fill), "sequential" (order kept), "binpack" or "binpack-2" (what
            ms-swift gives with binpacking 1.5.2 and with 2.0.1). "bfd/1" insists on a version.
        window: rows packed together; `None` takes the strategy's own: 1000 for the last two, else all rows.
        oversize: what becomes of a row longer than the capacity: "error", "drop", or "own_pack", which is a pack longer
            than the capacity.
        legacy_chunks: ms-swift packs each of its `packing_num_proc` equal shares of the rows apart, so that its layout
            depends on that count; say the count to have that layout.
        progress: called now and then with the number of rows packed since.

    Raises:
        PackingError: an argument is out of range, or a length is no whole number of at least 0.
        OversizeRow: a row is too long, and `oversize` is "error".
    """
    packing, rule = strategy_of(strategy), oversize_rule(oversize)
    capacity, tokens = positive("capacity", capacity), _numbers(lengths)
    rows, dropped = _admitted(tokens, capacity, rule)
    window = None if window is None else positive("window", window)
    builder = _Builder(packing, capacity, tokens, progress or (lambda _: None))
    for share in _shares(rows, positive("legacy_chunks", legacy_chunks)):
        builder.pack(share, window or packing.window or len(share))
    return builder.layout(dropped)


def _numbers(lengths: Iterable[object]) -> list[int]:
    """The tokens of each row."""
    plain: Any = getattr(lengths, "tolist", None)  # of arrays and tensors: their elements are slow to read one by one
    values = lengths if plain is None else plain()
    numbers = [value if value.__class__ is int else tokens_of(row, value) for row, value in enumerate(values)]
    if numbers and min(numbers) < 0:
        row = next(row for row, value in enumerate(numbers) if value < 0)
        tokens_of(row, numbers[row])
    return numbers


def _admitted(tokens: list[int], capacity: int, oversize: str) -> tuple[Rows, Rows]:
    """The rows to pack, and those that are left out."""
    rows = range(len(tokens))
    if max(tokens, default=0) <= capacity or oversize == OWN_PACK:
        return rows, ()
    dropped = tuple(row for row in rows if not admits(oversize, row, tokens[row], capacity))
    return sorted(set(rows).difference(dropped)), dropped


def _shares(rows: Rows, count: int) -> Iterator[Rows]:
    """Contiguous shares of the rows, divided as numpy's `linspace` divides, which is what ms-swift does it by."""
    step = len(rows) / count
    edges = [*(int(share * step) for share in range(count)), len(rows)]
    return (rows[start:end] for start, end in pairwise(edges) if end > start)


class _Builder:
    """Packs one share of the rows after the other."""

    def __init__(self, strategy: Strategy, capacity: int, tokens: list[int], progress: Callable[[int], object]) -> None:
        self._strategy, self._capacity, self._tokens, self._progress = strategy, capacity, tokens, progress
        self._members, self._ends, self._sums = array("q"), array("q"), array("q")

    def pack(self, share: Rows, window: int) -> None:
        """Packs these rows, that many at a time."""
        if window >= len(share) >= bulk.WORTH_ROWS and self._strategy.algorithm is BULKY and bulk.offered():
            self._pack_in_bulk(share)
            return
        carried: list[int] = []
        for start in range(0, len(share), window):
            group = [*carried, *share[start : start + window]]
            lengths = [self._tokens[row] for row in group]
            last = start + window >= len(share)
            packs, left = self._strategy.pack_window(lengths, self._capacity, last=last)
            row_at, tokens_at = group.__getitem__, lengths.__getitem__
            for pack in packs:
                self._members.extend(map(row_at, pack))
                self._ends.append(len(self._members))
                self._sums.append(sum(map(tokens_at, pack)))
            carried = [group[position] for position in left]
            self._progress(min(window, len(share) - start))

    def _pack_in_bulk(self, share: Rows) -> None:
        before, all_rows = len(self._members), share == range(len(self._tokens))
        lengths = self._tokens if all_rows else [self._tokens[row] for row in share]
        positions, ends, sums = bulk.best_fit_decreasing(lengths, self._capacity)
        self._members.extend(positions if all_rows else [share[position] for position in positions])
        self._ends.extend([before + end for end in ends] if before else ends)
        self._sums.extend(sums)
        self._progress(len(share))

    def layout(self, dropped: Rows) -> PackLayout:
        """All that was packed."""
        return PackLayout(str(self._strategy), self._capacity, self._members, self._ends, self._sums, dropped)

"""How many rows were encoded, skipped and dropped, and when too many were lost.

One job: to count outcomes in the order of their rows, to log the first few failures, and to raise where a failure is to
be raised or a loss is too great. It may not look at workers: the same counts come out for any number of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from dataset_num_proc.errors import RowsLost

_log = logging.getLogger("dataset_num_proc")
SHOWN = 3
"""Failures that are logged with their tracebacks: the first tells what is wrong, a few whether it is always that."""


@dataclass
class EncodeStats:
    """Rows so far, over all iterations of one pool.

    Attributes:
        rows: that have an outcome.
        encoded: that the encoder returned something for.
        skipped: that the encoder did not want.
        dropped: that the encoder failed on, by the name of the exception's type.
        tracebacks: of the first few that were dropped.
    """

    rows: int = 0
    encoded: int = 0
    skipped: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Rows dropped, for whatever exception."""
        return sum(self.dropped.values())


@dataclass
class Ledger:
    """The losses of one iteration, with the pool's counts.

    Attributes:
        stats: of the pool.
        window: rows that may not all be lost in a row.
        max_drop_ratio: the share of all rows that may be lost, once there were `window` of them.
        rows, lost, in_a_row: of this iteration.
    """

    stats: EncodeStats
    window: int
    max_drop_ratio: float
    rows: int = 0
    lost: int = 0
    in_a_row: int = 0

    def encoded(self) -> None:
        """One row more was encoded."""
        self.stats.rows += 1
        self.stats.encoded += 1
        self.rows += 1
        self.in_a_row = 0

    def skipped(self) -> None:
        """One row more was not wanted."""
        self.stats.rows += 1
        self.stats.skipped += 1
        self.rows += 1

    def dropped(self, index: int, name: str, trace: str) -> None:
        """One row more was lost to an exception.

        Raises:
            RowsLost: now too many are.
        """
        self.stats.rows += 1
        self.stats.dropped[name] += 1
        self.rows += 1
        self.lost += 1
        self.in_a_row += 1
        if len(self.stats.tracebacks) < SHOWN:
            self.stats.tracebacks.append(trace)
            more = "; further ones are only counted" if len(self.stats.tracebacks) == SHOWN else ""
            _log.warning("row %d is dropped%s\n%s", index, more, trace)
        if self.in_a_row >= self.window:
            self._raise(f"the last {self.in_a_row} rows were all dropped")
        if self.rows >= self.window:
            self._check_share()

    def ended(self) -> None:
        """The source has no more rows.

        Raises:
            RowsLost: too many of a short source were lost.
        """
        if self.lost and self.lost == self.rows:
            self._raise(f"all {self.rows} rows were dropped")
        self._check_share()

    def _check_share(self) -> None:
        if self.lost > self.rows * self.max_drop_ratio:
            share = f"more than the share of {self.max_drop_ratio:g} that may be (max_drop_ratio)"
            self._raise(f"{self.lost} of {self.rows} rows were dropped, {share}")

    def _raise(self, what: str) -> NoReturn:
        names = ", ".join(f"{name} {count}×" for name, count in self.stats.dropped.most_common())
        last = self.stats.tracebacks[0].strip() if self.stats.tracebacks else ""
        message = f"{what}: {names}. strict=True raises the first of them. It was:\n{last}"
        raise RowsLost(message, stats=self.stats)

"""One worker and the rows sent to it, as the pool sees them.

One job: these values. They may not start, send or wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any

from dataset_num_proc.machine.members import Member
from dataset_num_proc.packing import worker
from dataset_num_proc.packing.transport import Channel


@dataclass(eq=False)
class Chunk:
    """Some rows in a row, sent to one worker.

    Attributes:
        session: number of the iteration that they belong to.
        first: place of the first one in the source.
        count: how many.
        size: their bytes.
        reply: the results, once they are here.
    """

    session: int
    first: int
    count: int
    size: int
    reply: bytes | memoryview | None = None


@dataclass(eq=False)
class Worker:
    """One worker, as its pool sees it."""

    process: BaseProcess
    channel: Channel
    note: Any
    member: Member
    ready: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)

    @property
    def rows(self) -> int:
        """Rows that it has still to answer for."""
        return sum(chunk.count for chunk in self.chunks)

    @property
    def row(self) -> int | None:
        """The row in hand, else the first of those that it has not answered for."""
        row = int(self.note[worker.ROW])
        if row >= 0:
            return row
        return self.chunks[0].first if self.chunks else None

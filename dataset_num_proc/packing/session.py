"""One iteration over rows: sent ahead, taken back in order.

One job: the order, and the bounds of what is under way. It may not look at processes; the crew does.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dataset_num_proc.packing import worker
from dataset_num_proc.packing.crew import Crew
from dataset_num_proc.packing.outcome import PROTOCOL, Failure, Kind
from dataset_num_proc.packing.transport import loads, records_of
from dataset_num_proc.packing.worker_handle import Chunk

_SECONDS_A_CHUNK = 0.01
"""Work that one message brings: a message costs some 0.1 ms on both sides, 1 % of it."""
_MOST_ROWS_A_CHUNK = 256
_CHUNKS_PER_WORKER = 4
"""At least so many share a worker's part of what is under way, so that the last of them does not leave it idle."""
_SECONDS_AHEAD = 2.0
"""Work that each worker is given ahead: it lasts for the training step that the consumer is at."""
_FEWEST_AHEAD, _MOST_AHEAD = 64, 1024
"""Rows ahead for each worker, whatever they take: with four workers two windows of ms-swift's 128 rows at least."""


@dataclass
class Session:
    """One iteration.

    Attributes:
        crew: the workers.
        number: of the iteration, rising.
        source: the rows.
        max_rows: under way at most: read from the source, and not yet handed out; `None` for two seconds' work.
        max_bytes: of them, pickled.
    """

    crew: Crew
    number: int
    source: Iterator[object]
    max_rows: int | None
    max_bytes: int
    _chunks: deque[Chunk | Failure] = field(default_factory=deque)
    _rows: int = 0
    _read: int = 0
    _bytes: int = 0
    _result_bytes: float = 0.0
    _error: BaseException | None = None
    _ended: bool = False

    def results(self) -> Iterator[tuple[int, Kind, Any]]:
        """Place, kind and value of each row, in order; the value of a dropped one is a `Failure`.

        Raises:
            WorkerDied: the workers cannot go on.
            BaseException: what the source raised, after all rows before it.
        """
        while True:
            if self._head_is_here():
                self.crew.pump(wait=False)
                # One more than it takes away: what is under way grows while nobody has to wait for it.
                self._send_ahead(2)
                yield from self._taken()
            elif self._send_ahead(1):
                self.crew.pump(wait=False)
            elif self._chunks or not self._ended:
                self.crew.pump(wait=True)
            else:
                break
        if self._error is not None:
            raise self._error

    def _head_is_here(self) -> bool:
        head = self._chunks[0] if self._chunks else None
        return isinstance(head, Failure) or (head is not None and head.reply is not None)

    def _taken(self) -> Iterator[tuple[int, Kind, Any]]:
        """The results of the oldest chunk."""
        head = self._chunks.popleft()
        first = self._read - self._rows
        if isinstance(head, Failure):
            self._rows -= 1
            yield first, Kind.DROPPED, head
            return
        body = head.reply or b""
        self._rows -= head.count
        self._bytes -= head.size
        self._result_bytes = max(len(body) / head.count, 0.9 * self._result_bytes)
        for place, (kind, data) in enumerate(records_of(body), first):
            if kind == worker.ENCODED:
                yield place, *_unpickled(data)
            elif kind == worker.SKIPPED:
                yield place, Kind.SKIPPED, None
            else:
                yield place, Kind.DROPPED, loads(data)

    def _send_ahead(self, chunks: int) -> bool:
        """Reads and sends up to so many chunks; whether any."""
        share = self._share()
        deadline = time.monotonic() + _SECONDS_A_CHUNK  # a slow source is to hold up neither its first rows nor a death
        for sent in range(chunks):
            one = None if self._ended or self._is_full() else self.crew.least_loaded(share)
            if one is None or (sent and time.monotonic() > deadline):
                return sent > 0
            first = self._read
            rows, failure = self._next_rows(self._rows_a_chunk(share), deadline)
            if rows:
                chunk = Chunk(self.number, first, len(rows), sum(map(len, rows)))
                self._chunks.append(chunk)
                self.crew.assign(one, chunk, rows)
            if failure is not None:
                self._chunks.append(failure)
        return True

    def _share(self) -> int:
        """Rows that one worker may have."""
        if self.max_rows is not None:
            return max(1, self.max_rows // len(self.crew.workers))
        seconds = self.crew.seconds_per_row
        if seconds is None:
            return _FEWEST_AHEAD
        return max(_FEWEST_AHEAD, min(_MOST_AHEAD, int(_SECONDS_AHEAD / max(seconds, 1e-6))))

    def _rows_a_chunk(self, share: int) -> int:
        seconds = self.crew.seconds_per_row
        if seconds is None:  # nothing is known of the work yet
            return 1
        most = min(_MOST_ROWS_A_CHUNK, max(1, share // _CHUNKS_PER_WORKER))
        return max(1, min(most, int(_SECONDS_A_CHUNK / max(seconds, 1e-6))))

    def _is_full(self) -> bool:
        """Whether as much is under way as may be. One row always may."""
        under_way = self._bytes + self._result_bytes * self._rows
        most = _MOST_AHEAD * len(self.crew.workers) if self.max_rows is None else self.max_rows
        return self._rows >= most or (self._rows > 0 and under_way >= self.max_bytes)

    def _next_rows(self, most: int, deadline: float) -> tuple[list[bytes], Failure | None]:
        """Pickled rows of the source, and the failure of the row after them where it does not pickle."""
        rows: list[bytes] = []
        while len(rows) < most and not self._is_full() and (not rows or time.monotonic() < deadline):
            try:
                row = next(self.source)
            except StopIteration:
                self._ended = True
                break
            except Exception as error:  # noqa: BLE001 - raised again, once the rows before it have been handed out
                self._ended, self._error = True, error
                break
            self._read += 1
            self._rows += 1
            try:
                rows.append(pickle.dumps(row, PROTOCOL))
            except Exception as error:  # noqa: BLE001 - whatever a reducer raises
                return rows, Failure.of(error)
            self._bytes += len(rows[-1])
        return rows, None


def _unpickled(data: bytes | memoryview) -> tuple[Kind, Any]:
    try:
        return Kind.ENCODED, loads(data)
    except Exception as error:  # noqa: BLE001 - whatever the result's own code raises
        return Kind.DROPPED, Failure.of(error)

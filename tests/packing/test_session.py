"""What is sent ahead, and in what pieces, with workers that answer at once."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from typing import Any, cast

from dataset_num_proc.packing.crew import Crew
from dataset_num_proc.packing.session import Session
from dataset_num_proc.packing.transport import record
from dataset_num_proc.packing.worker import ENCODED
from dataset_num_proc.packing.worker_handle import Chunk


class Instant:
    """Stands for a crew of two whose work takes no time."""

    def __init__(self) -> None:
        self.workers = [object(), object()]
        self.seconds_per_row = 1e-6
        self.counts: list[int] = []

    def pump(self, *, wait: bool) -> None:
        """Everything has come already."""
        assert not wait

    def least_loaded(self, most: int) -> object:
        """None has anything in hand."""
        assert most > 0
        return self.workers[0]

    def assign(self, one: object, chunk: Chunk, rows: Iterable[bytes]) -> None:
        """Answers."""
        assert one is self.workers[0]
        self.counts.append(chunk.count)
        chunk.reply = b"".join(part for data in rows for part in record(ENCODED, data))


def session(source: Iterable[object], **bounds: Any) -> tuple[Session, Instant]:  # noqa: ANN401 - numbers
    """An iteration over a source."""
    crew = Instant()
    return Session(cast("Crew", crew), 1, iter(source), **{"max_rows": None, "max_bytes": 1 << 30, **bounds}), crew


def test_quick_rows_go_in_large_chunks() -> None:
    """Rows that cost next to nothing share their messages, up to the bound on rows that are under way."""
    made, crew = session(range(5000))
    assert [value for _, _, value in made.results()] == list(range(5000))
    assert max(crew.counts) > 100
    made, crew = session(range(500), max_rows=16)
    assert [place for place, _, _ in made.results()] == list(range(500))
    assert max(crew.counts) <= 16 // len(crew.workers)


def test_a_slow_source_is_not_waited_for() -> None:
    """Rows that take long to come go out one by one, and hold up none that is ready for longer than one takes."""
    read = []

    def source() -> Iterator[int]:
        for row in range(12):
            read.append(row)
            time.sleep(0.02)
            yield row

    made, crew = session(source())
    assert [len(read) - place for place, _, _ in made.results()] == [2] * 11 + [1]
    assert set(crew.counts) == {1}


def test_bytes_bound_a_chunk() -> None:
    """A chunk ends where the bytes that are under way reach their bound."""
    rows = [bytes(1000)] * 40
    made, crew = session(rows, max_bytes=5 * len(pickle.dumps(rows[0], 5)))
    assert [value for _, _, value in made.results()] == rows
    assert max(crew.counts) <= 5

"""One outcome for each row, in the rows' order, the same for any number of workers and any start method."""

from __future__ import annotations

import itertools
import os
import pickle
import time
from collections.abc import Iterator

import pytest

from dataset_num_proc.packing import EncoderPool, Kind, Outcome
from tests.packing import encoders
from tests.packing.pools import pool, values

IN_PROCESS = [encoders.encode(row) for row in range(500)]
CHOOSY: list[tuple[int, object, Kind]] = [
    (row, None, Kind.SKIPPED)
    if row % 10 == 3
    else (row, None, Kind.DROPPED)
    if row % 7 == 5
    else (row, row, Kind.ENCODED)
    for row in range(300)
]


def as_tuples(outcomes: Iterator[Outcome]) -> list[tuple[int, object, Kind]]:
    """Outcomes as values that compare."""
    return [(one.index, one.value, one.kind) for one in outcomes]


@pytest.mark.parametrize(
    ("method", "workers"),
    [*(("fork", count) for count in range(5)), ("spawn", 1), ("spawn", 3), ("forkserver", 1), ("forkserver", 3)],
)
def test_outcomes_do_not_depend_on_workers(method: str, workers: int) -> None:
    """Every outcome, with its place and kind, is what it is in process; the counts too, and in a second iteration."""
    with pool(encoders.choosy, method, workers=workers, skip=(encoders.TooLong,)) as made:
        assert as_tuples(made.encode(range(300))) == CHOOSY
        assert as_tuples(made.encode(range(300))) == CHOOSY
        stats = made.stats
    assert (stats.rows, stats.encoded, stats.skipped) == (600, 2 * (300 - 30 - stats.dropped["ValueError"] // 2), 60)
    assert dict(stats.dropped) == {"ValueError": 2 * sum(kind is Kind.DROPPED for _, _, kind in CHOOSY)}


def test_values_are_those_of_the_encoder() -> None:
    """What an encoder returns comes out as it is, whatever the size of the chunks that it traveled in."""
    with pool(encoders.encode, workers=3) as made:
        assert values(made.encode(range(500))) == IN_PROCESS


def test_all_workers_work() -> None:
    """Rows are shared out: none of three workers stays idle."""
    pids: set[int] = set()
    with pool(encoders.pid_of, workers=3) as made:
        for one in made.encode(itertools.count()):  # one of them may be long in starting
            pids.add(one.value[1])
            if len(pids) == 3:
                break
    assert os.getpid() not in pids


def test_source_is_read_once_and_only_so_far_ahead() -> None:
    """A one-shot source gives every row, the first too, and no more are read ahead than may be under way."""
    read = []

    def source() -> Iterator[int]:
        for row in range(200):
            read.append(row)
            yield row

    with pool(encoders.encode, max_rows_in_flight=16) as made:
        rows, ahead = [], []
        for one in made.encode(source()):
            rows.append(one.value["row"])
            ahead.append(len(read) - one.index)
    assert rows == list(range(200)) == read
    assert max(ahead) <= 16 + 16  # under way, and the chunk that is being handed out


def test_bytes_under_way_are_bounded() -> None:
    """Large rows are sent ahead until their bytes reach the bound, and one row passes whatever its size."""
    read = []

    def source() -> Iterator[bytes]:
        for row in range(30):
            read.append(row)
            yield bytes(1000)

    with pool(len, max_bytes_in_flight=3000) as made:
        ahead = [len(read) - one.index for one in made.encode(source())]
        assert max(ahead) <= 5
        assert values(made.encode([bytes(100_000)] * 3)) == [100_000] * 3


def test_workers_go_on_while_nobody_asks() -> None:
    """Rows that were sent ahead are encoded while the consumer does something else."""
    with pool(encoders.slow, workers=2) as made:
        outcomes = made.encode(range(1000))
        for _ in range(30):
            next(outcomes)
        time.sleep(0.5)  # a training step: the two workers have time for fifty rows
        begun = time.perf_counter()
        for _ in range(16):
            next(outcomes)
        quick = time.perf_counter() - begun
        assert (
            quick < 16 * 0.02
        )  # less than one worker takes for them, and no more than nothing for those that are there
        outcomes.close()


def test_interleaved_iterations() -> None:
    """Two iterations of one pool each give their own rows, also when one of them is left early."""
    with pool(encoders.encode) as made:
        one, other = made.encode(range(100)), made.encode(range(1000, 1100))
        first = [next(one).value["row"], next(other).value["row"], next(one).value["row"]]
        one.close()
        assert first == [0, 1000, 1]
        assert [value["row"] for value in values(other)] == list(range(1001, 1100))


def test_early_close_leaves_the_workers_free() -> None:
    """Rows that nobody waits for any more are not encoded: the next iteration does not wait for them."""
    with pool(encoders.slow, workers=1) as made:
        outcomes = made.encode(range(1000))
        for _ in range(30):
            next(outcomes)
        outcomes.close()
        begun = time.perf_counter()
        assert values(made.encode([7])) == [7]
        assert time.perf_counter() - begun < 20 * 0.02  # far fewer than were under way


def test_source_error_comes_after_its_rows() -> None:
    """What the source raises is raised as it is, after the outcomes of all rows before it; the next iteration works."""
    broken = OSError("the disk is gone")

    def source() -> Iterator[int]:
        yield from range(50)
        raise broken

    got: list[int] = []
    with pool(encoders.encode) as made:
        with pytest.raises(OSError, match="the disk is gone") as caught:
            got.extend(one.value["row"] for one in made.encode(source()))
        assert caught.value is broken
        assert got == list(range(50))
        assert values(made.encode(range(20))) == IN_PROCESS[:20]


def test_pool_pickles_as_its_arguments() -> None:
    """A pool with workers and counts arrives elsewhere as a new one with the same arguments."""
    with pool(encoders.encode, max_rows_in_flight=10, skip=(encoders.TooLong,)) as made:
        list(made.encode(range(20)))
        copy: EncoderPool = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
        assert (copy.encoder, copy.workers, copy.skip, copy.max_rows_in_flight) == (
            encoders.encode,
            2,
            (encoders.TooLong,),
            10,
        )
        assert (copy.stats.rows, copy.decision) == (0, None)
        with copy:
            assert values(copy.encode(range(5))) == IN_PROCESS[:5]


def test_nothing_starts_before_the_first_row() -> None:
    """A pool that nobody iterates costs nothing, and an empty source gives nothing."""
    with pool(encoders.encode) as made:
        outcomes = made.encode(range(3))
        assert made.decision is None
        assert len(list(outcomes)) == 3
        assert list(made.encode([])) == []


def test_keywords_reach_the_encoder() -> None:
    """`encode_kwargs` go with each call."""
    with pool(divmod_by, encode_kwargs={"by": 3}) as made:
        assert values(made.encode([7, 8])) == [(2, 1), (2, 2)]


def divmod_by(row: int, *, by: int) -> tuple[int, int]:
    """Of a row."""
    return divmod(row, by)

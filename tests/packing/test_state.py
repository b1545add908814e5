"""A packing stream stopped between any two packs and gone on with: the same packs, and no row encoded again."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pytest

from dataset_num_proc.errors import PackingError
from dataset_num_proc.packing import IterablePackingDataset
from tests.capabilities import needs_datasets
from tests.values import machine

ROWS = [(row * 37) % 9 for row in range(70)]


class Counted:
    """An encoder that knows which rows it was given."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, row: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a number, or a row of `datasets`
        """A row of that many tokens; nothing for none."""
        number: int = row["id"] if isinstance(row, dict) else row
        self.rows.append(number)
        return {"input_ids": [number] * ROWS[number]} if ROWS[number] else None


class Kept:
    """A source that keeps its own state, and counts how often it was read from its start."""

    def __init__(self, rows: int) -> None:
        self.starts, self._rows, self._next = 0, rows, 0

    def __iter__(self) -> Iterator[int]:
        self.starts += self._next == 0
        while self._next < self._rows:
            self._next += 1
            yield self._next - 1
        self._next = 0

    def state_dict(self) -> dict[str, int]:
        """The next row."""
        return {"next": self._next}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Has the next iteration begin there."""
        self._next = state["next"]


def stream(source: Any, encoder: Counted, **options: Any) -> IterablePackingDataset:  # noqa: ANN401 - typed by the class
    """A stream of packs of sixteen tokens, in process if nothing else is said."""
    options = {"packing_interval": 9, "num_proc": 0, "pool_options": {"snapshot": machine()}, **options}
    return IterablePackingDataset(None, source, encode=encoder, packing_length=16, **options)


def stopped(made: IterablePackingDataset, packs: int) -> tuple[list[Any], Any]:
    """The first packs, and the state after them, as a checkpoint has it."""
    iterator = iter(made)
    return list(islice(iterator, packs)), pickle.loads(pickle.dumps(made.state_dict()))  # noqa: S301 - our own


@pytest.mark.parametrize("strategy", ["binpack", "sequential", "bfd"])
@pytest.mark.parametrize("source", ["rows", "with a state"])
def test_going_on_after_any_pack(strategy: str, source: str) -> None:
    """After any number of packs the rest is what it would have been, each row encoded at most once in all."""

    def rows() -> Any:  # noqa: ANN401 - a source
        return range(len(ROWS)) if source == "rows" else Kept(len(ROWS))

    whole = list(stream(rows(), Counted(), packing_strategy=strategy))
    for packs in (0, 1, 2, 5, 9, len(whole) - 1, len(whole)):
        first, state = stopped(stream(rows(), Counted(), packing_strategy=strategy), packs)
        encoder = Counted()
        again = stream(rows(), encoder, packing_strategy=strategy)
        again.load_state_dict(state)
        assert again.state_dict() == state
        assert first + list(again) == whole
        read = state["place"]["rows_read"]
        assert encoder.rows == list(range(read, len(ROWS)))


def test_rows_count_as_consumed_with_their_pack() -> None:
    """A row is consumed once its pack was given out, however far the source was read."""
    made = stream(range(len(ROWS)), Counted())
    given = 0
    packs = iter(made)
    for pack in packs:
        given += len(pack)
        state = made.state_dict()
        empty = sum(ROWS[row] == 0 for row in range(state["place"]["rows_read"]))
        assert state["rows_consumed"] == given + empty
    assert made.state_dict()["rows_consumed"] == len(ROWS)


def test_a_source_with_a_state_is_not_read_again() -> None:
    """Where the source keeps a state it goes on from there by itself; afterwards it is read from its start again."""
    first, state = stopped(stream(Kept(len(ROWS)), Counted()), 4)
    source = Kept(len(ROWS))
    again = stream(source, Counted())
    again.load_state_dict(state)
    rest = list(again)
    assert source.starts == 0
    assert list(again) == first + rest
    assert source.starts == 1


@needs_datasets
@pytest.mark.timeout(60)  # it may be the one that imports datasets
def test_a_stream_of_datasets() -> None:
    """A streamed data set of `datasets` goes on by its own state, and the epoch after that begins at its start."""
    from datasets import Dataset

    def rows() -> Any:  # noqa: ANN401 - typed for newer Pythons
        return Dataset.from_dict({"id": list(range(len(ROWS)))}).to_iterable_dataset(num_shards=3)

    whole = list(stream(rows(), Counted()))
    first, state = stopped(stream(rows(), Counted()), 6)
    again = stream(rows(), Counted())
    again.load_state_dict(state)
    assert first + list(again) == whole
    assert list(again) == whole
    cyclic = stream(rows(), Counted(), cyclic=True)
    expected = list(islice(cyclic, 40))
    first, state = stopped(stream(rows(), Counted(), cyclic=True), 6)
    again = stream(rows(), Counted(), cyclic=True)
    again.load_state_dict(state)
    assert first + list(islice(again, 34)) == expected


def test_going_on_in_a_later_pass() -> None:
    """A cyclic stream goes on in the pass in which it was stopped."""
    whole = list(islice(stream(range(20), Counted(), cyclic=True), 40))
    first, state = stopped(stream(range(20), Counted(), cyclic=True), 25)
    assert state["place"]["passes"] >= 1
    again = stream(range(20), Counted(), cyclic=True)
    again.load_state_dict(state)
    assert first + list(islice(again, 15)) == whole


def test_going_on_with_workers() -> None:
    """What workers had read ahead when it was stopped is read again, and no pack is missing."""
    whole = list(stream(range(len(ROWS)), Counted()))
    with stream(range(len(ROWS)), Counted(), num_proc=2, multiprocessing_context="fork") as made:
        first, state = stopped(made, 3)
    again = stream(range(len(ROWS)), Counted())
    again.load_state_dict(state)
    assert first + list(again) == whole


def test_the_epoch_goes_along() -> None:
    """A state carries the epoch, and sets it at the source."""

    class Source(list[int]):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    made = stream(Source(ROWS), Counted())
    made.set_epoch(5)
    again = stream(Source(ROWS), Counted())
    again.load_state_dict(made.state_dict())
    assert (again.epoch, again.dataset.epoch) == (5, 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize("other", [{"packing_strategy": "bfd"}, {"packing_interval": 10}])
def test_a_state_of_other_packs_is_refused(other: dict[str, Any]) -> None:
    """A state of another strategy or window would pack other rows together: an error that names both."""
    state = stream(ROWS, Counted()).state_dict()
    with pytest.raises(PackingError, match=r"(strategy 'binpack/1', here 'bfd/1'|window 9, here 10)"):
        stream(ROWS, Counted(), **other).load_state_dict(state)

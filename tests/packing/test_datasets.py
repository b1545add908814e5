"""The packing data sets: ms-swift's arguments, any encoder, nothing lost, nothing started before it is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc.errors import OversizeRow, PackingError, RowsLost
from dataset_num_proc.packing import IterablePackingDataset, PackingDataset
from dataset_num_proc.packing.lengths import token_count
from tests.capabilities import needs_datasets, needs_linux, needs_torch
from tests.left_running import left_running
from tests.packing import encoders
from tests.scripts import run
from tests.values import machine

PROGRAM = Path(__file__).parent / "torch_program.py"


class Template:
    """What ms-swift's templates have and packing asks for."""

    max_length = 8

    def encode(self, row: int, *, return_length: bool = False) -> dict[str, Any]:
        """A row of that many tokens."""
        assert return_length
        return {"input_ids": [row] * row}


class Table(list[int]):
    """Rows by number that know their lengths."""

    def __getitem__(self, key: object) -> Any:  # noqa: ANN401 - a row or the column
        return list(self) if key == "lengths" else super().__getitem__(key)  # type: ignore[call-overload] # a number


def tokens(row: int) -> dict[str, Any]:
    """A row of that many tokens."""
    return {"input_ids": [row] * row}


def stream(
    rows: Iterable[int],
    encode: Callable[[int], object] = tokens,
    capacity: int = 8,
    workers: int = 0,
    **options: Any,  # noqa: ANN401 - typed by the class
) -> IterablePackingDataset:
    """A streamed data set on a machine with room, in process if nothing else is said."""
    pool = {"snapshot": machine()}
    return IterablePackingDataset(
        None, rows, workers, encode=encode, packing_length=capacity, pool_options=pool, **options
    )


def lengths(packs: Iterable[list[Any]]) -> list[list[int]]:
    """The rows of packs by their lengths."""
    return [[len(item["input_ids"]) for item in pack] for pack in packs]


def test_by_a_template() -> None:
    """A template encodes, says how long a pack may be, and is told that its rows are packed."""
    template: Any = Template()
    made = IterablePackingDataset(template, [5, 3, 4, 4], 0, pool_options={"snapshot": machine()})
    assert (template.packing, template.padding_free, made.packing_length) == (True, True, 8)
    assert lengths(made) == [[5, 3], [4, 4]]
    by_number = PackingDataset(template, Table([5, 3, 4, 4]))
    assert [by_number[0], by_number[1], len(by_number)] == [[5, 3], [4, 4], 2]
    assert (by_number.packed_idx, by_number.packed_length) == ([[0, 1], [2, 3]], [8, 8])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_packs_do_not_depend_on_workers(method: str) -> None:
    """Any number of workers, by any start method, gives the packs that come out in this process."""
    rows = list(range(300))
    here = list(stream(rows, encoders.encode, 64, packing_interval=50))
    with stream(rows, encoders.encode, 64, 2, packing_interval=50, multiprocessing_context=method) as made:
        assert list(made) == here
    assert left_running() == []


def test_nothing_starts_before_the_first_pack() -> None:
    """Making a data set and asking for its iterator starts no worker and reads no row."""
    source = iter([1, 2, 3])
    made = stream(source, workers=2)
    packs = iter(made)
    assert left_running() == []
    assert next(source) == 1
    del packs


def test_every_row_of_a_source_that_can_be_read_once() -> None:
    """The source is not probed: no row of a one-shot source is lost."""
    assert lengths(stream(iter([8, 7, 6]))) == [[8], [7], [6]]
    assert list(stream([])) == []
    assert list(stream([], cyclic=True)) == []


def test_what_an_encoder_may_return() -> None:
    """A list is several rows, packed one by one, and nothing is none."""

    def encode(row: int) -> object:
        return {3: [tokens(6), tokens(2)], 4: [], 5: {}, 6: None}.get(row, tokens(row))

    assert lengths(stream([1, 3, 4, 5, 6, 7], encode)) == [[7, 1], [6, 2]]


def test_window_by_rows_read() -> None:
    """A window is so many rows of the source, whether they were encoded or not."""

    def encode(row: int) -> object:
        return tokens(row) if row < 9 else None

    assert lengths(stream([2, 9, 7, 8], encode, packing_interval=2)) == [[8], [7], [2]]
    assert lengths(stream([2, 7, 8], encode, packing_interval=2)) == [[7], [8], [2]]


def test_rows_that_are_too_long() -> None:
    """By default they are packed alone, as ms-swift does; else dropped and counted, or an error that names the row."""
    assert lengths(stream([3, 9, 4])) == [[9], [4, 3]]
    dropping = stream([3, 9, 4], oversize="drop")
    assert (lengths(dropping), dropping.left_out) == ([[4, 3]], 1)
    with pytest.raises(OversizeRow, match="row 1 has 9 tokens, and a pack holds 8"):
        list(stream([3, 9, 4], oversize="error"))


def test_strict() -> None:
    """The encoder's own exception, after the packs of the windows before it; else the row is dropped and counted."""

    def encode(row: int) -> object:
        return {"input_ids": [1] * (8 // row)}

    packs = iter(stream([1, 1, 0, 1], encode, strict=True, packing_interval=2))
    assert len(next(packs)) == 1
    with pytest.raises(ZeroDivisionError):
        next(packs)
    lenient = stream([1, 1, 0, 1], encode)
    assert len(list(lenient)) == 3
    assert dict(lenient.stats.dropped) == {"ZeroDivisionError": 1}


def test_max_length_error_of_ms_swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ms-swift is imported, its MaxLengthError is a wish to skip the row, in strict too."""
    template = type(sys)("swift.template")
    template.MaxLengthError = encoders.TooLong  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "swift.template", template)

    def encode(row: int) -> object:
        if row > 8:
            raise encoders.TooLong
        return tokens(row)

    made = stream([8, 9, 7], encode, strict=True)
    assert (lengths(made), made.stats.skipped) == ([[8], [7]], 1)


class Epochs:
    """Rows in an order that depends on the epoch."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Has the next iteration be of that epoch."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.seen.append(self._epoch)
        return iter([8, 7] if self._epoch % 2 else [7, 8])


def test_cyclic() -> None:
    """A cyclic data set goes on over the end of its source, with the next epoch each time."""
    source = Epochs()
    made = stream(source, cyclic=True, packing_interval=1, packing_strategy="sequential")
    made.set_epoch(3)
    assert lengths(islice(made, 5)) == [[8], [7], [7], [8], [8]]
    assert source.seen == [3, 4, 5]


def test_cyclic_without_progress() -> None:
    """A whole pass that gives nothing is an error, no endless loop; so is a source that cannot be iterated again."""
    with pytest.raises(RowsLost, match="none of the 3 rows of a whole pass"):
        list(stream([1, 2, 3], lambda _: None, cyclic=True))
    with pytest.raises(PackingError, match="gave no rows when it was iterated again"):
        list(stream(iter([8, 8]), cyclic=True, packing_interval=1))


@pytest.mark.parametrize("value", [{"lengths": [3, 4]}, {"length": 7}, {"lengths": 7}, {"input_ids": range(7)}])
def test_token_count(value: dict[str, Any]) -> None:
    """Encoded rows without `input_ids`, as preference pairs, are counted by their lengths."""
    assert token_count(value) == 7


def test_arguments_that_are_out_of_range() -> None:
    """Each is an error that names the value when the data set is made; so is an encoded row that cannot be counted."""
    with pytest.raises(PackingError, match="packing_interval is 0"):
        stream([], packing_interval=0)
    with pytest.raises(PackingError, match="strategy 'sequentail' is not known"):
        stream([], packing_strategy="sequentail")
    with pytest.raises(PackingError, match="packing_length is None"):
        IterablePackingDataset(None, [], encode=tokens)
    with pytest.raises(PackingError, match="template is None"):
        IterablePackingDataset(None, [], packing_length=8)
    with pytest.raises(PackingError, match="has no column 'lengths'"):
        PackingDataset(None, {}, packing_length=8)
    with pytest.raises(PackingError, match=r"needs 'input_ids', .* it has \['labels'\]"):
        list(stream([1], lambda _: {"labels": []}))


def test_map_style_layout_does_not_depend_on_processes() -> None:
    """`packing_num_proc` changes nothing, unless ms-swift's layout for that many processes is asked for."""
    rows = Table([(row * 37) % 9 for row in range(2500)])
    one = PackingDataset(None, rows, packing_length=16)
    assert PackingDataset(None, rows, packing_length=16, packing_num_proc=3).layout == one.layout
    legacy = PackingDataset(None, rows, packing_length=16, packing_num_proc=3, legacy_chunks=True)
    assert legacy.layout != one.layout
    assert sorted(row for pack in legacy.packed_idx for row in pack) == list(range(2500))


@needs_datasets
@pytest.mark.timeout(60)  # it may be the one that imports datasets
def test_rows_of_a_data_set() -> None:
    """A table of `datasets` is packed by its column."""
    from datasets import Dataset

    table = Dataset.from_dict({"lengths": [[2, 3], [3], [8]], "name": ["a", "b", "c"]})
    made = PackingDataset(None, table, packing_length=8)
    assert [[row["name"] for row in pack] for pack in (made[0], made[1])] == [["c"], ["a", "b"]]


@pytest.fixture(scope="module")
def with_torch() -> Any:  # noqa: ANN401 - what a program printed
    """What a program with torch sees of packing data sets."""
    return run(PROGRAM).json()


@needs_torch
@needs_linux
def test_torch_takes_them_for_its_own(with_torch: dict[str, Any]) -> None:
    """With torch imported they are torch's data sets, loaded in process or by a worker, and pickle as what they are."""
    assert with_torch["loader"] == {
        "torch's": [True, True],
        "in process": [[5, 3], [4, 4]],
        "by a worker": [[5, 3], [4, 4]],
        "unpickled": ["IterablePackingDataset", [[5, 3], [4, 4]]],
    }


@needs_torch
@needs_linux
def test_ranks(with_torch: dict[str, Any]) -> None:
    """Rank 0 lays the rows out for all; where it fails, all ranks raise at once. Only one that iterates has workers."""
    assert with_torch["ranks"] == [
        {
            "packs": [[0], [1, 2]],
            "failed": "the length of row 0 is -1; it must be a whole number of",
            "streamed": [[5, 3], [4, 4]],
            "workers": 2,
        },
        {
            "packs": [[0], [1, 2]],
            "failed": "rank 0 could not pack: dataset_num_proc.errors.PackingE",
            "streamed": None,
            "workers": None,
        },
    ]

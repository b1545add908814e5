"""Layouts: every row once, no pack too long, and the packs of each strategy as a slow and plain packer has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataset_num_proc.errors import OversizeRow, PackingError
from dataset_num_proc.packing import PackLayout, bins, bulk, pack_lengths
from dataset_num_proc.packing.strategy import STRATEGIES
from tests.capabilities import needs_numpy

Packs = list[list[int]]
CAPACITIES = st.sampled_from([1, 2, 7, 16, 17, 64, 65, 4096])
names = st.sampled_from(sorted(STRATEGIES))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], int]:
    """Lengths and a capacity: short rows, rows of one length, rows that are too long, and empty ones."""
    capacity = draw(CAPACITIES)
    most = draw(st.sampled_from([1, capacity // 2 + 1, capacity, capacity + 3]))
    return draw(st.lists(st.integers(0, most), max_size=60)), capacity


def by_scanning(lengths: Sequence[int], capacity: int, choose: Callable[[list[int]], Any]) -> Packs:
    """Longest first, each into the pack that `choose` prefers by its tokens, of those with room for it."""
    packs: Packs = []
    tokens: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        fitting = [pack for pack, sum_ in enumerate(tokens) if sum_ + lengths[row] <= capacity]
        if fitting:
            pack = choose([tokens[pack] for pack in fitting])
            packs[fitting[pack]].append(row)
            tokens[fitting[pack]] += lengths[row]
        else:
            packs.append([row])
            tokens.append(lengths[row])
    return packs


def first(_: list[int]) -> int:
    """The pack that was opened first."""
    return 0


def fullest(tokens: list[int]) -> int:
    """The fullest pack, and of equally full ones the first."""
    return tokens.index(max(tokens))


def emptiest(tokens: list[int]) -> int:
    """The emptiest pack, and of equally empty ones the first."""
    return tokens.index(min(tokens))


@given(cases(), names, st.none() | st.integers(1, 20), st.integers(1, 4))
def test_every_row_once(case: tuple[list[int], int], name: str, window: int | None, chunks: int) -> None:
    """Every row is in one pack, a pack's length is that of its rows, and only a row alone may exceed the capacity."""
    lengths, capacity = case
    seen: list[int] = []
    layout = pack_lengths(
        lengths,
        capacity,
        strategy=name,
        window=window,
        oversize="own_pack",
        legacy_chunks=chunks,
        progress=seen.append,
    )
    assert sorted(chain.from_iterable(layout)) == list(range(len(lengths)))
    assert [sum(lengths[row] for row in pack) for pack in layout] == list(layout.lengths)
    assert all(tokens <= capacity or len(pack) == 1 for pack, tokens in zip(layout, layout.lengths, strict=True))
    assert (len(layout), layout.indices) == (len(list(layout)), [layout[pack] for pack in range(len(layout))])
    assert sum(seen) == len(lengths)


@given(cases())
def test_algorithms_are_what_they_say(case: tuple[list[int], int]) -> None:
    """Best, first and worst fit give the packs of a packer that looks at every pack for every row."""
    lengths, capacity = case
    assert bins.best_fit_decreasing(lengths, capacity) == by_scanning(lengths, capacity, fullest)
    assert bins.first_fit_decreasing(lengths, capacity) == by_scanning(lengths, capacity, first)
    emptiest_alone = by_scanning_the_emptiest(lengths, capacity)
    assert bins.worst_fit_decreasing(lengths, capacity) == emptiest_alone
    if max(lengths, default=0) <= capacity:
        assert emptiest_alone == by_scanning(lengths, capacity, emptiest)


def by_scanning_the_emptiest(lengths: Sequence[int], capacity: int) -> Packs:
    """Longest first, each into the emptiest of all packs or into a new one; a pack that is too long counts as well."""
    packs: Packs = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        sums = [sum(lengths[other] for other in pack) for pack in packs]
        if sums and min(sums) + lengths[row] <= capacity:
            packs[emptiest(sums)].append(row)
        else:
            packs.append([row])
    return packs


@given(cases())
def test_few_and_many_rows_by_the_same_rule(case: tuple[list[int], int]) -> None:
    """The two ways to keep open packs give the same packs; which one is taken is a matter of time alone."""
    assert bins.fit_few(*case) == bins.fit_many(*case)


@needs_numpy
@given(cases().filter(lambda case: bool(case[0])))
def test_bulk_is_best_fit(case: tuple[list[int], int]) -> None:
    """The version for many rows gives the packs of the one that goes row by row."""
    lengths, capacity = case
    members, ends, sums = bulk.best_fit_decreasing(lengths, capacity)
    packs = [list(members[start:end]) for start, end in pairwise([0, *ends])]
    assert packs == bins.best_fit_decreasing(lengths, capacity)
    assert [sum(lengths[row] for row in pack) for pack in packs] == list(sums)


@needs_numpy
def test_many_rows() -> None:
    """A set that is large enough for the other version has the same layout, in one share or in two, from any type."""
    import numpy as np

    lengths = [(row * 7919) % 4097 for row in range(2 * bulk.WORTH_ROWS + 3)]
    assert pack_lengths(lengths, 4097).indices == bins.best_fit_decreasing(lengths, 4097)
    assert pack_lengths(np.array(lengths), 4097) == pack_lengths(lengths, 4097)
    halves = [lengths[: len(lengths) // 2], lengths[len(lengths) // 2 :]]
    packs = [pack_lengths(half, 4097).indices for half in halves]
    packs[1] = [[row + len(halves[0]) for row in pack] for pack in packs[1]]
    assert pack_lengths(lengths, 4097, legacy_chunks=2).indices == packs[0] + packs[1]


@given(cases(), st.none() | st.integers(1, 20))
def test_sequential_keeps_the_order(case: tuple[list[int], int], window: int | None) -> None:
    """Rows stay in order, each pack is closed by the first that does not fit, and windows change nothing."""
    lengths, capacity = case
    layout = pack_lengths(lengths, capacity, strategy="sequential", window=window, oversize="own_pack")
    assert list(layout.members) == list(range(len(lengths)))
    for tokens, following in zip(layout.lengths, layout.indices[1:], strict=False):
        assert tokens + lengths[following[0]] > capacity or tokens >= capacity


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@pytest.mark.parametrize("capacity", [2**power + more for power in (3, 10, 15) for more in (-1, 0, 1)])
def test_any_capacity(name: str, capacity: int) -> None:
    """Capacities beside a power of two are filled too (https://github.com/huggingface/trl/issues/3887)."""
    layout = pack_lengths([capacity // 2, capacity - capacity // 2] * 10, capacity, strategy=name)
    assert (len(layout), layout.efficiency) == (10, 1.0)


def test_names_and_versions_do_not_drift() -> None:
    """What each name means, on rows that tell the strategies apart; a change here needs a new version."""
    lengths = [2, 4, 7, 7, 7, 4, 1, 1]
    assert {name: (str(one), pack_lengths(lengths, 10, strategy=name).indices) for name, one in STRATEGIES.items()} == {
        "bfd": ("bfd/1", [[2, 6, 7], [3], [4], [1, 5, 0]]),
        "ffd": ("ffd/1", [[2, 0, 6], [3, 7], [4], [1, 5]]),
        "wfd": ("wfd/1", [[2, 0], [3, 6], [4, 7], [1, 5]]),
        "sequential": ("sequential/1", [[0, 1], [2], [3], [4], [5, 6, 7]]),
        "binpack": ("binpack/1", [[2, 6, 7], [3], [4], [1, 5, 0]]),
        "binpack-2": ("binpack-2/1", [[2, 0], [3, 6], [4, 7], [1, 5]]),
    }
    assert pack_lengths(lengths, 10, strategy="ffd/1") == pack_lengths(lengths, 10, strategy="ffd")


def test_whole_set_is_fuller_than_windows() -> None:
    """Packing all rows together takes no more packs than packing them by windows."""
    lengths = [(row * 7919) % 901 + 100 for row in range(3000)]
    assert len(pack_lengths(lengths, 1024)) <= len(pack_lengths(lengths, 1024, strategy="binpack"))


def test_rows_of_parts() -> None:
    """A row of several parts stays together."""
    assert pack_lengths([[3, 4], 3, (1, 1)], 8).indices == [[0], [1, 2]]


def test_rows_that_are_too_long() -> None:
    """What becomes of them is said by the caller; by default it is an error that says what can be said."""
    with pytest.raises(OversizeRow, match=r'row 1 has 20 tokens, and a pack holds 16; oversize="drop" .*"own_pack"'):
        pack_lengths([3, 20, 4], 16)
    dropped = pack_lengths([3, 20, 4], 16, oversize="drop")
    assert (dropped.indices, dropped.dropped) == ([[2, 0]], (1,))
    assert pack_lengths([3, 20, 4], 16, oversize="own_pack").indices == [[1], [2, 0]]


def test_nothing_to_pack() -> None:
    """No rows are no packs."""
    layout = pack_lengths([], 16)
    assert (len(layout), layout.indices, layout.efficiency) == (0, [], 1.0)
    with pytest.raises(IndexError):
        layout[0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"capacity": 0}, "capacity is 0; it must be a whole number of at least 1"),
        ({"capacity": 2.5}, "capacity is 2.5; it must"),
        ({"window": 0}, "window is 0; it must"),
        ({"legacy_chunks": -1}, "legacy_chunks is -1; it must"),
        ({"oversize": "ignore"}, "oversize is 'ignore'; it accepts 'error', 'drop', 'own_pack'"),
        ({"strategy": "sequentail"}, "strategy 'sequentail' is not known; there are bfd/1, ffd/1, wfd/1, sequential/1"),
        ({"strategy": "bfd/2"}, "strategy 'bfd/2' is not known"),
        ({"strategy": None}, "strategy None is not known"),
        ({"lengths": [1, -2]}, "the length of row 1 is -2; it must be a whole number of at least 0"),
        ({"lengths": [1.0]}, "the length of row 0 is 1.0; it must"),
        ({"lengths": [[1, "2"]]}, "the length of row 0 is '2'; it must"),
    ],
)
def test_errors_name_the_value_and_what_is_accepted(arguments: dict[str, Any], text: str) -> None:
    """An argument out of range is an error that says which it is and what it may be."""
    with pytest.raises(PackingError) as caught:
        pack_lengths(**{"lengths": [1, 2], "capacity": 16, **arguments})
    assert text in str(caught.value)


def test_layouts_are_small_and_pickle() -> None:
    """A layout travels between ranks as whole numbers of eight bytes, not as lists."""
    import pickle

    layout = pack_lengths([1] * 10_000, 100)
    sent = pickle.dumps(layout)
    assert len(sent) < 8 * (10_000 + 2 * 100) + 1000
    back: PackLayout = pickle.loads(sent)  # noqa: S301 - our own
    assert back == layout

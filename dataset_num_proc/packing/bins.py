"""Bin packing of whole numbers: lengths and a capacity in, packs of positions out.

One job: the four algorithms, each on one list that is packed as a whole. They know nothing of windows, names or rows
that are too long: a length over the capacity gets a pack of its own. Values alone, never the machine.

Every algorithm is deterministic: of equal lengths the earlier position comes first, and of equally good packs the one
that was opened first is taken. Packs are in the order in which they were opened.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heapreplace

Packs = list[list[int]]
Algorithm = Callable[[Sequence[int], int], Packs]


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Positions from the longest to the shortest; of equal lengths the earlier first."""
    return sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)  # reversed sorts are stable too


FEW_ROWS = 4096
"""Up to about this many rows one list of all open packs is the faster to keep: 1,000 rows take three quarters of the
time there, 4,000 as long, and 20,000 longer (lognormal lengths, capacity 4096)."""


def best_fit_decreasing(lengths: Sequence[int], capacity: int) -> Packs:
    """Longest first, each into the fullest pack that has room for it, else into a new one."""
    return (fit_few if len(lengths) <= FEW_ROWS else fit_many)(lengths, capacity)


def fit_few(lengths: Sequence[int], capacity: int) -> Packs:
    """Best fit with all open packs in one sorted list, each as one number: its room, then its place."""
    packs: Packs = []
    bits = len(lengths).bit_length()
    places, new = (1 << bits) - 1, capacity << bits
    open_packs: list[int] = []
    for position in longest_first(lengths):
        size = lengths[position] << bits
        at = bisect_left(open_packs, size)
        if at < len(open_packs):
            pack = open_packs.pop(at)
            packs[pack & places].append(position)
        else:
            pack = new + len(packs)
            packs.append([position])
        if pack >= size:  # else a row longer than the capacity
            insort(open_packs, pack - size, 0, at)
    return packs


def fit_many(lengths: Sequence[int], capacity: int) -> Packs:
    """Best fit with open packs by the room that is left in them, a whole number of at most `capacity`.

    The search is over the distinct rooms and never over the packs, so it does not slow down as packs grow many.
    """
    packs: Packs = []
    by_room: dict[int, list[int]] = {}  # room → a heap of the packs that have it
    rooms: list[int] = []  # its keys, ascending
    for position in longest_first(lengths):
        length = lengths[position]
        at = bisect_left(rooms, length)
        if at < len(rooms):
            room = rooms[at]
            pack = heappop(by_room[room])
            if not by_room[room]:
                del rooms[at], by_room[room]
            packs[pack].append(position)
        else:
            room, pack = capacity, len(packs)
            packs.append([position])
        room -= length
        if room in by_room:
            heappush(by_room[room], pack)
        elif room >= 0:
            by_room[room] = [pack]
            insort(rooms, room)
    return packs


def worst_fit_decreasing(lengths: Sequence[int], capacity: int) -> Packs:
    """Longest first, each into the emptiest pack if it has room for it, else into a new one: packs of like fill."""
    packs: Packs = []
    emptiest: list[tuple[int, int]] = []  # a heap of (tokens, pack)
    for position in longest_first(lengths):
        length = lengths[position]
        if emptiest and emptiest[0][0] + length <= capacity:
            tokens, pack = emptiest[0]
            packs[pack].append(position)
            heapreplace(emptiest, (tokens + length, pack))
        else:
            heappush(emptiest, (length, len(packs)))
            packs.append([position])
    return packs


def first_fit_decreasing(lengths: Sequence[int], capacity: int) -> Packs:
    """Longest first, each into the pack opened first of those that have room for it, else into a new one.

    Seen from the packs, that is to fill one after the other, each time with the longest row left that still fits. So
    it takes one search a distinct length in a pack, and the same mix of lengths is repeated while rows for it last.
    """
    rows_of: dict[int, list[int]] = {}
    for position, length in enumerate(lengths):
        rows_of.setdefault(length, []).append(position)
    known = sorted(rows_of)
    left = {length: len(rows) for length, rows in rows_of.items()}
    packs: Packs = []
    while known:
        mix = _mix(known, left, capacity)
        times = min(left[length] // count for length, count in mix)
        parts = []
        for length, count in mix:
            start = len(rows_of[length]) - left[length]
            parts.append((rows_of[length], count, range(start, start + times * count, count)))
            left[length] -= times * count
            if not left[length]:
                del known[bisect_left(known, length)]
        for time in range(times):
            packs.append([row for rows, count, starts in parts for row in rows[starts[time] : starts[time] + count]])
    return packs


def _mix(known: list[int], left: dict[int, int], capacity: int) -> list[tuple[int, int]]:
    """How many rows of which lengths the next pack takes, longest first."""
    if known[-1] > capacity:
        return [(known[-1], 1)]
    mix = []
    room, end = capacity, len(known)
    while (end := bisect_right(known, room, 0, end)) > 0:
        end -= 1
        length = known[end]
        count = min(left[length], room // length) if length else left[length]
        mix.append((length, count))
        room -= length * count
    return mix


def next_fit(lengths: Sequence[int], capacity: int) -> Packs:
    """In the order given: one pack is open at a time, and is closed by the first row that does not fit."""
    packs: Packs = []
    pack: list[int] = []
    room = capacity
    for position, length in enumerate(lengths):
        if pack and (length > room or room <= 0):
            packs.append(pack)
            pack, room = [], capacity
        pack.append(position)
        room -= length
    if pack:
        packs.append(pack)
    return packs

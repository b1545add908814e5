"""Which cells of the full product are walked: a fixed, evenly spread part that holds every pair of values of two axes.

One job: a block number → its machines and its questions, as labels. There is no randomness: each axis steps through its
values by its own irrational stride (a Weyl sequence), so that any two axes soon meet in all combinations.

A block is one machine and, for each of its limits, the same machine with that limit one step tighter. Each of them is
asked the full product of request × rows, for each of the block's variants (site, override, settings, kind of work).
"""

from __future__ import annotations

from itertools import combinations
from math import isqrt

from matrix.axes import AXES, MACHINE_AXES, Labels
from matrix.cells import tighter

BLOCKS, QUICK_BLOCKS = 1710, 171
VARIANTS = 2
"""Variants of each block."""
VARIANT_AXES = ("site", "override", "settings", "work")
ROWS = tuple(reversed(AXES["rows"].descending))
REQUESTS = tuple(AXES["request"].values)

_PRIMES = (
    83,
    89,
    97,
    101,
    103,
    107,
    311,
    283,
    127,
    131,
    137,
    139,
    149,
    151,
    157,
    163,
    167,
    173,
    179,
    181,
    191,
    193,
    197,
    199,
    211,
)
_STRIDES = {name: isqrt(prime << 64) & 0xFFFFFFFF for name, prime in zip(AXES, _PRIMES, strict=True)}
"""The first 32 bits of the fractional part of a square root, for each axis: exact, so alike on every platform.

The primes are those of which a search found that the whole plan misses no pair; a changed axis may need others.
"""


def _label(axis: str, step: int) -> str:
    spread = AXES[axis].spread
    return spread[((step * _STRIDES[axis]) & 0xFFFFFFFF) * len(spread) >> 32]


def machines(block: int) -> list[tuple[str | None, Labels]]:
    """The machines of a block: each with one limit tighter, by the name of that axis, and at last the one itself."""
    base = {axis: _label(axis, block) for axis in MACHINE_AXES}
    star = [(axis, {**base, axis: less[0]}) for axis in MACHINE_AXES if (less := tighter(base, axis))]
    return [*star, (None, base)]


def variants(block: int) -> list[Labels]:
    """The variants of a block: each is asked with every request on every number of rows."""
    steps = range(block * VARIANTS, (block + 1) * VARIANTS)
    return [{axis: _label(axis, step) for axis in VARIANT_AXES} for step in steps]


def missing_pairs(blocks: int) -> set[tuple[str, str, str, str]]:
    """Every (axis, label, other axis, label) that no cell of the first `blocks` blocks holds.

    Rows and request are left out: every variant on every machine is asked with all of them.
    """
    spread = [*MACHINE_AXES, *VARIANT_AXES]
    missing = {
        (one, label, other, other_label)
        for one, other in combinations(spread, 2)
        for label in AXES[one].values
        for other_label in AXES[other].values
    }
    for block in range(blocks):
        for _, machine in machines(block):
            for variant in variants(block):
                cell = [*machine.items(), *variant.items()]
                missing.difference_update((*one, *other) for one, other in combinations(cell, 2))
    return missing

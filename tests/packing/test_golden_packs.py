"""Packs that ms-swift 4.6.0 made, with either meaning of binpacking, are made here too."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dataset_num_proc import packing
from tests.values import machine

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from packs.configurations import Configuration, Packed, pack_with
from packs.golden import recorded
from packs.templates import TooLong

GOLDEN = Path(__file__).parents[1] / "golden"
BINPACK = {"1.5.2": "binpack", "2.0.1": "binpack-2"}
CASES = [
    pytest.param(replace(one, strategy=BINPACK[release]) if one.strategy == "binpack" else one, packs, id=f"{one}")
    for release in BINPACK
    for one, packs in recorded(GOLDEN / f"packs-binpacking-{release}.json")
]


@pytest.mark.parametrize(("configuration", "made"), CASES)
def test_packs_are_those_of_ms_swift(configuration: Configuration, made: Packed) -> None:
    """The same packs in the same order, and the same packs before an error, which here is the encoder's own."""
    if configuration.stream:
        pool_options = {"skip": (TooLong,), "max_drop_ratio": 1.0, "window": sys.maxsize, "snapshot": machine()}
        found = pack_with(packing, configuration, num_proc=0, pool_options=pool_options)
    else:
        found = pack_with(packing, configuration, legacy_chunks=True)
    if made == Packed([], None) and found.error == "RowsLost":
        return  # every row failed: ms-swift gives nothing, and says nothing
    assert found.packs == made.packs
    assert (found.error, made.error) in ((None, None), ("ValueError", "RuntimeError"))


def test_the_record_has_every_kind() -> None:
    """Both classes, every template, both strategies of ms-swift, and each flag are on record with either binpacking."""
    for release in BINPACK:
        kept = [one for one, _ in recorded(GOLDEN / f"packs-binpacking-{release}.json")]
        assert {one.stream for one in kept} == {True, False}
        assert len({one.template for one in kept}) == 6
        assert {one.strategy for one in kept} == {"binpack", "sequential"}
        assert all(any(getattr(one, flag) for one in kept) for flag in ("strict", "cyclic", "epochs", "by_template"))

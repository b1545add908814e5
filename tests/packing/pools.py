"""Pools for tests, on a machine with room for all of them.

One job: a pool from a few words, and what came out of it. Nothing here is read from the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dataset_num_proc.packing import EncoderPool, Kind, Outcome
from tests.left_running import left_running
from tests.values import machine

METHODS = ("fork", "spawn", "forkserver")


@contextmanager
def pool(encoder: Callable[..., Any], method: str = "fork", **options: Any) -> Iterator[EncoderPool]:  # noqa: ANN401 - typed by the pool
    """A pool of two workers, if nothing else is said; leaves nothing running."""
    options = {"workers": 2, "start_method": method, "snapshot": machine(), **options}
    before = set(left_running())
    with EncoderPool(encoder, **options) as made:
        yield made
    assert set(left_running()) - before == set()


def values(outcomes: Iterable[Outcome]) -> list[Any]:
    """What was encoded, in order."""
    return [one.value for one in outcomes if one.kind is Kind.ENCODED]


def until_it_fails(outcomes: Iterator[Outcome]) -> tuple[list[Any], BaseException | None]:
    """What was encoded before an error, and the error."""
    got: list[Any] = []
    try:
        got.extend(one.value for one in outcomes if one.kind is Kind.ENCODED)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        return got, error
    return got, None

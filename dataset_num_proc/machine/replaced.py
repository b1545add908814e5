"""One attribute of a class or a module, replaced for a while.

One job: to put another value in its place, and the stock one back as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:  # noqa: ANN401 - a class or a module
    """Has `value` as the owner's own attribute of that name for the scope's length."""
    stock = vars(owner)[name]  # the descriptor itself: getattr would unwrap a staticmethod
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, stock)

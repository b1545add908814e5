"""What is packed: rows, sources of rows, and templates that encode them as ms-swift's do.

One job: to be light, so that a worker that imports it does so at once.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]


class Template:
    """Encodes a row to as many tokens as it says, in the way that it says.

    Attributes:
        max_length: the capacity of a pack where nothing else is said.
    """

    use_model = False

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length

    def encode(self, row: Row, *, return_length: bool = False) -> Any:  # noqa: ANN401 - a dict, a list of them, or nothing
        """What the row says: a dict, a list of dicts, nothing, or an exception."""
        how, length = row["how"], row["length"]
        if how == "raise":
            message = f"row {row['id']} is bad"
            raise ValueError(message)
        if how == "long":
            message = f"row {row['id']} is too long"
            raise max_length_error()(message)
        if how == "empty":
            return {}
        parts = row["parts"] if how == "list" else [length]
        encoded = [
            {"input_ids": [row["id"]] * part, **({"lengths": [part]} if return_length else {})} for part in parts
        ]
        return encoded if how == "list" else encoded[0]


class Signing(Template):
    """Says which process encoded a row."""

    def encode(self, row: Row, *, return_length: bool = False) -> Any:  # noqa: ANN401 - as above
        """Tokens and a pid."""
        return {**super().encode(row, return_length=return_length), "pid": os.getpid()}


class TooLong(ValueError):  # noqa: N818 - as ms-swift's MaxLengthError, a wish and no fault
    """Stands for `MaxLengthError` where ms-swift is not imported."""


def max_length_error() -> type[ValueError]:
    """ms-swift's exception for a row that is too long."""
    template = sys.modules.get("swift.template")
    found: type[ValueError] = TooLong if template is None else template.MaxLengthError
    return found


def rows(rng: random.Random, count: int, capacity: int, hows: dict[str, float]) -> list[Row]:
    """That many rows: each is encoded in one of these ways, "dict" unless chance has it another."""
    most = rng.choice([max(capacity // 8, 1), capacity, capacity + capacity // 8 + 1])

    def how() -> str:
        chance = rng.random()
        for name, share in hows.items():
            chance -= share
            if chance < 0:
                return name
        return "dict"

    def length() -> int:
        return rng.randint(1, most)

    return [
        {"id": row, "how": how(), "length": length(), "parts": [length() for _ in range(rng.randint(1, 4))]}
        for row in range(count)
    ]


class Shuffled:
    """Rows in an order that depends on the epoch, as a shuffled stream has them."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows, self._epoch = rows, 0

    def set_epoch(self, epoch: int) -> None:
        """Has the next iterations be in that epoch's order."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Row]:
        order = list(self._rows)
        random.Random(self._epoch).shuffle(order)  # noqa: S311 - chance for tests
        return iter(order)


class Table:
    """Rows by number, with a column of their lengths."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: int | str) -> Any:  # noqa: ANN401 - a row, or the column
        if isinstance(key, str):
            return [row["parts"] if row["how"] == "list" else row["length"] for row in self._rows]
        return self._rows[key]

"""How long rows are: what an encoded row says of itself, and the column of a data set that says it of all.

One job: to find these numbers where ms-swift's templates and data sets have them. It may not encode anything.
"""

from __future__ import annotations

from typing import Any

from dataset_num_proc.errors import PackingError
from dataset_num_proc.packing.strategy import tokens_of

COLUMN = "lengths"


def token_count(value: Any) -> int:  # noqa: ANN401 - what an encoder returns
    """The tokens of an encoded row: of its `input_ids`, else the sum of its `lengths` (or its `length`).

    The second is for pairs and triples, as in preference data, whose token ids have other names.

    Raises:
        PackingError: it has none of these.
    """
    try:
        if "input_ids" in value:
            return len(value["input_ids"])
        length = value[COLUMN] if COLUMN in value else value["length"]
    except (KeyError, TypeError):
        has = sorted(value) if isinstance(value, dict) else f"{type(value).__name__} {value!r:.80}"
        message = f"an encoded row needs 'input_ids', '{COLUMN}' or 'length', or length_of= to count it; it has {has}"
        raise PackingError(message) from None
    return tokens_of(0, length)


def column(dataset: Any) -> Any:  # noqa: ANN401 - whatever has columns by name
    """The lengths of all rows of a data set."""
    try:
        lengths = dataset[COLUMN]
    except (KeyError, TypeError, IndexError) as error:
        message = f"the data set has no column {COLUMN!r}; say lengths="
        raise PackingError(message) from error
    # `datasets` hands out a column that reads its table row by row; a slice of it is a list.
    return lengths[:]

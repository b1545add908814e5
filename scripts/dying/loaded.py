"""A data set whose rows come from a pool, for a DataLoader.

One job: to be importable by a fresh interpreter that has torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset

from dataset_num_proc.packing import EncoderPool, Kind


class Rows(IterableDataset):  # type: ignore[misc] # torch is not typed here
    """The encoded rows of a source."""

    def __init__(self, pool: EncoderPool, source: Any) -> None:  # noqa: ANN401 - any iterable
        self.pool, self.source = pool, source

    def __iter__(self) -> Iterator[Any]:
        return (one.value for one in self.pool.encode(self.source) if one.kind is Kind.ENCODED)

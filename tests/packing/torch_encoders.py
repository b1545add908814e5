"""Encoders that use torch, and a data set that holds a pool, as packing data sets do.

One job: to be importable by a fresh interpreter that has torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset

from dataset_num_proc.packing import EncoderPool


def tensor(row: int) -> Any:  # noqa: ANN401 - torch is not typed here
    """Enters torch's thread pool, which a forked child of its user does not have; its storage outlives its worker."""
    return (torch.zeros(2, 100_000) + row).sum(1)


def twice(row: int) -> int:
    """Of a row."""
    return 2 * row


class Encoded(IterableDataset):  # type: ignore[misc] # torch is not typed here
    """Rows from a pool."""

    def __init__(self) -> None:
        self.pool = EncoderPool(twice, workers=2)

    def __iter__(self) -> Iterator[int]:
        return (one.value for one in self.pool.encode(range(30)))

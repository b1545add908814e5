"""Packing data sets in a program that has torch: in its DataLoader, and on two ranks.

One job: to be a process of its own, since torch's threads would stay in the one that runs the tests. It prints what it
saw.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from typing import Any

from dataset_num_proc.errors import PackingError
from dataset_num_proc.packing import IterablePackingDataset, PackingDataset
from tests.values import machine


def tokens(row: int) -> dict[str, Any]:
    """A row of that many tokens."""
    return {"input_ids": [row] * row}


def lengths(packs: Any) -> list[list[int]]:  # noqa: ANN401 - a data set or a loader of one
    """The rows of packs by their lengths."""
    return [[len(item["input_ids"]) for item in pack] for pack in packs]


def by_number(values: list[int]) -> PackingDataset:
    """Rows of these lengths, packed."""
    return PackingDataset(None, values, packing_length=8, lengths=values)


def stream(workers: int) -> IterablePackingDataset:
    """Rows of five, three, four and four tokens, encoded by so many workers."""
    pool = {"snapshot": machine()}
    return IterablePackingDataset(None, [5, 3, 4, 4], workers, encode=tokens, packing_length=8, pool_options=pool)


def loader() -> dict[str, Any]:
    """What torch makes of them. They are imported before torch, as sorted imports have it."""
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    made = stream(0)
    back = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    return {
        "torch's": [isinstance(made, IterableDataset), isinstance(by_number([5]), Dataset)],
        "in process": lengths(DataLoader(made, batch_size=None)),
        "by a worker": lengths(DataLoader(made, batch_size=None, num_workers=1)),
        "unpickled": [type(back).__name__, lengths(back)],
    }


def ranks() -> list[dict[str, Any]]:
    """What two ranks have; the second knows no lengths, and rank 0 fails at the second data set."""
    import torch.distributed as dist

    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "other")  # noqa: PTH118 - text throughout
        pid = os.fork()
        rank = 0 if pid else 1
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
        found: dict[str, Any] = {"packs": by_number([8, 5, 3] if rank == 0 else [0]).packed_idx}
        try:
            by_number([-1] if rank == 0 else [0])
        except PackingError as error:
            found["failed"] = str(error)[:55]
        with stream(2) as made:
            packs = lengths(made) if rank == 0 else None  # as a loader has it that reads on one rank
            found |= {"streamed": packs, "workers": made.pool.decision and made.pool.decision.workers}
        dist.destroy_process_group()
        if rank:
            with open(other, "w") as file:  # noqa: PTH123 - likewise
                json.dump(found, file)
            os._exit(0)
        os.waitpid(pid, 0)
        with open(other) as file:  # noqa: PTH123 - likewise
            return [found, json.load(file)]


if __name__ == "__main__":
    seen = {"ranks": ranks()}  # first: it forks, and a loader leaves threads
    print(json.dumps({**seen, "loader": loader()}))  # noqa: T201 - its result

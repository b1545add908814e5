"""One rank of a distributed run that packs: `torchrun … ranks.py WHAT FOLDER` leaves what it saw in a file there.

One job: to pack as a training rank does, and to write down what this rank had and what is left of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent.parent))

from dataset_num_proc.packing import IterablePackingDataset, PackingDataset
from packs.templates import Signing, Table, Template

WORKERS, CAPACITY = 2, 32
ROWS = [{"id": row, "how": "dict", "length": 1 + row % 9, "parts": [1 + row % 9]} for row in range(600)]
BAD = [*ROWS, {"id": 600, "how": "dict", "length": -1, "parts": [-1]}]


def streamed(iterating: set[int]) -> dict[str, Any]:
    """Every rank makes a data set, and these iterate theirs."""
    stream = IterablePackingDataset(Signing(CAPACITY), ROWS, WORKERS, pool_options={"consumers": len(iterating)})
    packs: list[list[int]] = []
    pids: set[int] = set()
    if dist.get_rank() in iterating:
        for pack in stream:
            packs.append([item["input_ids"][0] for item in pack])
            pids |= {item["pid"] for item in pack}
    dist.barrier()  # all workers are up now that ever will be
    started = len(_children())
    stream.close()
    return {
        "packs": packs,
        "workers": len(pids - {os.getpid()}),
        "here": os.getpid() in pids,
        "started": started,
        "left": _left(),
    }


def by_number() -> list[list[int]]:
    """The layout that rank 0 has made for all."""
    return PackingDataset(Template(CAPACITY), Table(ROWS), packing_strategy="bfd").packed_idx


def failing() -> dict[str, Any]:
    """What a rank gets where rank 0 cannot pack."""
    begun = time.monotonic()
    try:
        PackingDataset(Template(CAPACITY), Table(BAD if dist.get_rank() == 0 else ROWS))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is asked
        return {"error": f"{type(error).__name__}: {error}", "seconds": time.monotonic() - begun}
    return {"error": None, "seconds": time.monotonic() - begun}


def _children() -> list[str]:
    return [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]


def _left() -> list[str]:
    """Children that are still there after a moment; Python's own tracker stays as long as its process."""
    deadline = time.monotonic() + 2
    while (left := [one for one in _children() if one and "resource_tracker" not in one]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.02)
    return left


def main(what: str, folder: str) -> None:
    """Packs, and writes down what it saw; with "uncaught" an error ends the rank as it ends a training script."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    seen: dict[str, Any] = {"rank": rank, "pid": os.getpid()}
    file = Path(folder, f"{rank}.json")
    file.write_text(json.dumps(seen), encoding="utf-8")
    if what == "uncaught":
        PackingDataset(Template(CAPACITY), Table(BAD if rank == 0 else ROWS))
    else:
        seen |= {"one": streamed({0}), "two": streamed({0, size - 1}), "layout": by_number(), "failing": failing()}
        seen["after"] = by_number() == seen["layout"]  # the ranks are still in step
        file.write_text(json.dumps(seen), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

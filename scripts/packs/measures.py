"""What is measured of packing, each in an interpreter of its own: `python measures.py WHAT ROWS [SIDE]` prints JSON.

One job: to run one measurement, on ours and, where it is installed, on ms-swift's own classes.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from packs.configurations import end
from packs.templates import Row, Table, Template

OURS, THEIRS = "dataset_num_proc.packing", "swift.dataset.packing"
ADOPTED = "dataset_num_proc.compat.ms_swift"
CAPACITY = 4096
WARM = 25_000
ROWS_TIMED = 300


def sides() -> dict[str, Any]:
    """The modules to compare."""
    names = {"ours": OURS, **({"theirs": THEIRS} if importlib.util.find_spec("swift") else {})}
    return {side: importlib.import_module(name) for side, name in names.items()}


class Tokenizing(Template):
    """Takes time for a row as a tokenizer does: by its length, in Python."""

    def encode(self, row: Row, *, return_length: bool = False) -> dict[str, Any]:
        """Tokens that depend on each other."""
        token, tokens = row["id"], []
        for _ in range(row["length"]):
            token = (token * 1103515245 + 12345) % 32003
            tokens.append(token)
        return {"input_ids": tokens, **({"lengths": [len(tokens)]} if return_length else {})}


def lognormal(rows: int) -> list[Row]:
    """Rows of lengths as instruction data has them: a median of 400 tokens, and a long tail."""
    rng = random.Random(3)  # noqa: S311 - chance for tests
    lengths = [max(1, min(CAPACITY, int(rng.lognormvariate(6, 1)))) for _ in range(rows)]
    return [{"id": number, "how": "dict", "length": length, "parts": [length]} for number, length in enumerate(lengths)]


def stream(rows: int, rounds: int = 3) -> dict[str, Any]:
    """Rows a second after the first pack, by workers: as fast as packs can be taken, and with a step between two."""
    source, modules = lognormal(rows), sides()
    found: dict[str, Any] = {}
    for step in (0.0, step_of(source)):
        for workers in (1, 2, 4):
            for _ in range(rounds):
                for side, module in modules.items():
                    rate = _rate(module, source, workers, step)
                    found.setdefault(f"{workers} {'step' if step else 'bare'}", {}).setdefault(side, []).append(rate)
    return found


def step_of(source: list[Row]) -> float:
    """Seconds that a training step waits for its device: as long as one worker here takes for the rows of a pack.

    So neither side waits for the other for long, and workers that wait for the trainer are seen.
    """
    template, rows = Tokenizing(CAPACITY), source[:ROWS_TIMED]
    start = time.perf_counter()
    for row in rows:
        template.encode(row)
    tokens: int = sum(row["length"] for row in rows)
    return (time.perf_counter() - start) * CAPACITY / tokens


def _rate(module: Any, source: list[Row], workers: int, step: float) -> float:  # noqa: ANN401 - either side's
    dataset = module.IterablePackingDataset(
        Tokenizing(CAPACITY), source, num_proc=workers, multiprocessing_context="fork", packing_interval=128
    )
    try:
        packs = iter(dataset)
        next(packs)
        start, rows = time.perf_counter(), 0
        for pack in packs:
            rows += len(pack)
            time.sleep(step)
        return rows / (time.perf_counter() - start)
    finally:
        end(dataset)


def first_pack(rows: int, side: str) -> dict[str, Any]:
    """Seconds to the first pack with four workers while a collective is up, and the memory of all children then.

    Ours is asked twice: "ours" knows nothing of ms-swift, "adopted" stands in its place, so that workers import it too.
    """
    import psutil
    import torch.distributed as dist

    from packs.torch_template import TorchTemplate

    if side == "adopted":
        importlib.import_module(THEIRS)
    module = importlib.import_module({"ours": OURS, "adopted": ADOPTED, "theirs": THEIRS}[side])
    with TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        start = time.perf_counter()
        dataset = module.IterablePackingDataset(TorchTemplate(CAPACITY), lognormal(rows), num_proc=4)
        try:
            next(iter(dataset))
            seconds = time.perf_counter() - start
            children = psutil.Process().children(recursive=True)
            pss = sum(child.memory_full_info().pss for child in children)
            return {"seconds": seconds, "pss": pss, "processes": len(children)}
        finally:
            end(dataset)
            dist.destroy_process_group()


def table(rows: int) -> dict[str, Any]:
    """Rows a second of map-style packing, and how full the packs are."""
    packed, modules = Table(lognormal(rows)), sides()
    found: dict[str, Any] = {}
    kinds = {"ours bfd": ("ours", "bfd"), "ours binpack": ("ours", "binpack"), "theirs": ("theirs", "binpack")}
    for name, (side, strategy) in kinds.items():
        if side in modules:
            # Once with few rows, though enough for our way with many: what is imported on the way is nobody's packing.
            modules[side].PackingDataset(Template(CAPACITY), Table(lognormal(WARM)), packing_strategy=strategy)
            start = time.perf_counter()
            dataset = modules[side].PackingDataset(Template(CAPACITY), packed, packing_strategy=strategy)
            seconds = time.perf_counter() - start
            fill = sum(dataset.packed_length) / (CAPACITY * len(dataset))
            found[name] = {"rate": rows / seconds, "fill": fill, "packs": len(dataset)}
    return found


if __name__ == "__main__":
    what: dict[str, Callable[..., dict[str, Any]]] = {"stream": stream, "first_pack": first_pack, "table": table}
    print(json.dumps(what[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])))

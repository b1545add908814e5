"""Random configurations of the packing data sets, and what comes out of one.

One job: to draw a configuration from a seed, and to run it with whatever classes are given.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from packs.templates import Row, Shuffled, Table, Template, rows

TEMPLATES: dict[str, dict[str, float]] = {
    "dicts": {},
    "lists": {"list": 0.5},
    "some raise": {"raise": 0.15},
    "some too long": {"long": 0.3},
    "some empty": {"empty": 0.3},
    "all of it": {"list": 0.2, "raise": 0.1, "long": 0.1, "empty": 0.1},
}


@dataclass(frozen=True)
class Configuration:
    """One way to pack.

    Attributes:
        stream: the streamed class, not the map-style one.
        template: name of what its rows are encoded to.
        capacity: most tokens of a pack.
        by_template: the template says the capacity.
        strategy: ms-swift's name of it.
        strict: what the encoder raises is raised.
        interval: rows of a stream that are packed together.
        cyclic: a stream that begins again.
        epochs: epochs that are set, one after the other; empty for none.
        processes: packing processes of the map-style class.
        rows: what is packed.
    """

    stream: bool
    template: str
    capacity: int
    by_template: bool
    strategy: str
    strict: bool
    interval: int
    cyclic: bool
    epochs: tuple[int, ...]
    processes: int
    rows: list[Row] = field(repr=False)

    def __str__(self) -> str:
        kind = f"interval {self.interval}" if self.stream else f"{self.processes} processes"
        flags = [name for name in ("strict", "cyclic", "epochs") if getattr(self, name)]
        return (
            f"{self.strategy}, {self.template}, {len(self.rows)} rows into {self.capacity}, {kind}, {' '.join(flags)}"
        )


class Packed(NamedTuple):
    """What came out: packs of (row, tokens), and the type of what was raised, if anything was."""

    packs: list[list[tuple[int, int]]]
    error: str | None


def drawn(rng: random.Random, *, stream: bool) -> Configuration:
    """A configuration by chance."""
    capacity = 2 ** rng.randint(3, 12) + rng.choice([0, 0, 1])
    interval = rng.choice([1, 2, 7, 32, 128, 200])
    count = rng.choice([rng.randint(0, 30), rng.randint(30, 500), interval * rng.randint(1, 3)])
    template = rng.choice(list(TEMPLATES))
    count = count if stream else rng.choice([count, rng.randint(900, 4500)])
    made = rows(rng, count, capacity, TEMPLATES[template])
    cyclic = stream and rng.random() < 0.25 and any(row["how"] in ("dict", "list") for row in made)  # noqa: PLR2004 - a quarter
    return Configuration(
        stream=stream,
        template=template,
        capacity=capacity,
        by_template=rng.random() < 0.3,  # noqa: PLR2004 - some
        strategy=rng.choice(["binpack", "binpack", "sequential"]),
        strict=rng.random() < 0.3,  # noqa: PLR2004 - some
        interval=interval,
        cyclic=cyclic,
        epochs=tuple(rng.sample(range(5), 2)) if stream and not cyclic and rng.random() < 0.3 else (),  # noqa: PLR2004 - some
        processes=rng.randint(1, 4),
        rows=made,
    )


def pack_with(module: Any, one: Configuration, **options: Any) -> Packed:  # noqa: ANN401 - a module with both classes
    """What a module's classes make of a configuration."""
    template = Template(one.capacity if one.by_template else 7)
    options |= {
        "packing_length": None if one.by_template else one.capacity,
        "packing_strategy": one.strategy,
        "strict": one.strict,
        "load_from_cache_file": True,
        "packing_num_proc": one.processes,
    }
    if not one.stream:
        dataset = module.PackingDataset(template, Table(one.rows), **options)
        packs = [[(row["id"], 0) for row in dataset[pack]] for pack in range(len(dataset))]
        named = [[(row, length)] for row, length in enumerate(dataset.packed_length)]
        assert dataset.packed_idx == [[row for row, _ in pack] for pack in packs]  # noqa: S101 - rows are numbered
        return Packed([*packs, *named], None)
    source = Shuffled(one.rows) if one.epochs else one.rows
    dataset = module.IterablePackingDataset(
        template, source, packing_interval=one.interval, cyclic=one.cyclic, **options
    )
    try:
        return _streamed(one, dataset)
    finally:
        end(dataset)


def _streamed(one: Configuration, dataset: Any) -> Packed:  # noqa: ANN401 - of either side
    packs: list[list[tuple[int, int]]] = []
    most = 3 * len(one.rows) if one.cyclic else None
    try:
        for epoch in one.epochs or (None,):
            if epoch is not None:
                dataset.set_epoch(epoch)
            with closing(iter(dataset)) as iterator:
                packs.extend([_named(item) for item in pack] for pack in islice(iterator, most))
    except Exception as error:  # noqa: BLE001 - of either side
        return Packed(packs, type(error).__name__)
    return Packed(packs, None)


def _named(item: dict[str, Any]) -> tuple[int, int]:
    return item["input_ids"][0], len(item["input_ids"])


def end(dataset: Any) -> None:  # noqa: ANN401 - of either side
    """Ends the workers: ms-swift's own have no end but the parent's."""
    if hasattr(dataset, "close"):
        dataset.close()
        return
    for worker in dataset.workers:
        worker.kill()
        worker.join()


def series(seed: int, count: int) -> Iterator[Configuration]:
    """That many configurations, three of four of them streams."""
    rng = random.Random(seed)  # noqa: S311 - chance for tests
    return (drawn(rng, stream=number % 4 != 0) for number in range(count))

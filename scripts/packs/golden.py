"""Packs that ms-swift's own classes made, kept as JSON, so that ours can be compared where it is not installed.

One job: configurations and what came of them, to a file and from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from packs.configurations import Configuration, Packed, series

SEED = 7
STREAMS, TABLES = 30, 6
"""How many of each class: with these the file has every template, strategy and flag."""
LONG_STREAM, LONG_TABLE = 90, 2400


def record(path: Path, packages: dict[str, str], pack: Callable[[Configuration], Packed]) -> None:
    """Writes what `pack` makes of small configurations, with the releases that made it."""
    streams = [one for one in series(SEED, 400) if one.stream and len(one.rows) <= LONG_STREAM][:STREAMS]
    tables = [one for one in series(SEED, 400) if not one.stream and len(one.rows) <= LONG_TABLE][:TABLES]
    kept = [_written(one, pack(one)) for one in (*streams, *tables)]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in kept)
    path.write_text(f'{{"packages": {json.dumps(packages)},\n"cases": [\n{lines}\n]}}\n', encoding="utf-8")


def _written(one: Configuration, result: Packed) -> dict[str, object]:
    rows = [[row["how"], row["parts"] if row["how"] == "list" else row["length"]] for row in one.rows]
    return {**asdict(one), "rows": rows, "packs": result.packs, "error": result.error}


def recorded(path: Path) -> Iterator[tuple[Configuration, Packed]]:
    """Every configuration of a file, with what ms-swift made of it."""
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        packs = [[(row, tokens) for row, tokens in pack] for pack in case.pop("packs")]
        error = case.pop("error")
        rows = [_row(number, *row) for number, row in enumerate(case.pop("rows"))]
        yield Configuration(**{**case, "epochs": tuple(case["epochs"]), "rows": rows}), Packed(packs, error)


def _row(number: int, how: str, length: int | list[int]) -> dict[str, object]:
    parts = length if isinstance(length, list) else [length]
    return {"id": number, "how": how, "length": sum(parts), "parts": parts}

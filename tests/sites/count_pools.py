"""A program that calls one call site of `datasets` with `None`, 0, 1 and 2, and says which pools were really built.

One job: to count at the class (releases of `datasets` bind the name in different places), with the pool's size and its
start method. Run as a script, with a guard, since some pools are spawned: `count_pools.py SITE FOLDER`.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Call = Callable[[Any, Path, "int | None"], object]


def identity(row: dict[str, Any]) -> dict[str, Any]:
    """Work for a map."""
    return row


def keep(_row: dict[str, Any]) -> bool:
    """Work for a filter."""
    return True


def split_dict(rows: Any, _folder: Path, value: int | None) -> object:  # noqa: ANN401 - a data set
    """Maps both splits of a dict."""
    from datasets import DatasetDict

    return DatasetDict({"train": rows, "test": rows}).map(identity, num_proc=value)


def load(_rows: object, folder: Path, value: int | None) -> object:
    """Loads two local files."""
    from datasets import load_dataset

    for number in range(2):
        (folder / f"{number}.json").write_text('{"a": 1}\n', encoding="utf-8")
    files = [str(folder / f"{number}.json") for number in range(2)]
    return load_dataset("json", data_files=files, num_proc=value, cache_dir=str(folder / "cache"))


CALLS: dict[str, Call] = {
    "map": lambda rows, _folder, value: rows.map(identity, num_proc=value),
    "dict.map": split_dict,
    "filter": lambda rows, _folder, value: rows.filter(keep, num_proc=value),
    "batch": lambda rows, _folder, value: rows.batch(2, num_proc=value),
    "flatten_indices": lambda rows, _folder, value: rows.select([3, 1, 2, 0]).flatten_indices(num_proc=value),
    "load_dataset": load,
    "save_to_disk": lambda rows, folder, value: rows.save_to_disk(folder / "saved", num_proc=value),
    "to_json": lambda rows, folder, value: rows.to_json(folder / "out.json", num_proc=value, batch_size=2),
    "to_csv": lambda rows, folder, value: rows.to_csv(folder / "out.csv", num_proc=value, batch_size=2),
    "to_sql": lambda rows, folder, value: rows.to_sql(
        "rows", sqlite3.connect(folder / "out.db"), num_proc=value, batch_size=2
    ),
}


def counted(package: str, built: list[tuple[str, int, str]]) -> None:
    """Has each pool of `package` noted in `built` before it starts."""
    pool = import_module(f"{package}.pool").Pool
    start = pool.__init__

    def noting(self: Any, processes: int, *rest: Any, context: Any = None, **more: Any) -> None:  # noqa: ANN401
        built.append((package, processes, context.get_start_method()))
        start(self, processes, *rest, context=context, **more)

    pool.__init__ = noting


def outcome(site: str, value: int | None, folder: Path, built: list[tuple[str, int, str]]) -> dict[str, Any]:
    """The pools that one call builds, and the error that comes out of it."""
    from datasets import Dataset

    folder.mkdir()
    Dataset.from_dict({"a": list(range(4))}).save_to_disk(folder / "rows")
    rows = Dataset.load_from_disk(folder / "rows")
    built.clear()
    try:
        CALLS[site](rows, folder, value)
    except Exception as caught:  # noqa: BLE001 - what comes out is the answer
        return {"pools": list(built), "error": type(caught).__name__}
    return {"pools": list(built), "error": None}


def main(site: str, folder: Path) -> None:
    """Calls the site with each value, and prints what it did, beside the start methods that the probe had found."""
    from datasets import disable_progress_bars

    import dataset_num_proc as dnp

    disable_progress_bars()
    methods = dnp.take_snapshot().start_methods
    built: list[tuple[str, int, str]] = []
    counted("multiprocess", built)
    counted("multiprocessing", built)
    answer: dict[str, Any] = {str(value): outcome(site, value, folder / str(value), built) for value in (None, 0, 1, 2)}
    answer["methods"] = {package: methods.of(package).method for package in ("multiprocess", "multiprocessing")}
    print(json.dumps(answer))  # noqa: T201 - the answer to the test that started this


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""The program of the memory table: maps inside a control group, whose workers the kernel kills for memory, or a hand.

    python -m dying.memory GROUP METHOD CASE,… TRIES SECONDS

GROUP is the group's directory; each try's process enters it. Prints each try's outcome as a line of JSON.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import multiprocess

import dataset_num_proc as dnp
from dying import rows
from dying.cells import Outcome, cell

WORKERS = 2


def data(folder: str) -> Any:  # noqa: ANN401 - `datasets` is untyped here
    """Rows on disk, so that tasks are small."""
    datasets.Dataset.from_dict({"x": list(range(rows.ROWS))}).save_to_disk(f"{folder}/data")
    return datasets.load_from_disk(f"{folder}/data")


def kernel(folder: str) -> None:
    """A worker takes more than the group has."""
    with dnp.watch():
        data(folder).map(rows.grows, with_indices=True, num_proc=WORKERS, fn_kwargs={"folder": folder})


def hand(folder: str) -> None:
    """A worker gets SIGKILL from somebody."""
    told = {"how": "SIGKILL", "folder": folder}
    with dnp.watch():
        data(folder).map(rows.mapped, with_indices=True, num_proc=WORKERS, fn_kwargs=told)


def step_down(folder: str) -> Outcome:
    """All workers together take more than the group has, and fewer do not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dnp.WorkersReduced)
        settings = dnp.Settings(override=rows.SHARDS)
        out = dnp.map(data(folder), rows.holds, with_indices=True, fn_kwargs={"folder": folder}, settings=settings)
    said = [str(item.message) for item in caught if issubclass(item.category, dnp.WorkersReduced)]
    return {"warnings": said, "right_rows": out["y"][:] == list(range(rows.ROWS))}


CASES: dict[str, Callable[[str], Outcome | None]] = {"kernel": kernel, "hand": hand, "step-down": step_down}


def inside(group: str, method: str, case: str, folder: str) -> Outcome | None:
    """A case in the group."""
    Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")
    multiprocess.set_start_method(method, force=True)
    return CASES[case](folder)


def main() -> None:
    """Runs the tries that the arguments name, one after the other."""
    group, method, cases, tries, seconds = sys.argv[1:]
    datasets.disable_progress_bars()
    about = {"datasets": datasets.__version__, "python": platform.python_version(), "method": method}
    for case in cases.split(","):
        for _ in range(int(tries)):
            outcome = cell(partial(inside, group, method, case), float(seconds))
            print(json.dumps({**about, "case": case, **outcome}), flush=True)


if __name__ == "__main__":
    main()

"""The program of the death table: one operation under one start method, with each kind of death.

    python -m dying.deaths METHOD OPERATION WORKERS,… KIND,… SECONDS CLEAN

Prints each cell's outcome as a line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import signal
import sys
import types
from functools import partial
from typing import Any

import datasets
import multiprocess
import multiprocess.managers

from dataset_num_proc import watch
from dying import rows
from dying.cells import Outcome, begun, cell, soon
from dying.rows import ROWS

POOL_OF_ONE = (4, 1)
"""From this release of `datasets` on, `num_proc=1` is a pool; before, it is the process itself, which would die."""


def manager_pid() -> int | None:
    """The manager's, where there is one."""
    managers = (found for found in gc.get_objects() if isinstance(found, multiprocess.managers.BaseManager))
    pids = (getattr(getattr(manager, "_process", None), "pid", None) for manager in managers)
    return next((pid for pid in pids if pid is not None), None)


def kill_manager(folder: str) -> bool:
    """Kills the manager, once a worker works."""
    pid = manager_pid() if begun(folder) else None
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    return pid is not None


def ghost() -> Any:  # noqa: ANN401 - a module
    """A module that only this process has."""
    module = types.ModuleType("ghost")
    exec("def mapped(row): return {'y': 1}\ndef kept(row): return True", module.__dict__)  # noqa: S102 - as generated ones
    sys.modules["ghost"] = module
    return module


def act(operation: str, kind: str, workers: int, folder: str) -> None:
    """One death in one operation."""
    data = datasets.Dataset.from_dict({"x": list(range(ROWS))})
    splits = datasets.DatasetDict({"a": data, "b": data}) if operation == "dict" else data
    options: dict[str, Any] = {"num_proc": workers}
    if kind == "import":
        module = ghost()
        function = module.kept if operation == "filter" else module.mapped
    else:
        function = rows.kept if operation == "filter" else rows.mapped
        options |= {"with_indices": True, "fn_kwargs": {"how": kind, "folder": folder}}
    if kind == "manager":
        soon(folder, lambda: kill_manager(folder))
    out = splits.filter(function, **options) if operation == "filter" else splits.map(function, **options)
    counts = out.num_rows.values() if operation == "dict" else [out.num_rows]
    if set(counts) != {ROWS}:
        message = f"{counts} rows in place of {ROWS}"
        raise AssertionError(message)


def watched(method: str, operation: str, kind: str, workers: int, folder: str) -> None:
    """The same, watched."""
    multiprocess.set_start_method(method, force=True)
    with watch():
        act(operation, kind, workers, folder)


def release() -> tuple[int, ...]:
    """Of `datasets`, as far as it is a number."""
    return tuple(map(int, datasets.__version__.split(".")[:2]))


def main() -> None:
    """Runs the cells that the arguments name, one after the other."""
    method, operation, counts, kinds, seconds, clean = sys.argv[1:]
    datasets.disable_progress_bars()
    about = {"datasets": datasets.__version__, "python": platform.python_version()}
    for workers in map(int, counts.split(",")):
        for kind in kinds.split(","):
            named = {**about, "method": method, "operation": operation, "workers": workers, "kind": kind}
            if workers == 1 and release() < POOL_OF_ONE:
                said: list[Outcome] = [{"skipped": True}]
            else:
                tries = int(clean) if kind == "none" else 1
                work = partial(watched, method, operation, kind, workers)
                said = [cell(work, float(seconds)) for _ in range(tries)]
            for outcome in said:
                print(json.dumps({**named, **outcome}), flush=True)


if __name__ == "__main__":
    main()

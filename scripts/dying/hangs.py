"""The program of the hang table: situations in which plain `datasets` waits for ever, or shows another error.

    python -m dying.hangs SITUATION,… SIDE,… TRIES METHOD SECONDS_PLAIN SECONDS_OURS

SIDE is "plain" or "ours". Prints each try's outcome as a line of JSON.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing.pool
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import multiprocess
import multiprocess.managers
import psutil
from datasets.utils.py_utils import iflatmap_unordered

from dataset_num_proc import Settings, workers
from dying import rows
from dying.cells import begun, cell, mark, soon

WORKERS = 2
SECONDS_TO_BE_IDLE = 0.5
"""From the last row of a shard until its worker waits for another task."""
PART_OF_A_TASK = 20_000_000
"""Bytes that a worker has read when it has begun with a task of 75 MB and is not done."""
IMPORT = "import"
OURS, PLAIN = "workers(2, settings=Settings(override=2))", "nullcontext(2)"
AT_IMPORT = """
from contextlib import nullcontext
from datasets import Dataset
from dataset_num_proc import Settings, workers

def same(row):
    return {{"y": row["x"]}}

with {scope} as count:
    OUT = Dataset.from_dict({{"x": [1, 2, 3, 4]}}).map(same, num_proc=count)["y"][:]
"""


def mapped(function: Callable[..., Any], folder: str, **more: str) -> None:
    """A map of a few rows."""
    data = datasets.Dataset.from_dict({"x": list(range(rows.ROWS))})
    data.map(function, with_indices=True, num_proc=WORKERS, fn_kwargs={"folder": folder, **more})


def flattened(shards: list[int], folder: str) -> None:
    """A map of `datasets` in small: these shards on two workers."""
    arguments = [{"rows": count, "folder": folder} for count in shards]
    with multiprocess.Pool(WORKERS) as pool:
        for _ in iflatmap_unordered(pool, rows.shard, kwargs_iterable=arguments):
            pass


def idle(folder: str) -> None:
    """A worker that is done is killed while the other works."""

    def kill() -> bool:
        pid = int(Path(folder, "idle").read_text(encoding="utf-8"))
        time.sleep(SECONDS_TO_BE_IDLE)
        os.kill(pid, signal.SIGKILL)
        return True

    soon(folder, kill)
    mapped(rows.lopsided, folder)


def receiving(folder: str) -> None:
    """A worker is killed while it receives a table that is in memory."""

    def kill() -> bool:
        for child in psutil.Process().children():
            if child.io_counters().read_chars > PART_OF_A_TASK:
                child.kill()
                return True
        return False

    data = datasets.Dataset.from_dict({"x": ["x" * 100_000] * 1500})
    soon(folder, kill)
    data.map(rows.slow, with_indices=True, num_proc=WORKERS, fn_kwargs={"folder": folder})


def one_way(folder: str) -> None:
    """The exception pickles, and does not unpickle."""
    mapped(rows.mapped, folder, how="one-way")


def exported(folder: str) -> None:
    """A worker of an export is killed."""
    datasets.Dataset.from_dict({"x": ["x" * 50] * 200_000}).save_to_disk(f"{folder}/data")

    def kill() -> bool:
        for pool in gc.get_objects() if Path(f"{folder}/out").stat().st_size else ():
            if isinstance(pool, multiprocessing.pool.Pool):
                os.kill(vars(pool)["_pool"][0].pid, signal.SIGKILL)
                return True
        return False

    soon(folder, kill)
    datasets.load_from_disk(f"{folder}/data").to_json(f"{folder}/out", num_proc=WORKERS, batch_size=10)


def queued(folder: str) -> None:
    """A worker dies while tasks wait for one."""
    flattened([0, *[rows.ROWS] * 10], folder)


def interrupted(folder: str) -> None:
    """Ctrl-C at a terminal: SIGINT for the whole process group."""

    def press() -> bool:
        if begun(folder):
            mark(folder)  # the signal may come to the main thread before the next line is run
            os.killpg(0, signal.SIGINT)
        return begun(folder)

    soon(folder, press)
    mapped(rows.slow, folder)


def managerless(folder: str) -> None:
    """The manager is killed."""

    def kill() -> bool:
        for manager in gc.get_objects() if begun(folder) else ():
            if isinstance(manager, multiprocess.managers.BaseManager):
                os.kill(manager._process.pid, signal.SIGKILL)  # noqa: SLF001 - no public name has it
                return True
        return False

    soon(folder, kill)
    mapped(rows.slow, folder)


def hidden(folder: str) -> None:
    """An exception in one shard, then a death in the other."""
    mapped(rows.then_killed, folder)


SITUATIONS: dict[str, Callable[[str], None]] = {
    "idle": idle,
    "receiving": receiving,
    "one-way": one_way,
    "export": exported,
    "queued": queued,
    "ctrl-c": interrupted,
    "manager": managerless,
    "hidden": hidden,
}


def at_import(scope: str, folder: str) -> None:
    """A map that runs while the module that it is in is being imported."""
    Path(folder, "maps_at_import.py").write_text(AT_IMPORT.format(scope=scope), encoding="utf-8")
    sys.path.insert(0, folder)
    mark(folder)
    out = importlib.import_module("maps_at_import").OUT
    assert list(out) == [1, 2, 3, 4], out  # noqa: S101 - it goes into the table


def tried(name: str, side: str, method: str, folder: str) -> None:
    """One situation, plain or in a scope of ours."""
    multiprocess.set_start_method(method, force=True)
    if name == IMPORT:
        at_import(OURS if side == "ours" else PLAIN, folder)
        return
    with workers(WORKERS, settings=Settings(override=WORKERS)) if side == "ours" else nullcontext():
        SITUATIONS[name](folder)


def main() -> None:
    """Runs the tries that the arguments name, one after the other."""
    names, sides, tries, method, *seconds = sys.argv[1:]
    datasets.disable_progress_bars()
    limits = dict(zip(("plain", "ours"), map(float, seconds), strict=True))
    about = {"datasets": datasets.__version__, "python": platform.python_version(), "method": method}
    for name in names.split(","):
        for side in sides.split(","):
            for _ in range(int(tries)):
                outcome = cell(partial(tried, name, side, method), limits[side])
                print(json.dumps({**about, "situation": name, "side": side, **outcome}), flush=True)


if __name__ == "__main__":
    main()

"""The program of the orphan table: who outlives whom when a parent is killed or interrupted, or a row crashes.

    python -m dying.orphans SITUATION,… METHOD TRIES SECONDS

The moments are spread over the whole of a map, from before its pool starts until after it has ended: each try has a
part of that time, and its moment there is random, the same in each run. Prints each try's outcome as a line of JSON.
"""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import datasets
import multiprocess

import dataset_num_proc as dnp
from dying import rows
from dying.cells import SECONDS_TO_END, Event, Outcome, cell, settle

WORKERS = 2
SECONDS_AROUND = 0.15
"""Before the map and after it, in which a signal may come too."""
WAITS = 60.0
"""Longer than any moment: it is the signal that ends a try."""


def mapped(folder: str) -> None:
    """A map on workers, whose files are in the folder."""
    data = datasets.load_from_disk(f"{folder}/data")
    settings = dnp.Settings(override=WORKERS)
    dnp.map(data, rows.brief, with_indices=True, batch_size=1, settings=settings)


def handlers() -> list[object]:
    """Of the signals by which programs are ended."""
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)]


def where(error: BaseException | None) -> list[str]:
    """The innermost places that an exception came through."""
    trace = error.__traceback__ if error is not None else None
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)[-6:]]


def interrupted(method: str, waits: float, folder: str) -> Outcome:
    """A map with some time before it and after it; says what came, and what it was like afterwards."""
    before, stage, error, took = handlers(), "before", None, None
    try:
        multiprocess.set_start_method(method, force=True)
        datasets.Dataset.from_dict({"x": list(range(rows.ROWS))}).save_to_disk(f"{folder}/data")
        time.sleep(SECONDS_AROUND)
        stage, start = "inside", time.monotonic()
        mapped(folder)
        stage, took = "after", time.monotonic() - start
        time.sleep(waits)
    except BaseException as caught:  # noqa: BLE001 - whatever comes is what is asked for
        error = caught
    settle(os.getpid(), SECONDS_TO_END)
    files = [path.name for path in Path(folder).rglob("*") if path.name.startswith(("tmp", "dataset_num_proc-"))]
    raised = None if error is None else type(error).__name__
    found = {"raised": raised, "where": where(error), "stage": stage, "took": took, "files": files}
    return {**found, "same_handlers": handlers() == before}


def crashed(method: str, bad: int, workers: int, folder: str) -> Outcome:
    """One row of a watched map touches memory that is not there."""
    multiprocess.set_start_method(method, force=True)
    data = datasets.Dataset.from_dict({"x": list(range(rows.ROWS))})
    with dnp.watch():
        data.map(rows.segfaults, with_indices=True, num_proc=workers, fn_kwargs={"bad": bad, "folder": folder})
    return {}


SIGNALS: dict[str, Callable[[int], object]] = {
    "killed": lambda pid: os.kill(pid, signal.SIGKILL),
    "ctrl-c": lambda pid: os.killpg(pid, signal.SIGINT),
    "ctrl-c-alone": lambda pid: os.kill(pid, signal.SIGINT),
}


def tries_of(situation: str, method: str, count: int, seconds: float) -> Iterator[Outcome]:
    """The outcomes of a situation, one after the other."""
    dice = random.Random(f"{situation}, {method}")  # noqa: S311 - no secret
    if situation == "segfault":
        for _ in range(count):
            bad, workers = dice.randrange(rows.ROWS), dice.randint(2, 4)
            yield {"bad": bad, **cell(partial(crashed, method, bad, workers), seconds)}
        return
    undisturbed = cell(partial(interrupted, method, 0.0), seconds)
    if undisturbed.get("took") is None:
        yield undisturbed
        return
    whole = undisturbed["took"] + 2 * SECONDS_AROUND
    for number in range(count):
        moment = (number + dice.random()) / count * whole
        event = Event(moment, SIGNALS[situation])
        yield {"moment": moment, "whole": whole, **cell(partial(interrupted, method, WAITS), seconds, event)}


def main() -> None:
    """Runs the tries that the arguments name, one after the other."""
    situations, method, count, seconds = sys.argv[1:]
    datasets.disable_progress_bars()
    about = {"datasets": datasets.__version__, "python": platform.python_version(), "method": method}
    for situation in situations.split(","):
        for outcome in tries_of(situation, method, int(count), float(seconds)):
            print(json.dumps({**about, "situation": situation, **outcome}), flush=True)


if __name__ == "__main__":
    main()

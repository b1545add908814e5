"""Maps whose workers get stuck, or only look so, under a watch for stalls.

One job: `stall_program.py FOLDER SECONDS CASE…` runs the cases one after the other, with that time-out, and prints as
JSON what came of each, how long it took, and what was left running.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets

from dataset_num_proc.watching import watch
from tests.left_running import left_running

ROWS = 8
AT_IMPORT = """
import sys
import datasets
def function(row):
    return {"y": row["x"]}
if not hasattr(sys, "maps_at_import"):  # the pool's thread that waited for this import makes it again
    sys.maps_at_import = True
    OUT = datasets.Dataset.from_dict({"x": list(range(8))}).map(function, num_proc=2)
"""

lock = threading.Lock()
pool = ThreadPoolExecutor(1)
folder, timeout = Path(), 0.0


def locked(_row: dict[str, Any], index: int) -> dict[str, int]:
    """Takes a lock that another thread held when the worker was forked."""
    with lock:
        return {"y": index}


def pooled(_row: dict[str, Any], index: int) -> dict[str, int]:
    """Gives its work to threads that there are in the parent alone, as polars and OpenMP do."""
    return {"y": pool.submit(int, index).result()}


def polars(_row: dict[str, Any], index: int) -> dict[str, int]:
    """The same, by polars itself."""
    frame = importlib.import_module("polars").DataFrame({"a": [index] * 100, "b": [1] * 100})
    return {"y": int(frame.group_by("a").sum()["a"][0])}


def stopped(_row: dict[str, Any], index: int) -> dict[str, int]:
    """Is stopped from outside."""
    if index == ROWS - 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    return {"y": index}


def writing(_row: dict[str, Any], index: int) -> dict[str, int]:
    """Writes now and then."""
    for part in range(4):
        (folder / f"{index}-{part}").write_text("x", encoding="utf-8")
        time.sleep(timeout / 5)
    return {"y": index}


def computing(_row: dict[str, Any], index: int) -> dict[str, int]:
    """Computes for long, in one worker."""
    begun = time.monotonic()
    while index == 0 and time.monotonic() - begun < 2 * timeout:
        pass
    return {"y": index}


def elsewhere(_row: dict[str, Any], index: int) -> dict[str, int]:
    """Has another program compute."""
    if index == 0:
        loop = f"import time; t = time.monotonic()\nwhile time.monotonic() - t < {2 * timeout}: pass"
        subprocess.run([sys.executable, "-c", loop], check=True)
    return {"y": index}


@contextmanager
def swallowing() -> Iterator[None]:
    """A handler that only logs SIGTERM."""
    stock = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, stock)


def mapped(function: Callable[..., Any]) -> Callable[[], None]:
    """A map on two workers."""
    return lambda: datasets.Dataset.from_dict({"x": list(range(ROWS))}).map(function, with_indices=True, num_proc=2)


def with_lock() -> None:
    """The lock is held while the workers are forked."""
    with lock:
        mapped(locked)()


def with_threads() -> None:
    """The pool's thread is there already."""
    pool.submit(int, 0).result()
    mapped(pooled)()


def with_polars() -> None:
    """Polars' threads are there already."""
    polars({}, 0)
    mapped(polars)()


def with_handler() -> None:
    """The workers cannot be ended by SIGTERM either."""
    with swallowing():
        with_lock()


def at_import() -> None:
    """The map runs while the module that it is in is imported: that module's lock is held."""
    (folder / "maps_at_import.py").write_text(AT_IMPORT, encoding="utf-8")
    sys.path.insert(0, str(folder))
    importlib.import_module("maps_at_import")


CASES: dict[str, Callable[[], None]] = {
    "lock": with_lock,
    "threads": with_threads,
    "polars": with_polars,
    "handler": with_handler,
    "import": at_import,
    **{function.__name__: mapped(function) for function in (stopped, writing, computing, elsewhere)},
}


def outcome(case: str) -> dict[str, Any]:
    """What comes of one case."""
    before, begun, said = signal.getsignal(signal.SIGUSR1), time.monotonic(), None
    try:
        with watch(stall_timeout=timeout):
            CASES[case]()
    except RuntimeError as error:
        said = [type(error).__name__, getattr(getattr(error, "verdict", None), "value", None), str(error)]
    seconds = time.monotonic() - begun
    same = signal.getsignal(signal.SIGUSR1) == before
    return {"said": said, "seconds": seconds, "left": left_running(), "same": same}


if __name__ == "__main__":
    datasets.disable_progress_bars()
    folder, timeout = Path(sys.argv[1]), float(sys.argv[2])
    sys.stdout.write(json.dumps({case: outcome(case) for case in sys.argv[3:]}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a thread that still waits for an import's lock would be waited for

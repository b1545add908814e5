"""A program whose pools go wrong in a way of one's choice, inside a watch or without one.

One job: `python watch_program.py CASE METHOD NUM_PROC` prints, as JSON, what came out and what was left running.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import datasets
import multiprocess
import multiprocess.managers
import multiprocess.pool
import psutil
from datasets.utils.py_utils import iflatmap_unordered

from dataset_num_proc.watching import watch
from tests.left_running import left_running

ROWS = 40
FATAL_ROW = 7
SECONDS_A_ROW = 0.05


class OneWay(Exception):  # noqa: N818 - what it cannot do
    """Pickles, and does not unpickle: its `__init__` takes what its `args` do not hold."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def die(row: dict[str, Any], index: int, how: str) -> dict[str, int]:
    """Ends this worker at one row, in the way that `how` says."""
    del row
    if index == FATAL_ROW:
        if how.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[how])
        _raise_or_exit(how)
    return {"y": index}


def _raise_or_exit(how: str) -> None:
    if how.startswith("_exit"):
        os._exit(int(how[5:]))
    if how.startswith("exit"):
        sys.exit(int(how[4:]))
    raised = {"MemoryError": MemoryError(), "ValueError": ValueError("a row"), "OneWay": OneWay("odd", 5)}.get(how)
    if raised is not None:
        raise raised


def slow(row: dict[str, Any], index: int) -> dict[str, int]:
    """Takes its time."""
    del row
    time.sleep(SECONDS_A_ROW)
    return {"y": index}


def early(row: dict[str, Any], index: int) -> dict[str, int]:
    """Raises in the second shard at once, where the first takes longer than anybody waits."""
    del row
    if index == ROWS - 1:
        message = "early"
        raise ValueError(message)
    time.sleep(60 if index < ROWS // 2 else 0)
    return {"y": index}


def then_die(row: dict[str, Any], index: int, folder: str) -> dict[str, int]:
    """Raises in the first shard, and somewhat later a worker of the second is killed."""
    del row
    raised = Path(folder, "raised")
    if index == 0:
        raised.touch()
        message = "first"
        raise ValueError(message)
    if index >= ROWS // 2:
        while not raised.exists():
            time.sleep(0.01)
        time.sleep(0.3)  # the exception is on its way through a pipe
        os.kill(os.getpid(), signal.SIGKILL)
    return {"y": index}


def shard(rows: int) -> Iterator[tuple[int, bool, int]]:
    """A shard in the form that `datasets` has; a negative number of rows is a worker's death."""
    if rows < 0:
        time.sleep(-SECONDS_A_ROW * rows)
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(rows):
        time.sleep(SECONDS_A_ROW)
        yield 0, False, 1


def flattened(workers: int, rows: list[int]) -> None:
    """A map of `datasets` in small: these shards on this many workers."""
    with multiprocess.Pool(workers) as pool:
        for _ in iflatmap_unordered(pool, shard, kwargs_iterable=[{"rows": count} for count in rows]):
            pass


def soon(act: Callable[[], bool], after: float = 0.3) -> None:
    """Has a thread do something as soon as it can be done."""

    def wait() -> None:
        time.sleep(after)
        for _ in range(1000):
            with suppress(psutil.Error):
                if act():
                    return
            time.sleep(0.01)

    threading.Thread(target=wait, daemon=True).start()


def living(kind: type) -> Iterator[Any]:
    """The objects of a class."""
    return (found for found in gc.get_objects() if isinstance(found, kind))


def kill_last_worker() -> bool:
    """Kills a worker that has no task."""
    for pool in living(multiprocess.pool.Pool):
        os.kill(pool._pool[-1].pid, signal.SIGKILL)  # noqa: SLF001 - no public name has it
        return True
    return False


def kill_export_worker() -> bool:
    """Kills a worker of a pool of the standard library."""
    import multiprocessing.pool

    for pool in (pool for pool in living(multiprocessing.pool.Pool) if pool._pool):  # noqa: SLF001 - as below
        os.kill(pool._pool[0].pid, signal.SIGKILL)  # noqa: SLF001 - no public name has it
        return True
    return False


def kill_reader() -> bool:
    """Kills a worker that is receiving a large task."""
    for child in psutil.Process().children():
        if child.io_counters().read_chars > 20_000_000:
            child.kill()
            return True
    return False


def kill_manager(number: int) -> Callable[[], bool]:
    """Ends the manager."""

    def act() -> bool:
        for manager in living(multiprocess.managers.BaseManager):
            os.kill(manager._process.pid, number)  # noqa: SLF001 - no public name has it
            return True
        return False

    return act


def run(case: str, workers: int, folder: str) -> None:
    """One case."""
    data = datasets.load_from_disk(stored(folder, ROWS, 1))
    indexed: dict[str, Any] = {"with_indices": True, "num_proc": workers}
    name, _, how = case.partition(":")
    if name == "map":
        data.map(die, fn_kwargs={"how": how}, **indexed)
    elif name == "filter":
        data.filter(lambda row, index: bool(die(row, index, how)), **indexed)
    elif name == "dict":
        datasets.DatasetDict({"a": data, "b": data}).map(die, fn_kwargs={"how": how}, **indexed)
    elif name == "then-die":
        data.map(then_die, fn_kwargs={"folder": folder}, **indexed)
    elif name in {"early", "slow"}:
        data.map({"early": early, "slow": slow}[name], **indexed)
    else:
        SPECIAL[name](data, workers, folder)


def idle(_data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """An idle worker is killed while another works."""
    soon(kill_last_worker)
    flattened(workers + 1, [ROWS])


def receiving(_data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """A worker is killed while it receives an in-memory table."""
    soon(kill_reader, 0)
    datasets.Dataset.from_dict({"x": ["x" * 100_000] * 1500}).map(slow, with_indices=True, num_proc=workers)


def queued(_data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """A worker dies while tasks wait."""
    flattened(workers, [-1, *[ROWS] * 10])


def export(_data: Any, workers: int, folder: str) -> None:  # noqa: ANN401 - a data set
    """A worker of an export is killed."""
    large = datasets.load_from_disk(stored(folder, 200_000, 50))
    soon(kill_export_worker)
    large.to_json(f"{folder}/out", num_proc=workers, batch_size=10)


def dead_manager(_data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """The manager is killed."""
    soon(kill_manager(signal.SIGKILL))
    flattened(workers, [ROWS] * workers)


def ended_manager(_data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """The manager gets SIGTERM."""
    soon(kill_manager(signal.SIGTERM))
    flattened(workers, [ROWS] * workers)


def interrupted(_data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """Ctrl-C at a terminal: SIGINT for the whole process group."""

    def press() -> bool:
        os.killpg(0, signal.SIGINT)
        return True

    soon(press)
    flattened(workers, [ROWS] * workers)


def ghost(data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """A function of a module that only this process has."""
    module = types.ModuleType("ghost")
    exec("def function(row): return row", module.__dict__)  # noqa: S102 - how generated modules are made
    sys.modules["ghost"] = module
    data.map(module.function, num_proc=workers)


def refused(data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """The machine has no room for another process."""

    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    os.fork = fork
    data.map(slow, with_indices=True, num_proc=workers)


def unpicklable(data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """A function that holds what does not pickle."""
    tokenizer = types.SimpleNamespace(state=iter_of_nothing())
    data.map(lambda row: {"y": str(tokenizer) + str(row)}, num_proc=workers)


def iter_of_nothing() -> Iterator[None]:
    """A generator, which no pickler takes."""
    yield from ()


def own_pool(_data: Any, workers: int, _folder: str) -> None:  # noqa: ANN401 - a data set
    """A pool of one's own, with tasks that fail one by one and are caught, and workers that are spent."""
    with multiprocess.Pool(workers, maxtasksperchild=1) as pool:
        results = [pool.apply_async(divide, (number,)) for number in (1, 0, 2)]
        for result in results:
            with suppress(ZeroDivisionError):
                result.get(10)
        done = [result.successful() for result in results]
    assert done == [True, False, True]
    message = "own"
    raise KeyError(message)


def divide(number: int) -> float:
    """May fail."""
    return 1 / number


SPECIAL: dict[str, Callable[[Any, int, str], None]] = {
    "idle": idle,
    "receiving": receiving,
    "queued": queued,
    "export": export,
    "dead-manager": dead_manager,
    "ended-manager": ended_manager,
    "interrupted": interrupted,
    "ghost": ghost,
    "refused": refused,
    "unpicklable": unpicklable,
    "own-pool": own_pool,
}


def stored(folder: str, rows: int, width: int) -> str:
    """A data set on disk, so that tasks are small."""
    place = f"{folder}/{rows}"
    datasets.Dataset.from_dict({"x": ["x" * width] * rows}).save_to_disk(place)
    return place


def described(error: BaseException | None) -> dict[str, Any]:
    """What came out."""
    evidence = getattr(error, "evidence", None)
    first = evidence.deaths[0] if evidence is not None and evidence.deaths else None
    return {
        "type": type(error).__name__,
        "text": str(error),
        "verdict": getattr(getattr(error, "verdict", None), "value", None),
        "first": [first.role, first.exit_code, first.shard, first.rows] if first else None,
        "said": first.error if first else None,
        "codes": sorted(map(str, getattr(error, "exit_codes", {}).values())),
    }


def state() -> list[object]:
    """What a scope must not change."""
    pool, manager = multiprocess.pool.Pool, multiprocess.managers.BaseManager
    names = ("_setup_queues", "__exit__")
    stock = [vars(pool)[name] for name in names] + [vars(manager)[name] for name in ("__init__", "_finalize_manager")]
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    return [stock, handlers, multiprocess.get_start_method()]


def main() -> None:
    """Runs one case."""
    case, method, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    datasets.disable_progress_bars()
    multiprocess.set_start_method(method, force=True)
    error: BaseException | None = None
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        before = state()
        try:
            with watch():
                run(case, workers, folder)
        except BaseException as caught:  # noqa: BLE001 - whatever comes is what is asked for
            error = caught
        after = state()
        left = [str(path) for path in Path(folder).glob("dataset_num_proc-*")]
    children = left_running()
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith(("dataset", "Thread-"))]
    threads = [name for name in threads if "wait" not in name]
    out = described(error) | {"left": children + left + threads, "same": before == after}
    print(json.dumps(out), flush=True)  # noqa: T201 - a program's output


if __name__ == "__main__":
    main()

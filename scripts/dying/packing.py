"""The program of the packing fault table: one start method in one place, with each fault.

    python -m dying.packing METHOD PLACE FAULT,… SECONDS
    python -m dying.packing random SEED COUNT SECONDS

Prints each cell's outcome as a line of JSON.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from dataset_num_proc.errors import RowsLost, WorkerDied
from dataset_num_proc.packing import EncoderPool, Kind
from dataset_num_proc.packing.start import Starter
from dying.cells import SECONDS_TO_END, Outcome, cell, mark, wait_for_others
from dying.encoders import Faulty, Source, Template, Unimportable, pid_of, seeded

MAIN, SPAWNED, PERSISTENT, NESTED = "main", "spawned loader", "persistent", "in a daemon"
BAD = 20
ROWS = list(range(60))
_SECONDS_TO_GO = 9.0
# a DataLoader's worker looks for its parent every five seconds

UNGUARDED = """
import sys
from dataset_num_proc.packing import EncoderPool
from dying.encoders import Faulty
print("once", flush=True)
with EncoderPool(Faulty("none", 0, ""), workers=2, start_method=sys.argv[1]) as pool:
    print([one.value for one in pool.encode(range(60))] == list(range(60)))
"""


_loaders: list[Any] = []
"""Iterations of DataLoaders that the cell has begun."""


class Bench(NamedTuple):
    """Where a fault happens: the start method, the place, and the folder of the cell."""

    method: str
    place: str
    folder: str

    def pool(self, encoder: Callable[..., Any], **options: Any) -> EncoderPool:  # noqa: ANN401 - typed by the pool
        """Workers for an encoder."""
        options = {"workers": 2, "in_daemon": self.place == NESTED, **options}
        return EncoderPool(encoder, start_method=self.method, **options)

    def faulty(self, fault: str, **options: Any) -> EncoderPool:  # noqa: ANN401 - as above
        """Workers of which one goes wrong."""
        return self.pool(Faulty(fault, BAD, self.folder), **options)

    def rows(self, pool: EncoderPool, source: Any) -> Iterator[Any]:  # noqa: ANN401 - rows, and what is made of them
        """What comes out in this place."""
        if self.place == MAIN:
            return (one.value for one in pool.encode(source) if one.kind is Kind.ENCODED)
        return self.started(self.loader(pool, source))

    def started(self, loader: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
        """An iteration of a DataLoader, whose worker is ended with the cell."""
        rows = iter(loader)
        _loaders.append(rows)
        return rows  # type: ignore[no-any-return] # torch is not typed here

    def loader(self, pool: EncoderPool, source: Any) -> Any:  # noqa: ANN401 - torch is not typed here
        """A DataLoader whose worker iterates the pool."""
        from torch.utils.data import DataLoader

        from dying.loaded import Rows

        method = "spawn" if self.place == SPAWNED else "fork"
        return DataLoader(
            Rows(pool, source),
            batch_size=None,
            num_workers=1,
            multiprocessing_context=method,
            persistent_workers=self.place == PERSISTENT,
        )

    def right(self, pool: EncoderPool, source: Any = ROWS, expected: list[int] = ROWS) -> None:  # noqa: ANN401 - rows, never changed
        """Checks that all rows come out, in order; twice where the place outlives an iteration."""
        loader = self.loader(pool, source) if self.place == PERSISTENT else None
        for _ in range(1 if loader is None or isinstance(source, Source) else 2):
            rows = self.rows(pool, source) if loader is None else self.started(loader)
            found = list(rows)
            _check(found == expected, f"{found[:5]}… in place of {expected[:5]}…")


def _check(right: bool, text: str) -> None:  # noqa: FBT001 - what is checked
    if not right:
        raise AssertionError(text)


def idle(bench: Bench) -> None:
    """A worker that has nothing to do is killed."""
    rows = bench.rows(bench.pool(pid_of), Source(300, seconds=0.01))
    pid = next(rows)
    mark(bench.folder)
    os.kill(pid, signal.SIGKILL)
    list(rows)


def third_start(bench: Bench) -> None:
    """The third worker cannot be started."""
    stock, started = Starter.start, []

    def start(self: Starter, *args: Any) -> Any:  # noqa: ANN401 - passes on
        started.append(args)
        if len(started) == 3:  # noqa: PLR2004 - as its name says
            mark(bench.folder)
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return stock(self, *args)

    Starter.start = start  # type: ignore[method-assign,assignment] # in a process of its own
    bench.right(bench.pool(Faulty("none", BAD, ""), workers=4))


def local_class(bench: Bench) -> None:
    """The encoder's class is inside a function."""

    class Local:
        def __call__(self, row: int) -> int:
            return row

    bench.right(bench.pool(Local()))


def lambda_attribute(bench: Bench) -> None:
    """The encoder has a lambda."""
    encoder = Faulty("none", BAD, "")
    encoder.hook = lambda row: row  # type: ignore[attr-defined] # as hooks are attached
    bench.right(bench.pool(encoder))


def all_bad(bench: Bench) -> None:
    """The encoder fails on every row."""
    encoder = bench.pool(divmod)
    list(bench.rows(encoder, ROWS))


def early(bench: Bench) -> None:
    """The consumer leaves in the middle, and comes back."""
    pool = bench.pool(Faulty("none", BAD, "", seconds=0.005))
    rows = bench.rows(pool, range(10_000))
    next(rows)
    mark(bench.folder)
    del rows
    bench.right(pool)


def two(bench: Bench) -> None:
    """Two iterations at a time."""
    pool = bench.pool(Faulty("none", BAD, ""))
    one, other = bench.rows(pool, ROWS), bench.rows(pool, ROWS)
    pairs = [(next(one), next(other)) for _ in ROWS]
    _check(pairs == [(row, row) for row in ROWS], str(pairs[:5]))


def ctrl_c(bench: Bench) -> None:
    """Ctrl-C in the middle, to the whole group as a terminal sends it."""

    def interrupt() -> None:
        mark(bench.folder)
        os.killpg(0, signal.SIGINT)

    with bench.pool(Faulty("none", BAD, "", seconds=0.002)) as pool:
        for place, _ in enumerate(bench.rows(pool, range(100_000))):
            if place == BAD:  # while the workers work, and this process waits for them
                threading.Timer(0.05, interrupt).start()


def parent_killed(bench: Bench) -> None:
    """The process with the pool is killed; whatever it had started must end."""
    parent = os.fork()
    if parent == 0:
        for place, _ in enumerate(bench.rows(bench.pool(Faulty("none", BAD, "", seconds=0.01)), range(100_000))):
            if place == BAD:
                os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)
    os.waitpid(parent, 0)
    mark(bench.folder)
    _all_gone()


def _all_gone() -> None:
    """Waits until no other process of this session is left."""
    deadline = time.monotonic() + _SECONDS_TO_GO
    while any(_others()) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = list(_others())
    _check(not left, f"left: {left}")


def _others() -> Iterator[str]:
    """The processes of this session besides this one."""
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            # Without a command line it has no memory any more: it is ending.
            alive = process.status() != psutil.STATUS_ZOMBIE and process.cmdline() and process.pid != os.getpid()
            if alive and os.getsid(process.pid) == os.getsid(0):
                yield " ".join(process.cmdline())


def unguarded(bench: Bench) -> None:
    """The main script has no guard."""
    script = Path(bench.folder, "train.py")
    script.write_text(UNGUARDED, encoding="utf-8")
    command = [sys.executable, str(script), bench.method]
    out = subprocess.run(command, capture_output=True, check=True, text=True, timeout=30).stdout  # noqa: S603 - ours
    _check(out.split() == ["once", "True"], out)
    _all_gone()  # the script's resource tracker sees the script's end a moment later


ACTS: dict[str, Callable[[Bench], object]] = {
    "idle": idle,
    "mid-encode": lambda bench: list(bench.rows(bench.faulty("kill"), ROWS)),
    "mid-write": lambda bench: list(bench.rows(bench.faulty("write"), ROWS)),
    "exit0": lambda bench: list(bench.rows(bench.faulty("exit"), ROWS)),
    "unpickle": lambda bench: bench.right(bench.pool(Unimportable())),
    "third-start": third_start,
    "local-class": local_class,
    "lambda": lambda_attribute,
    "lossy": lambda bench: bench.right(bench.pool(Template().encode, needs=("model",))),
    "source": lambda bench: list(bench.rows(bench.faulty("none"), Source(60, breaks_at=40))),
    "one-shot": lambda bench: bench.right(bench.faulty("none"), Source(60, once=True)),
    "all-bad": all_bad,
    "multiple": lambda bench: bench.right(bench.faulty("none"), range(256), list(range(256))),
    "early": early,
    "two": two,
    "ctrl-c": ctrl_c,
    "parent": parent_killed,
    "unguarded": unguarded,
    "strict": lambda bench: list(bench.rows(bench.faulty("raise", strict=True), ROWS)),
    "stuck": lambda bench: list(bench.rows(bench.faulty("hang", item_timeout=0.5), ROWS)),
}


def random_case(seed: int, folder: str) -> None:
    """One pool with random rows, bounds and faults; what comes out must be its rows in order, or the fault's error."""
    pick = seeded(seed)
    fault = pick.choice(
        ["kill", "exit", "stop", "hang", "raise", "segfault", "write", "none", "none", "outside", "leave"]
    )
    inside = fault if fault not in {"outside", "leave"} else "none"
    count = pick.choice([0, 1, 7, 64, 300])
    encoder = Faulty(
        inside, pick.randrange(max(1, count)), folder, pick.choice([0, 0, 3000, 300_000]), pick.choice([0, 0, 0.002])
    )
    pool = EncoderPool(
        encoder,
        workers=pick.randint(1, 4),
        start_method=pick.choice(["fork"] * 18 + ["spawn", "forkserver"]),
        strict=pick.random() < 0.3,  # noqa: PLR2004 - about a third
        max_rows_in_flight=pick.choice([None, 1, 5, 1000]),
        max_bytes_in_flight=pick.choice([1, 1 << 16, 1 << 26]),
        item_timeout=0.3 if fault in {"stop", "hang"} else None,
        max_drop_ratio=1.0,
    )
    expected = [row for row in range(count) if not (inside == "raise" and row == encoder.at)]
    dies = inside in {"kill", "exit", "stop", "hang", "segfault", "write"} and count > 0
    leaves_after = pick.randrange(1 + count // 2) if fault == "leave" else None
    if fault == "outside":
        _kill_one_of(pool, pick.uniform(0, 0.15), folder)
    found: list[Any] = []
    try:
        for one in pool.encode(range(count)):
            if one.kind is Kind.ENCODED:
                found.append(one.value if encoder.size == 0 else one.value[0])
            if leaves_after is not None and len(found) > leaves_after:
                break
    except WorkerDied:
        _check(dies or fault == "outside", f"{fault}: a worker died")
    except (ValueError, RowsLost):
        _check(inside == "raise", f"{fault}: raised")
    else:
        _check(not dies or leaves_after is not None, f"{fault}: no error")
        _check(leaves_after is not None or found == expected, f"{fault}: other rows")
    _check(found == expected[: len(found)], f"{fault}: not in order")
    pool.close()


def _kill_one_of(pool: EncoderPool, seconds: float, folder: str) -> None:
    def kill() -> None:
        time.sleep(seconds)
        children = psutil.Process().children()
        if children:
            mark(folder)
            with suppress(psutil.Error):
                children[-1].kill()

    del pool
    threading.Thread(target=kill, daemon=True).start()


def _end_loaders() -> None:
    """Ends the DataLoaders' workers, which an error that is still held keeps."""
    for rows in _loaders:
        rows._shutdown_workers()  # noqa: SLF001 - torch's own, called where the iterator is collected
    if _loaders:
        wait_for_others(SECONDS_TO_END)


def _say(head: dict[str, Any], outcome: Outcome) -> None:
    print(json.dumps({"python": platform.python_version(), **head, **outcome}), flush=True)


def main() -> None:
    """Run the cells, one after the other."""
    if sys.argv[1] == "random":
        first, count, seconds = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
        for seed in range(first, first + count):
            _say({"seed": seed}, cell(lambda folder, seed=seed: random_case(seed, folder), seconds))  # type: ignore[misc] # bound here
        return
    method, place, faults, seconds = sys.argv[1], sys.argv[2], sys.argv[3].split(","), float(sys.argv[4])
    if place != MAIN:
        import torch.utils.data  # noqa: F401 - once, for all cells
    for fault in faults:
        act = ACTS[fault]
        outcome = cell(lambda folder, act=act: act(Bench(method, place, folder)), seconds, after=_end_loaders)  # type: ignore[misc] # bound here
        _say({"method": method, "place": place, "fault": fault}, outcome)


if __name__ == "__main__":
    main()

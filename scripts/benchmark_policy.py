"""How light the package is: ratios measured in one run, paired and interleaved, medians; and one time.

    python scripts/benchmark_policy.py [--quick]

- `import dataset_num_proc` adds at most a quarter of what `import psutil` adds to a bare interpreter;
- `decide` takes at most 10 µs a cell, averaged over cells of the matrix;
- a warm `num_proc()`, with a fresh reading of the memory, takes at most one and a half times the bare opening, reading
  and closing of the very files that it reads.

Prints a line for each, says where one is short of its goal, and exits 1 if one is far from it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

from bounds import Bound, told
from matrix.cells import question_of, snapshot_of
from matrix.plan import BLOCKS, REQUESTS, ROWS, machines, variants

import dataset_num_proc
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.request import Request, Settings
from dataset_num_proc.policy.rules import decide

IMPORT_SHARE = Bound(0.25, 0.25)
DECIDE_MICROSECONDS = Bound(10, 20)
READING_FACTOR = Bound(1.5, 6)
"""The goal is not met: reading seven files takes 23 of the 99 µs of a call where system calls are quick, and a third
where they are slow (2.4 to 4.2 × on the machines seen). The rest is parsing, facts and the decision, anew each time."""
PAGE = 4096
"""More than any of the files holds."""


def in_turns(actions: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """The seconds of each round, action by action: they take turns, so that other load meets all of them alike."""
    return [[action() for action in actions] for _ in range(rounds)]


def interpreter(program: str) -> Callable[[], float]:
    """Seconds that a fresh interpreter takes for `program`, from its start to its end."""

    def action() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 - the programs stand below
        return time.perf_counter() - start

    return action


def repeated(action: Callable[[], object], times: int) -> Callable[[], float]:
    """Seconds that one of `times` calls in a row takes."""

    def timed() -> float:
        start = time.perf_counter()
        for _ in range(times):
            action()
        return (time.perf_counter() - start) / times

    return timed


def import_share(rounds: int) -> float:
    """What importing the package adds to a bare interpreter, as a share of what importing psutil adds."""
    programs = ("pass", "import psutil", "import dataset_num_proc")
    seconds = in_turns([interpreter(program) for program in programs], rounds)
    bare, psutil, ours = map(median, zip(*seconds, strict=True))
    return float((ours - bare) / (psutil - bare))


def decide_microseconds(rounds: int, blocks: int) -> float:
    """Mean time of `decide` on evenly spread cells of the matrix; values are made beforehand."""
    cells: list[tuple[Request, Snapshot, Settings]] = []
    for block in range(0, BLOCKS, BLOCKS // blocks):
        _, labels = machines(block)[-1]
        machine = snapshot_of(labels)
        for variant in variants(block):
            for rows in ROWS:
                for request in REQUESTS:
                    asked, settings = question_of({**variant, "rows": rows, "request": request})
                    cells.append((asked, machine, settings))

    def all_cells() -> None:
        for request, machine, settings in cells:
            decide(request, machine, settings)

    # With nothing to be paired with, the least disturbed round is the one that says what the code takes.
    return 1e6 * min(seconds for (seconds,) in in_turns([repeated(all_cells, 1)], rounds)) / len(cells)


def ask() -> None:
    """One question of a script that keeps its answer."""
    dataset_num_proc.num_proc(rows=1_000_000)


def files_read() -> list[str | bytes]:
    """The files that one warm question opens, as the interpreter itself reports them."""
    opened: list[str | bytes] = []
    listening = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open" and isinstance(arguments[0], (str, bytes)):
            opened.append(arguments[0])

    ask()
    sys.addaudithook(hook)  # it cannot be taken away again, only told to rest
    ask()
    listening = False
    return opened


def read_bare(files: Sequence[str | bytes]) -> None:
    """The least that reading these files takes."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.read(descriptor, PAGE)
        os.close(descriptor)


def reading_factor(rounds: int) -> tuple[float, int]:
    """Time of a warm `num_proc()` over that of the bare reading of its files; and how many files these are."""
    # In a process without the audit hook: even at rest, one slows every `open` down.
    files = [path for path in _files_in_a_process_of_their_own() if os.access(path, os.R_OK)]
    ask()
    seconds = in_turns([repeated(ask, 50), repeated(lambda: read_bare(files), 50)], rounds)
    return median(warm / bare for warm, bare in seconds), len(files)


def _files_in_a_process_of_their_own() -> list[str]:
    program = "import benchmark_policy as b, os; print(*map(os.fsdecode, b.files_read()), sep='\\n')"
    search = os.pathsep.join((os.path.dirname(os.path.abspath(__file__)), *filter(None, sys.path)))  # noqa: PTH100, PTH120
    done = subprocess.run(  # noqa: S603 - the program stands above
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit status whether all is as light as it should be."""
    parser = argparse.ArgumentParser(description="Measures how light the package is; exits 1 if it is not.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args(arguments).quick
    share = import_share(rounds=15 if quick else 60)
    each = decide_microseconds(rounds=10 if quick else 20, blocks=100 if quick else 300)
    factor, files = reading_factor(rounds=40 if quick else 200)
    return told(
        (
            (f"import: {share:.2f} of what psutil adds", share, IMPORT_SHARE),
            (f"decide: {each:.1f} µs a cell", each, DECIDE_MICROSECONDS),
            (f"warm num_proc(): {factor:.2f} × the bare reading of its {files} files", factor, READING_FACTOR),
        )
    )


if __name__ == "__main__":
    sys.exit(main())

"""What a watch costs: the same map plain and watched, in turns, in one process.

    python scripts/benchmark_watch.py [--quick]

- at most 2 % of a map of 20 seconds;
- at most 20 ms of a map of one second, and of this process's own processor time in one, which other load on the
  machine does not make longer.

Each pair is a plain and a watched run, whose order changes from pair to pair; the figure is the median of what the
pairs differ by. The work is the processor's, on as many workers as there are processors, so that whatever the watch
does is in the way of it. Prints a line for each, says where one is short of its goal, and exits 1 if one is far off.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import datasets
from bounds import Bound, told
from dying.rows import works

from dataset_num_proc import take_snapshot, watch
from dataset_num_proc.policy.case import usable_cpus

SHARE = Bound(0.02, 0.25, "{:.0%}")
SECONDS = Bound(0.020, 0.500, "{:g} s")
OWN_SECONDS = Bound(0.020, 0.200, "{:g} s")
LONG, SHORT = 20.0, 1.0
ROWS = 400


class Run(NamedTuple):
    """One map: seconds that it took, and seconds of processor time that this process used meanwhile."""

    took: float
    own: float


class Pairs(NamedTuple):
    """Seconds of the plain runs, and by how much the watched run of each pair was longer, and used more."""

    plain: list[float]
    more: list[float]
    more_own: list[float]


def timed(data: Any, loops: int, workers: int, *, watched: bool) -> Run:  # noqa: ANN401 - `datasets` is untyped here
    """One map."""
    start, used = time.perf_counter(), time.process_time()
    with watch() if watched else nullcontext():
        data.map(partial(works, loops=loops), num_proc=workers, load_from_cache_file=False)
    return Run(time.perf_counter() - start, time.process_time() - used)


def loops_for(data: Any, seconds: float, workers: int) -> int:  # noqa: ANN401 - as above
    """Loops a row that make a map of about so many seconds."""
    few, many = 1_000, 21_000
    least = min(timed(data, few, workers, watched=False).took for _ in range(2))
    each = (min(timed(data, many, workers, watched=False).took for _ in range(2)) - least) / (many - few)
    return max(few, int(few + (seconds - least) / each))


def paired(data: Any, seconds: float, workers: int, count: int) -> Pairs:  # noqa: ANN401 - as above
    """That many pairs of runs, after one of each that does not count."""
    loops = loops_for(data, seconds, workers)
    pairs = Pairs([], [], [])
    timed(data, 1, workers, watched=True)
    for number in range(count):
        order = (False, True) if number % 2 else (True, False)
        runs = {watched: timed(data, loops, workers, watched=watched) for watched in order}
        pairs.plain.append(runs[False].took)
        pairs.more.append(runs[True].took - runs[False].took)
        pairs.more_own.append(runs[True].own - runs[False].own)
    return pairs


def spread(values: Sequence[float]) -> str:
    """The middle half of the values, in milliseconds."""
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
    return f"middle half {low * 1e3:+.0f} to {high * 1e3:+.0f} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit status whether the watch costs as little as it should."""
    parser = argparse.ArgumentParser(description="Measures what a watch costs; exits 1 if it is far too much.")
    parser.add_argument("--quick", action="store_true", help="few pairs, and a long map of three seconds")
    parser.add_argument("--pairs", type=int, nargs=2, default=(7, 41), help="of long and of short maps (7 41)")
    options = parser.parse_args(arguments)
    long_pairs, short_pairs = (3, 5) if options.quick else options.pairs
    datasets.disable_progress_bars()
    workers = max(2, usable_cpus(take_snapshot())[0] or 2)
    with tempfile.TemporaryDirectory() as folder:
        datasets.Dataset.from_dict({"x": list(range(ROWS))}).save_to_disk(folder)
        data = datasets.load_from_disk(folder)
        short = paired(data, SHORT, workers, short_pairs)
        long = paired(data, 3.0 if options.quick else LONG, workers, long_pairs)
    share, seconds, own = median(long.more) / median(long.plain), median(short.more), median(short.more_own)
    of_long, of_short = (f"a map of {median(pairs.plain):.1f} s ({len(pairs.more)} pairs)" for pairs in (long, short))
    own_line = f"this process's processor time in it: {own * 1e3:+.1f} ms, {spread(short.more_own)}"
    return told(
        (
            (f"{of_long}: {share:+.1%}, {spread(long.more)}", share, SHARE),
            (f"{of_short}: {seconds * 1e3:+.1f} ms, {spread(short.more)}", seconds, SECONDS),
            (own_line, own, OWN_SECONDS),
        )
    )


if __name__ == "__main__":
    sys.exit(main())

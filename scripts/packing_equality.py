"""Packs of ours beside those of ms-swift 4.6.0's own classes, on the same rows.

    python scripts/packing_equality.py [--configurations N] [--workers N] [--seed N] [--quick] [--record FILE]

- Random configurations of both classes: packs, their order and their lengths are the same, and what fails, fails after
  the same packs. Which binpacking is installed decides what ms-swift's default strategy is; run it with both. Some of
  the streams are packed by two workers of ours as well, forked and from a fork server.
- The same packs come out for every number of workers and every start method.
- The documented differences, each shown on both sides.

Needs an interpreter with `ms-swift==4.6.0`; the second part needs nothing. Exits 1 where anything differs that is not
documented, and 2 where ms-swift is not there to be compared with.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_all_start_methods
from pathlib import Path
from typing import Any

from packs.configurations import TEMPLATES, Configuration, Packed, pack_with, series
from packs.differences import DIFFERENCES
from packs.golden import record

from dataset_num_proc import packing

WITHOUT_LOSS_LIMITS = {"max_drop_ratio": 1.0, "window": sys.maxsize}
"""ms-swift has none. That all rows of a source are lost is an error of ours all the same."""
SWIFT = "4.6.0"
WITH_WORKERS = ("fork", "forkserver")
"""Start methods of those configurations that are packed by two workers of ours as well, in turn."""
MANY = 50
"""Rows of a configuration that is packed by every number of workers."""


def main() -> int:
    """Compare, print, and say by the exit status whether all is as documented."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--configurations", type=int, help="how many (default: 200; 24 with --quick)")
    parser.add_argument("--workers", type=int, help="streams packed by workers too (default: 50; 6 with --quick)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="fewer configurations, fewer workers")
    parser.add_argument("--record", type=Path, help="write what ms-swift packs to this file, for the test suite")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # fork beside threads, on purpose
    if options.record:
        record(options.record, {name: version(name) for name in ("ms-swift", "binpacking")}, stock_packs)
        return 0
    failed = workers_failed(options.seed, (0, 1, 2, 4) if options.quick else tuple(range(9)))
    if installed("ms-swift") != SWIFT:
        print(f"ms-swift is {installed('ms-swift') or 'not installed'}; nothing is compared with {SWIFT}")
        return 1 if failed else 2
    print(f"ms-swift {SWIFT}, binpacking {installed('binpacking')}")
    few = options.quick
    with_workers = options.workers if options.workers is not None else (6 if few else 50)
    failed += configurations_failed(options.seed, options.configurations or (24 if few else 200), with_workers)
    failed += differences_failed()
    return 1 if failed else 0


def installed(distribution: str) -> str | None:
    """The installed release of a package."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def workers_failed(seed: int, counts: tuple[int, ...]) -> int:
    """How many counts and start methods gave other packs than this process alone."""
    configurations = [one for one in series(seed, 80) if one.stream and not one.strict and len(one.rows) > MANY][:3]
    failed = 0
    for one in configurations:
        here = pack_with(packing, one, num_proc=0, pool_options=WITHOUT_LOSS_LIMITS)
        for method in get_all_start_methods():
            for count in counts:
                there = pack_with(
                    packing, one, num_proc=count, multiprocessing_context=method, pool_options=WITHOUT_LOSS_LIMITS
                )
                failed += there != here
                if there != here:
                    print(f"FAILED {count} workers by {method}: {one}")
    print(
        f"{len(configurations)} configurations × {len(counts)} counts × {len(get_all_start_methods())} methods:",
        end=" ",
    )
    print(f"{failed} differ from this process alone")
    return failed


def configurations_failed(seed: int, count: int, with_workers: int) -> int:
    """How many configurations gave other packs than ms-swift's own classes."""
    seen: Counter[str] = Counter()
    failed = 0
    for one in series(seed, count):
        stock = stock_packs(one)
        seen["streams" if one.stream else "map-style"] += 1
        seen[one.template] += 1
        seen.update(name for name in ("strict", "cyclic", "epochs") if getattr(one, name))
        seen["packs"] += len(stock.packs) if one.stream else len(stock.packs) // 2
        ways: list[str | None] = [None]
        if one.stream and (places := seen["by fork"] + seen["by forkserver"]) < with_workers:
            ways.append(WITH_WORKERS[places % len(WITH_WORKERS)])
        for method in ways:
            found = our_packs(one, method)
            verdict = judged(one, found, stock)
            seen.update([verdict, *([f"by {method}"] if method else [])])
            if verdict == "differ":
                failed += 1
                print(f"FAILED {one}, {method or 'in process'}\n  ours   {shown(found)}\n  theirs {shown(stock)}")
    print(", ".join(f"{name} {number}" for name, number in seen.items()))
    print(f"{count} configurations, {len(TEMPLATES)} templates: {failed} differ")
    return failed


def our_packs(one: Configuration, method: str | None) -> Packed:
    """What our classes, as they stand in for ms-swift's, make of it in process, or with two workers by that method."""
    options: dict[str, Any] = {"pool_options": WITHOUT_LOSS_LIMITS} if one.stream else {}
    if method:
        options["multiprocessing_context"] = method
    with quiet():
        return pack_with(modules()[0], one, num_proc=2 if method else 0, **options)


def modules() -> tuple[Any, Any]:
    """Our classes as they stand in for ms-swift's, and ms-swift's own."""
    from swift.dataset import packing as theirs

    from dataset_num_proc.compat import ms_swift as ours

    return ours, theirs


def stock_packs(one: Configuration) -> Packed:
    """What ms-swift's own classes make of it."""
    with quiet():
        return pack_with(modules()[1], one, num_proc=2)


def judged(one: Configuration, ours: Packed, theirs: Packed) -> str:
    """Whether they are the same; what fails, fails in ours by the error itself, in theirs by that of a dead worker."""
    lost = all(row["how"] == "raise" for row in one.rows)
    if lost and one.rows and ours == Packed([], "RowsLost") and theirs == Packed([], None):
        return "all rows lost: an error of ours"
    if ours.packs != theirs.packs or (ours.error, theirs.error) not in ((None, None), ("ValueError", "RuntimeError")):
        return "differ"
    return "same, and both failed" if ours.error else "same"


def shown(packed: Packed) -> str:
    """The first packs, and the error."""
    return f"{len(packed.packs)} packs, {packed.packs[:3]} …, {packed.error}"


def differences_failed() -> int:
    """How many documented differences are none; prints all."""
    ours, theirs = modules()
    failed = 0
    for difference in DIFFERENCES:
        print(f"- {difference.case}: {difference.why}")
        if difference.run is None:
            continue
        with quiet():
            stock, found = difference.run(theirs), difference.run(ours)
        failed += stock == found
        print(f"    theirs: {stock}\n    ours:   {found}" + ("\n    FAILED: no difference" if stock == found else ""))
    return failed


@contextmanager
def quiet() -> Iterator[None]:
    """Without what this process and its children write to standard error: progress bars, and tracebacks on purpose."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())

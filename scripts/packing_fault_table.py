"""The packing fault table: real pools with everything that goes wrong, and what comes out of them.

    python scripts/packing_fault_table.py [--quick] [--json] [--random N [--seed S]]

Every fault × start method × place: the main process, a forked and a spawned DataLoader's worker, persistent ones, and
a forked one with workers of its own (`in_daemon`). Each cell is a process of its own under a time-out. Prints how many
came out with the right rows or the right error, soon enough and with nothing left running; lists those that did not,
and exits 1 on any. With --random: N seeded random cases, of which none may hang. In the other DataLoaders' workers rows
are encoded in process: what ends such a worker is torch's to say, and torch looks every five seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dying.programs import lines_of, right

Cell = dict[str, Any]
METHODS = ("fork", "spawn", "forkserver")
MAIN, FORKED, SPAWNED, PERSISTENT, NESTED = PLACES = (
    "main",
    "forked loader",
    "spawned loader",
    "persistent",
    "in a daemon",
)
_OURS = (MAIN, NESTED)
"""Where there are workers of ours."""
TORCH = "RuntimeError"
"""What a DataLoader raises when its worker is gone."""
WITHIN, WITHIN_TORCH = 2.0, 8.0
"""Seconds from a fault to its error; where torch must notice: it looks every five, and ends its worker then."""
SECONDS_A_CELL = 40.0


class Fault(NamedTuple):
    """A fault, and the error that is to come out of it.

    Attributes:
        title: what happens.
        main: error where there are workers of ours; `None` for the right rows.
        loader: error in a DataLoader's worker.
        fresh: error where those are fresh interpreters, if it is another one.
        spawned: error in a spawned DataLoader's worker, if it is another one.
        torchs: whether in a DataLoader it is torch that has to notice.
        places: where it can happen.
    """

    title: str
    main: str | None = None
    loader: str | None = None
    fresh: str | None = "same"
    spawned: str | None = "same"
    torchs: bool = False
    places: tuple[str, ...] = PLACES


FAULTS = {
    "idle": Fault("killed while idle", "WorkerDied", TORCH, torchs=True),
    "mid-encode": Fault("killed in the middle of a row", "WorkerDied", TORCH, torchs=True),
    "mid-write": Fault("killed in the middle of a large write", "WorkerDied", TORCH, torchs=True),
    "exit0": Fault("`os._exit(0)`", "WorkerDied", TORCH, torchs=True),
    "unpickle": Fault("encoder raises where it is unpickled", None, None, "WorkerStartFailed", TORCH, torchs=True),
    "third-start": Fault("third start fails", "WorkerStartFailed"),
    "local-class": Fault("encoder of a local class", spawned="AttributeError"),
    "lambda": Fault("lambda in an attribute", spawned="AttributeError"),
    "lossy": Fault("`__getstate__` leaves the model out", spawned="ValueError"),
    "source": Fault("source raises", "OSError", "OSError"),
    "one-shot": Fault("one-shot source"),
    "all-bad": Fault("all rows bad", "RowsLost", "RowsLost"),
    "multiple": Fault("exact multiple of the window"),
    "early": Fault("early close, and again"),
    "two": Fault("two iterators"),
    "ctrl-c": Fault("Ctrl-C", "KeyboardInterrupt", "KeyboardInterrupt"),
    "parent": Fault("parent killed", torchs=True),
    "unguarded": Fault("unguarded main script", places=(MAIN,)),
    "strict": Fault("bad row, strict", "ValueError", "ValueError"),
    "stuck": Fault("a row never ends (item_timeout)", "WorkerStalled", places=_OURS),
}
QUICK = (
    ("fork", MAIN, tuple(FAULTS)),
    ("forkserver", MAIN, ("mid-encode", "unpickle", "local-class", "lossy", "unguarded", "parent")),
)


def main() -> int:
    """Run the cells, print the table."""
    options = _options()
    if options.random:
        return _random(options)
    cells = list(_cells(options))
    wrong = [(cell, fault) for cell in cells if (fault := fault_of(cell))]
    print(json.dumps({"cells": cells, "wrong": len(wrong)}, indent=1) if options.json else "\n".join(_report(cells)))
    for cell, fault in wrong:
        print(f"WRONG {cell['method']}, {cell['place']}, {FAULTS[cell['fault']].title}: {fault}", file=sys.stderr)
    return 1 if wrong or not cells else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Breaks packing workers in every way, and checks what comes of it.")
    parser.add_argument("--quick", action="store_true", help="the main process alone: fork, and a few of forkserver")
    parser.add_argument("--json", action="store_true", help="print every cell as JSON")
    parser.add_argument("--random", type=int, default=0, help="so many random cases in place of the table")
    parser.add_argument("--seed", type=int, default=0, help="of the first random case")
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=FAULTS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--places", nargs="+", default=list(PLACES), choices=PLACES)
    return parser.parse_args()


def _cells(options: argparse.Namespace) -> Iterator[Cell]:
    full = [(method, place, tuple(options.faults)) for place in options.places for method in options.methods]
    for method, place, names in QUICK if options.quick else full:
        faults = [name for name in names if place in FAULTS[name].places and name in options.faults]
        if faults:
            words = (method, place, ",".join(faults), str(SECONDS_A_CELL))
            seconds = 60 + len(faults) * (SECONDS_A_CELL + 5)
            for cell in lines_of(sys.executable, "packing", words, seconds):
                if sys.stderr.isatty():
                    print(f"\r{method}, {place}, {cell['fault']:<40}", end="\r", file=sys.stderr)
                yield cell


def _random(options: argparse.Namespace) -> int:
    words = ("random", str(options.seed), str(options.random), str(SECONDS_A_CELL))
    cells = list(lines_of(sys.executable, "packing", words, 60 + options.random * 10))
    hung = [cell["seed"] for cell in cells if cell["hung"]]
    wrong = {cell["seed"]: cell["text"] or cell["left"] or cell["later"] for cell in cells if _random_fault(cell)}
    late = sorted(cell["seconds"] for cell in cells if cell["error"] is None and cell.get("seconds") is not None)
    print(f"{len(cells)} random cases from seed {options.seed}: {len(hung)} hangs, {len(wrong)} wrong")
    if late:
        print(f"from the fault to the end: median {late[len(late) // 2]:.2f} s, longest {late[-1]:.2f} s")
    for seed, why in wrong.items():
        print(f"WRONG seed {seed}: {why}", file=sys.stderr)
    return 1 if hung or wrong or len(cells) != options.random else 0


def _random_fault(cell: Cell) -> bool:
    return cell["hung"] or cell["lost"] or cell["error"] is not None or bool(cell["left"] or cell["later"])


def fault_of(cell: Cell) -> str | None:
    """What is wrong with a cell; `None` where nothing is."""
    fault = FAULTS[cell["fault"]]
    if cell["hung"] or cell["lost"]:
        return "hangs" if cell["hung"] else "no outcome"
    expected = _expected(fault, cell["place"], cell["method"])
    if cell["error"] != expected:
        return f"{cell['error']} in place of {expected}: {cell['text'][:300]}"
    torchs = fault.torchs and cell["place"] != MAIN and (cell["place"] != NESTED or cell["fault"] == "parent")
    within = WITHIN_TORCH if torchs else WITHIN
    timed = expected is not None or cell["fault"] == "parent"
    if timed and cell["seconds"] is not None and cell["seconds"] > within:
        return f"the error came {cell['seconds']} s after the fault"
    left = [*cell["left"], *cell["later"]]
    return f"left running: {'; '.join(left)}" if left else None


def _expected(fault: Fault, place: str, method: str) -> str | None:
    if place in _OURS:
        return fault.main if method == "fork" or fault.fresh == "same" else fault.fresh
    return fault.loader if place != SPAWNED or fault.spawned == "same" else fault.spawned


def _report(cells: Sequence[Cell]) -> Iterator[str]:
    places = [place for place in PLACES if any(cell["place"] == place for cell in cells)]
    yield f"Python {cells[0]['python']}: right / cells over start methods, and the longest time from fault to error"
    yield f"| {' | '.join(['fault', *places, 'longest'])} |"
    yield f"|{'---|' * (len(places) + 2)}"
    for name, fault in FAULTS.items():
        of_fault = [cell for cell in cells if cell["fault"] == name]
        if of_fault:
            counts = [right([cell for cell in of_fault if cell["place"] == place], fault_of) for place in places]
            timed = [cell["seconds"] for cell in of_fault if cell["place"] in _OURS and cell["seconds"] is not None]
            slowest = f"{max(timed):.2f} s" if timed else "–"
            yield f"| {' | '.join([fault.title, *counts, slowest])} |"
    yield f"{right(cells, fault_of)} right; times are those of the main process and of workers in a daemon"


if __name__ == "__main__":
    sys.exit(main())

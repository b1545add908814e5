"""The death table: real pools whose workers really die, and what a watch says of each.

    python scripts/death_table.py [--quick] [--json] [--python PATH …]

Every way to die × {map, filter, DatasetDict.map} × start method × worker count, on the `datasets` of each interpreter.
Each cell is a process of its own under a time-out. Prints how many came out with the right error, verdict and exit
code, soon enough and with nothing left running; lists those that did not, and exits 1 on any.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from dying.programs import lines_of, right

Cell = dict[str, Any]


class Kind(NamedTuple):
    """A way to end, and what is to come out of it.

    Attributes:
        title: what happens.
        error: type of the exception; `None` where nothing is raised.
        verdict: its verdict.
        code: exit status of the first that died.
        role: what that one was.
    """

    title: str
    error: str | None
    verdict: str | None = None
    code: int | None = None
    role: str | None = None


def _death(title: str, verdict: str, code: int) -> Kind:
    return Kind(title, "WorkerDied", verdict, code, "worker")


KINDS = {
    "SIGKILL": _death("SIGKILL", "killed", -9),
    "SIGSEGV": _death("SIGSEGV", "segfault", -11),
    "SIGBUS": _death("SIGBUS", "bus-error", -7),
    "SIGABRT": _death("SIGABRT", "aborted", -6),
    "SIGTERM": _death("SIGTERM", "signalled", -15),
    "_exit0": _death("`os._exit(0)`", "exited", 0),
    "_exit3": _death("`os._exit(3)`", "exited", 3),
    "exit4": _death("`sys.exit(4)`", "exited", 4),
    "memory": Kind("MemoryError", "MemoryError"),
    "import": Kind("ModuleNotFoundError in a fresh child", "WorkerStartFailed", "import-failed", 1, "worker"),
    "manager": Kind("manager killed", "WorkerDied", "manager-died", -9, "manager"),
    "exception": Kind("ordinary exception", "ValueError"),
    "none": Kind("nothing: a clean run", None),
}
METHODS = ("fork", "spawn", "forkserver")
OPERATIONS = ("map", "filter", "dict")
COUNTS = (1, 2, 4)
QUICK = (("fork", "map", (2,), tuple(KINDS)), ("spawn", "map", (2,), ("SIGKILL", "import")))
SECONDS_A_CELL = 40.0
"""Long past the slowest start of four fresh interpreters: what is not done by then hangs."""


def main() -> int:
    """Run the cells, print the table."""
    options = _options()
    cells: list[Cell] = []
    for python in options.python:
        cells += _cells_of(python, options)
    ran = [cell for cell in cells if not cell.get("skipped")]
    wrong = [(cell, fault) for cell in ran if (fault := fault_of(cell, options.within))]
    if options.json:
        print(json.dumps({"cells": ran, "wrong": len(wrong)}, indent=1))
    else:
        print("\n".join(_report(cells, options.within)))
    for cell, fault in wrong:
        print(f"WRONG {_name(cell)}: {fault}", file=sys.stderr)
    return 1 if wrong or not ran else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ends workers in every way, and checks what a watch says of it.")
    parser.add_argument("--quick", action="store_true", help="all kinds under fork with two workers, two under spawn")
    parser.add_argument("--json", action="store_true", help="print every cell as JSON")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters, each with its `datasets`")
    parser.add_argument("--within", type=float, default=2.0, help="seconds from the death to the error (2)")
    parser.add_argument("--clean", type=int, default=2, help="clean runs per method, operation and count (2)")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    parser.add_argument("--workers", nargs="+", type=int, default=list(COUNTS), help="worker counts (1 2 4)")
    return parser.parse_args()


def _cells_of(python: str, options: argparse.Namespace) -> Iterator[Cell]:
    """One program for each method and operation; it runs its cells one after the other."""
    full = [
        (method, operation, tuple(options.workers), tuple(options.kinds))
        for method in options.methods
        for operation in options.operations
    ]
    for method, operation, counts, kinds in QUICK if options.quick else full:
        clean = 1 if options.quick else options.clean
        count = len(counts) * (len(kinds) + clean)
        words = (method, operation, ",".join(map(str, counts)), ",".join(kinds), str(SECONDS_A_CELL), str(clean))
        for cell in lines_of(python, "deaths", words, 60 + count * (SECONDS_A_CELL + 5)):
            if sys.stderr.isatty():
                print(f"\r{_name(cell):<80}", end="\r", file=sys.stderr)
            yield cell


def fault_of(cell: Cell, within: float) -> str | None:
    """What is wrong with a cell; `None` where nothing is."""
    kind = KINDS[cell["kind"]]
    if cell["kind"] == "import" and cell["method"] == "fork":
        kind = Kind(kind.title, None)  # a fork has every module that its parent has
    if cell["hung"] or cell["lost"]:
        return "hangs" if cell["hung"] else "no outcome"
    seen = Kind(kind.title, cell["error"], cell["verdict"], cell["code"], cell["role"])
    if seen != kind:
        return f"{list(seen[1:])} in place of {list(kind[1:])}: {cell['text']}"
    if cell["listed"] != cell["code"]:
        return f"exit code {cell['code']} of the first, {cell['listed']} in the list"
    if cell["seconds"] is not None and cell["seconds"] > within:
        return f"the error came {cell['seconds']} s after the death"
    left = [*cell["left"], *cell["later"]]
    return f"left running: {'; '.join(left)}" if left else None


def _name(cell: Cell) -> str:
    place = f"datasets {cell['datasets']}, Python {cell['python']}: {cell['method']}, {cell['operation']}"
    return f"{place}, {cell['workers']} worker(s), {KINDS[cell['kind']].title}"


def _report(cells: Sequence[Cell], within: float) -> Iterator[str]:
    """A table for each interpreter and release."""
    for release in dict.fromkeys((cell["datasets"], cell["python"]) for cell in cells):
        here = [cell for cell in cells if (cell["datasets"], cell["python"]) == release]
        ran = [cell for cell in here if not cell.get("skipped")]
        yield f"datasets {release[0]}, Python {release[1]}: right / cells, and the longest time from death to error"
        yield from _table(ran, within)
        if len(here) > len(ran):
            yield f"{len(here) - len(ran)} cells not run: `num_proc=1` is no pool in this release"
        late = sorted(cell["seconds"] for cell in ran if cell["seconds"] is not None)
        if late:
            times = f"median {late[len(late) // 2]:.2f} s, longest {late[-1]:.2f} s"
            yield f"{right(ran, partial(fault_of, within=within))} right; from death to error: {times}"
        yield ""


def _table(cells: Sequence[Cell], within: float) -> Iterator[str]:
    faults = partial(fault_of, within=within)
    methods = [method for method in METHODS if any(cell["method"] == method for cell in cells)]
    yield f"| {' | '.join(['death', *methods, 'longest'])} |"
    yield f"|{'---|' * (len(methods) + 2)}"
    for name, kind in KINDS.items():
        of_kind = [cell for cell in cells if cell["kind"] == name]
        if of_kind:
            counts = [right([cell for cell in of_kind if cell["method"] == method], faults) for method in methods]
            slowest = max((cell["seconds"] for cell in of_kind if cell["seconds"] is not None), default=None)
            yield f"| {' | '.join([kind.title, *counts, '–' if slowest is None else f'{slowest:.2f} s'])} |"


if __name__ == "__main__":
    sys.exit(main())

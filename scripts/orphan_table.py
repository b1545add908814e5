"""The orphan table: who outlives whom when a parent is killed or interrupted, or a row crashes.

    python scripts/orphan_table.py [--quick] [--json] [--tries N] [--python PATH …]

- The parent of a watched map is killed: no process is there two seconds later.
- Ctrl-C at a terminal (the whole process group) and for the parent alone: it comes out as a KeyboardInterrupt; two
  seconds later nothing runs and no temporary file is there, and the handlers of signals are as before.
- A row segfaults: the parent lives, and the error names a range of rows with that row in it.

The moments of the first two are spread over the whole of a map and a little time around it. Prints how many came out
right, lists those that did not, and exits 1 on any.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dying.programs import lines_of, right

Try = dict[str, Any]

SITUATIONS = {
    "killed": "parent killed: nothing runs 2 s later",
    "ctrl-c": "Ctrl-C at a terminal",
    "ctrl-c-alone": "Ctrl-C for the parent alone",
    "segfault": "a row that segfaults: named",
}
METHODS = ("fork", "spawn", "forkserver")
STAGES = ("before", "inside", "after")
FACTORS = {"segfault": 2}
"""Tries for each that is asked for: these take the least time."""
QUICK = (("fork", tuple(SITUATIONS), 3), ("spawn", ("killed",), 1))
SECONDS_A_TRY = 90.0
"""Long past a map in three fresh interpreters on a busy machine: what is not over by then hangs."""


def main() -> int:
    """Run the tries, print the table."""
    options = _options()
    tries: list[Try] = []
    for python in options.python:
        tries += _tries_of(python, options)
    wrong = [(one, fault) for one in tries if (fault := fault_of(one))]
    if options.json:
        print(json.dumps({"tries": tries, "wrong": len(wrong)}, indent=1))
    else:
        print("\n".join(_report(tries)))
    for one, fault in wrong:
        place = f"datasets {one['datasets']}, Python {one['python']}, {one['method']}"
        print(f"WRONG {place}: {SITUATIONS[one['situation']]}: {fault}", file=sys.stderr)
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kills and interrupts parents, and looks for what outlives them.")
    parser.add_argument("--quick", action="store_true", help="three tries of each under fork, one kill under spawn")
    parser.add_argument("--json", action="store_true", help="print every try as JSON")
    parser.add_argument("--tries", type=int, default=50, help="of each situation, by method; twice of segfaults (50)")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters, each with its `datasets`")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--situations", nargs="+", default=list(SITUATIONS), choices=SITUATIONS)
    return parser.parse_args()


def _tries_of(python: str, options: argparse.Namespace) -> Iterator[Try]:
    """One program for each situation and method; it makes its tries one after the other."""
    full = [(method, tuple(options.situations), options.tries) for method in options.methods]
    for method, situations, count in QUICK if options.quick else full:
        for situation in situations:
            tries = count * FACTORS.get(situation, 1)
            words = (situation, method, str(tries), str(SECONDS_A_TRY))
            yield from lines_of(python, "orphans", words, 60 + (tries + 1) * (SECONDS_A_TRY + 5))


def fault_of(one: Try) -> str | None:
    """What is wrong with a try; `None` where nothing is."""
    if one["hung"]:
        return f"hangs, by a signal after {one.get('moment', 0):.3f} of {one.get('whole', 0):.3f} s"
    left = [*one.get("left", ()), *one["later"]]
    if left:
        return f"left running: {'; '.join(left)}; interrupted in {one.get('where')}"
    if one["situation"] == "killed":
        return None if one["lost"] and one["status"] == -9 else f"ended with {one['status']}"  # noqa: PLR2004 - SIGKILL
    if one["lost"]:
        return f"no outcome, status {one['status']}"
    return _fault_of_crash(one) if one["situation"] == "segfault" else _fault_of_interrupt(one)


def _fault_of_interrupt(one: Try) -> str | None:
    if one.get("raised") != "KeyboardInterrupt":
        return f"{one.get('raised', one['error'])} in place of KeyboardInterrupt, from {one.get('where')}"
    if one["files"] or not one["same_handlers"]:
        return f"files left: {one['files']}, handlers as before: {one['same_handlers']}; in {one['where']}"
    return None


def _fault_of_crash(one: Try) -> str | None:
    if (one["error"], one["verdict"], one["code"]) != ("WorkerDied", "segfault", -11):
        return f"{one['error']}, {one['verdict']}, {one['code']}: {one['text']}"
    first, end = one["rows"] or (0, 0)
    return None if first <= one["bad"] < end else f"row {one['bad']} is not in {one['rows']}"


def _report(tries: Sequence[Try]) -> Iterator[str]:
    """A table for each interpreter and release."""
    for release in dict.fromkeys((one["datasets"], one["python"]) for one in tries):
        here = [one for one in tries if (one["datasets"], one["python"]) == release]
        methods = [method for method in METHODS if any(one["method"] == method for one in here)]
        yield f"datasets {release[0]}, Python {release[1]}: right / tries\n"
        yield f"| {' | '.join(['situation', *methods, 'the signal came'])} |"
        yield f"|{'---|' * (len(methods) + 2)}"
        for name, title in SITUATIONS.items():
            of_it = [one for one in here if one["situation"] == name]
            if of_it:
                counts = [right([one for one in of_it if one["method"] == method], fault_of) for method in methods]
                yield f"| {' | '.join([title, *counts, _moments(of_it)])} |"
        yield f"\n{right(here, fault_of)} right.\n"


def _moments(tries: Sequence[Try]) -> str:
    """How many signals came when."""
    stages = Counter(one.get("stage") for one in tries)
    if not any(stages[stage] for stage in STAGES):
        return "at any moment of it" if tries[0]["situation"] == "killed" else "–"
    return ", ".join(f"{stages[stage]} {stage}" for stage in STAGES if stages[stage]) + " the map"


if __name__ == "__main__":
    sys.exit(main())

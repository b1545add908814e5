"""The memory table: workers that a real kernel kills for memory, in control groups of both versions.

    python scripts/memory_table.py [--quick] [--json] [--tries N] [--python PATH …]

Version 1 is a group of our own on this machine, which needs its memory controller and the superuser; version 2 is a
kernel that runs as a program (user-mode-linux). In a group of 512 MiB:

- a worker that takes all of it is OUT_OF_MEMORY, with the counter's rise, the limit and the peak;
- a worker that gets SIGKILL from somebody is KILLED;
- `dnp.map` with four workers that do not fit goes on with two, says so, and has the right rows.

Prints how many came out right, lists those that did not, and exits 1 on any.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dying.kernel import GROUP, lines_in_guest, present
from dying.programs import lines_of, right

Try = dict[str, Any]

MIB = 1 << 20
LIMIT = 512 * MIB
CONTROLLER = Path("/sys/fs/cgroup/memory")
COUNTERS = {"v1": "memory.oom_control", "v2": "memory.events"}
CASES = {
    "kernel": "killed by the kernel: OUT_OF_MEMORY",
    "hand": "SIGKILL by hand: KILLED",
    "step-down": "four workers do not fit: right rows, and said",
}
VERSIONS = ("v1", "v2")
METHODS = ("fork", "spawn", "forkserver")
QUICK = 2
SECONDS_A_TRY = {"v1": 45.0, "v2": 120.0}
"""What is not over by then hangs; the guest is slow."""
STEP = re.compile(r"map: \d of 4 workers (was|were) killed for memory \(peak [\d.]+ MiB, now available [\d.]+ MiB\): ")


def main() -> int:
    """Run the tries, print the table."""
    options = _options()
    tries: list[Try] = []
    for python in options.python:
        for version in options.versions:
            tries += ({"version": version, **one} for one in _tries_of(version, python, options))
    wrong = [(one, fault) for one in tries if (fault := fault_of(one))]
    if options.json:
        print(json.dumps({"tries": tries, "wrong": len(wrong)}, indent=1))
    else:
        print("\n".join(_report(tries)))
    for one, fault in wrong:
        print(f"WRONG cgroup {one['version']}, {one['method']}: {CASES[one['case']]}: {fault}", file=sys.stderr)
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Has real kernels kill workers for memory, and checks what is said.")
    parser.add_argument("--quick", action="store_true", help="two tries of each in version 1; in 2 where 1 is not here")
    parser.add_argument("--json", action="store_true", help="print every try as JSON")
    parser.add_argument("--tries", type=int, default=20, help="of each case, in each version (20)")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters, each with its `datasets`")
    parser.add_argument("--method", choices=METHODS, default="fork", help="how the workers are started (fork)")
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS), choices=VERSIONS, help="of control groups")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    return parser.parse_args()


def _tries_of(version: str, python: str, options: argparse.Namespace) -> Iterator[Try]:
    count = QUICK if options.quick else options.tries
    limit = SECONDS_A_TRY[version]
    words = (options.method, ",".join(options.cases), str(count), str(limit))
    seconds = 120 + len(options.cases) * count * limit
    has_v1 = os.access(CONTROLLER / "memory.limit_in_bytes", os.W_OK)
    if version == "v2":
        if options.quick and has_v1:  # a boot and what follows take minutes
            return
        if present():
            yield from lines_in_guest(python, "memory", (GROUP, *words), limit=LIMIT, seconds=seconds)
        else:
            print(
                "cgroup v2: not run, no user-mode-linux here that this processor runs for the superuser",
                file=sys.stderr,
            )
    elif has_v1:
        with _group() as group:
            yield from lines_of(python, "memory", (str(group), *words), seconds)
    else:
        print("cgroup v1: not run, no memory controller is here for us to write to", file=sys.stderr)


@contextmanager
def _group() -> Iterator[Path]:
    """A group of version 1 with the limit, removed when its last process has ended."""
    made = CONTROLLER / f"dnp-table-{os.getpid()}"
    made.mkdir()
    try:
        (made / "memory.limit_in_bytes").write_text(str(LIMIT), encoding="utf-8")
        yield made
    finally:
        deadline = time.monotonic() + 5
        while made.exists() and time.monotonic() < deadline:
            with suppress(OSError):  # a process that was killed takes a moment to leave
                made.rmdir()
            time.sleep(0.05)


def fault_of(one: Try) -> str | None:
    """What is wrong with a try; `None` where nothing is."""
    if one["hung"] or one["lost"]:
        return "hangs" if one["hung"] else f"no outcome, status {one['status']}"
    left = [*one["left"], *one["later"]]
    if left:
        return f"left running: {'; '.join(left)}"
    return _fault_of_step(one) if one["case"] == "step-down" else _fault_of_death(one)


def _fault_of_step(one: Try) -> str | None:
    if one["error"] is not None or not one["right_rows"]:
        return f"right rows: {one.get('right_rows')}; {one['error']}: {one['text']}"
    said = one["warnings"]
    right = len(said) == 1 and STEP.match(said[0]) and "going on with 2 workers" in said[0]
    return None if right else f"said {said}"


def _fault_of_death(one: Try) -> str | None:
    by_kernel = one["case"] == "kernel"
    wanted = ("WorkerDied", "out-of-memory" if by_kernel else "killed", -9)
    if (one["error"], one["verdict"], one["code"]) != wanted:
        return f"{one['error']}, {one['verdict']}, {one['code']}: {one['text']}"
    memory = one["memory"]
    if (memory["group_kills"], memory["limit"]) != (int(by_kernel), LIMIT):
        return f"rise of the counter {memory['group_kills']}, limit {memory['limit']}"
    if not by_kernel:
        return None
    name, peak = COUNTERS[one["version"]], one["peak"] or 0
    told = name in memory["source"] and name in one["text"] and "512.0 MiB" in one["text"] and "held" in one["text"]
    # What it took is at most the limit; what it shares with its parent is charged elsewhere.
    return None if told and 0.8 * LIMIT < peak < 2 * LIMIT else f"peak {peak}: {one['text']}"


def _report(tries: Sequence[Try]) -> Iterator[str]:
    """A table for each interpreter and release."""
    for release in dict.fromkeys((one["datasets"], one["python"], one["method"]) for one in tries):
        here = [one for one in tries if (one["datasets"], one["python"], one["method"]) == release]
        yield f"datasets {release[0]}, Python {release[1]}, {release[2]}, limit {LIMIT // MIB} MiB: right / tries\n"
        yield "| case | cgroup v1 | cgroup v2 | seen |"
        yield "|---|---|---|---|"
        for name, title in CASES.items():
            of_it = [one for one in here if one["case"] == name]
            if of_it:
                counts = [
                    right([one for one in of_it if one["version"] == version], fault_of, "not run")
                    for version in VERSIONS
                ]
                yield f"| {' | '.join([title, *counts, _seen(of_it)])} |"
        yield f"\n{right(here, fault_of)} right.\n"


def _seen(tries: Sequence[Try]) -> str:
    """The figures of the tries, from the least to the most."""
    rises = [one["memory"]["group_kills"] for one in tries if one.get("memory")]
    peaks = [one["peak"] // MIB for one in tries if one.get("memory") and one["peak"]]
    if rises and peaks:
        return f"counter +{_range(rises)}, peak {_range(peaks)} MiB"
    steps = sum("going on with 2 workers" in " ".join(one.get("warnings", ())) for one in tries)
    return f"went on with two workers: {steps}"


def _range(values: Sequence[int]) -> str:
    return str(min(values)) if min(values) == max(values) else f"{min(values)}–{max(values)}"


if __name__ == "__main__":
    sys.exit(main())

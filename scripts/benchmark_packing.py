"""How fast packing is: beside ms-swift 4.6.0's own classes where they are installed, else alone.

    python scripts/benchmark_packing.py [--quick]

- streamed: rows a second after the first pack at 1, 2 and 4 workers, both sides forked, taking turns, medians: at least
  1.3 times theirs, with a training step between two packs (as long as one worker encodes a pack's rows) and without;
- first pack, four workers, a collective up, a template whose module imports torch: at most 0.6 of their time, and at
  most half the memory (PSS of all children);
- map-style: at least 20 times their rows a second, at no lower fill.

Prints a line for each and says where one is short of its goal; exits 1 only where a measurement failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

MEASURES = Path(__file__).parent / "packs" / "measures.py"
MIB = 1 << 20
FASTER, SOONER, LIGHTER, TABLE = 1.3, 0.6, 0.5, 20.0
"""The goals: rows a second, time to the first pack, memory, map-style rows a second; each ours over theirs."""


def measured(*arguments: object) -> Any:  # noqa: ANN401 - JSON
    """One measurement, in an interpreter of its own."""
    command = [sys.executable, "-W", "ignore", str(MEASURES), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def verdict(ours: float, theirs: float | None, goal: float, *, least: bool) -> str:
    """Ours over theirs, and whether that is as it should be."""
    if theirs is None:
        return ""
    ratio = ours / theirs
    met = ratio >= goal if least else ratio <= goal
    return f"; theirs {theirs:,.2f}: {ratio:.2f} ×, {'ok' if met else 'short'} (goal: {'≥' if least else '≤'} {goal:g})"


def streamed(rows: int) -> None:
    """Prints rows a second."""
    for case, found in measured("stream", rows).items():
        workers, kind = case.split()
        ours, theirs = median(found["ours"]), median(found["theirs"]) if "theirs" in found else None
        what = "a step as long as a pack's rows take between packs" if kind == "step" else "packs taken at once"
        print(f"streamed, {workers} workers, {what}: {ours:,.0f} rows/s{verdict(ours, theirs, FASTER, least=True)}")


def first_pack(rows: int, rounds: int, *, beside: bool) -> None:
    """Prints seconds and memory."""
    sides = ("ours", "adopted", "theirs") if beside else ("ours",)
    found: dict[str, list[Any]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            found[side].append(measured("first_pack", rows, side))
    for key, unit, scale, goal in (("seconds", "s", 1, SOONER), ("pss", "MiB", MIB, LIGHTER)):
        middle = {side: median(one[key] for one in ones) / scale for side, ones in found.items()}
        for side in sides[:2]:
            in_place = " in ms-swift's place" if side == "adopted" else ""
            beside_theirs = verdict(middle[side], middle.get("theirs"), goal, least=False)
            print(f"first pack, 4 workers{in_place}, {key}: {middle[side]:.2f} {unit}{beside_theirs}")


def table(rows: int) -> None:
    """Prints rows a second and fill."""
    found = measured("table", rows)
    theirs = found.get("theirs", {})
    for name in ("ours bfd", "ours binpack"):
        rate, fill = found[name]["rate"], found[name]["fill"]
        beside = f", theirs {theirs['fill']:.4f}" if theirs else ""
        line = verdict(rate, theirs.get("rate"), TABLE, least=True)
        print(f"map-style, {rows:,} rows, {name.split()[1]}: {rate:,.0f} rows/s{line}; fill {fill:.4f}{beside}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measures packing, beside ms-swift's own classes where they are.")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    quick = parser.parse_args(arguments).quick
    beside = _swift_is_here()
    if not beside:
        print("ms-swift 4.6.0 is not installed here: only our own figures")
    table(100_000 if quick else 1_000_000)
    streamed(2_000 if quick else 6_000)
    first_pack(500, rounds=1 if quick else 3, beside=beside)
    return 0


def _swift_is_here() -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ms-swift") == "4.6.0"
    except PackageNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())

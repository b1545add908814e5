"""The matrix simulation: every law of the policy on every cell of a million.

    python scripts/matrix_policy.py [--quick] [--json] [--diff OLD.json]

Prints how many cells each reason bound and a digest of all answers, which is the same on every platform and Python.
Exits 1 with the smallest failing cell of each law that is broken. `--diff` says where the answers differ from those of
an earlier `--json`. There is no randomness: two runs of one policy print the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matrix.axes import Labels
from matrix.cells import default_cell
from matrix.laws import LAWS
from matrix.plan import BLOCKS, QUICK_BLOCKS, machines
from matrix.run import Run, run
from matrix.walk import Policy, examine, smallest

FIRST = 12
"""Most differences that are printed one by one."""


def main(arguments: Sequence[str] | None = None, policy: Policy | None = None) -> int:
    """Run the matrix; `policy` is what to run it on, where it is not this package's own."""
    parser = argparse.ArgumentParser(description="Checks every law of the policy on every cell of the matrix.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the cells, spread as evenly")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, for --diff")
    parser.add_argument(
        "--diff", metavar="OLD.json", type=Path, help="say where the answers differ from an earlier run"
    )
    options = parser.parse_args(arguments)
    policy = policy or Policy()
    start = time.process_time()
    seen = run(policy, QUICK_BLOCKS if options.quick else BLOCKS)
    document = as_document(seen, time.process_time() - start)
    print(json.dumps(document, indent=1) if options.json else "\n".join(summary(document)))
    if options.diff:
        print("\n".join(differences(json.loads(options.diff.read_text(encoding="utf-8")), document)))
    for law, labels in sorted(seen.failures.items()):
        print("\n".join(failure(policy, law, labels)), file=sys.stderr)
    return 1 if seen.failures else 0


def as_document(seen: Run, seconds: float) -> dict[str, Any]:
    """The run as JSON values: for each axis and label, how many cells each reason bound, and their workers in all."""
    axes: dict[str, dict[str, dict[str, list[int]]]] = {}
    for (axis, label, binding), figures in sorted(seen.tally.items()):
        axes.setdefault(axis, {}).setdefault(label, {})[binding] = figures
    bindings: dict[str, int] = {}
    for counts in axes["site"].values():
        for binding, (cells, _) in counts.items():
            bindings[binding] = bindings.get(binding, 0) + cells
    return {
        "cells": seen.cells,
        "two_step": seen.two_step,
        "seconds": round(seconds, 1),
        "digest": seen.digest,
        "bindings": dict(sorted(bindings.items(), key=lambda item: -item[1])),
        "axes": axes,
        "blocks": seen.blocks,
    }


def summary(document: Mapping[str, Any]) -> list[str]:
    """The result for people."""
    lines = [f"{cells:>9,}  {binding}" for binding, cells in document["bindings"].items()]
    cells, seconds = document["cells"], document["seconds"]
    speed = f"{seconds} s of processor time ({1e6 * seconds / cells:.0f} µs each)"
    return [
        "cells bound by each reason:",
        *lines,
        f"{cells:>9,}  cells, and {document['two_step']:,} two-step cells, in {speed}",
        f"digest {document['digest']}",
    ]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Where the answers of two runs differ: by axis value and reason, and the first blocks of cells."""
    if old["digest"] == new["digest"]:
        return ["No answer differs."]
    if old["cells"] != new["cells"]:
        return [f"Not comparable: {old['cells']:,} cells before, {new['cells']:,} now."]
    lines = []
    for axis, labels in new["axes"].items():
        for label, now in labels.items():
            before = old["axes"].get(axis, {}).get(label, {})
            changed = [code for code in sorted({*before, *now}) if before.get(code) != now.get(code)]
            figures = (f"{code} {_figures(before.get(code))} → {_figures(now.get(code))}" for code in changed)
            if changed:
                lines.append(f"{axis}={label}: {', '.join(figures)}")
    blocks = [
        number for number, pair in enumerate(zip(old["blocks"], new["blocks"], strict=True)) if pair[0] != pair[1]
    ]
    lines.append(f"{len(blocks)} of {len(new['blocks'])} blocks differ; the machines of the first:")
    lines.extend(f"  block {number}: {in_text(machines(number)[-1][1])}" for number in blocks[:FIRST])
    return ["Cells and workers by binding reason, where they differ:", *lines]


def _figures(figures: Sequence[int] | None) -> str:
    cells, workers = figures or (0, 0)
    return f"{cells}/{workers}"


def in_text(labels: Labels) -> str:
    """What of `labels` is not at its default."""
    defaults = default_cell()
    return ", ".join(f"{axis}={label}" for axis, label in labels.items() if label != defaults[axis]) or "all defaults"


def failure(policy: Policy, law: int, labels: Labels) -> list[str]:
    """A broken law with the smallest cell that breaks it."""
    cell = smallest(policy, labels, law)
    broken, decision = examine(policy, cell)
    bounds = ", ".join(f"{reason.code.value} {reason.limit}" for reason in decision.reasons)
    return [
        f"Law {law} is broken: {LAWS[law]}",
        f"  cell: {in_text(cell)}",
        f"  seen: {broken.get(law, 'only beside its neighbours in the plan')}",
        f"  decision: {decision.workers} workers by {decision.start_method}; {bounds}",
    ]


if __name__ == "__main__":
    sys.exit(main())

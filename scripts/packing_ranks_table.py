"""The packing ranks table: several ranks under torchrun, of which few iterate, and whose rank 0 may fail.

    python scripts/packing_ranks_table.py [--quick] [--ranks N]

- Every rank makes a streamed data set, rank 0 alone iterates, then rank 0 and the last one: those that iterate have
  their workers, the others start no process, and none is left after `close`.
- One layout for all ranks, made by rank 0; where rank 0 fails, it raises its own error and the others one that says so,
  at once, and they go on in step.
- An error of rank 0 that nobody catches ends all ranks.

Eight ranks by a real torchrun with gloo, two with --quick. Prints a line for each, and exits 1 where one is wrong.
Without torch it says so, and exits 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil

RANKS, QUICK_RANKS = 8, 2
SECONDS = 150.0
"""Long past eight imports of torch on two busy cores: what is not over by then hangs."""
AT_ONCE = 10.0
"""Seconds that a rank may wait for the word that rank 0 failed, on a busy machine; a lost one waits for 30 minutes."""
PROGRAM = Path(__file__).parent / "packs" / "ranks.py"
Seen = dict[str, Any]


class Run(NamedTuple):
    """One run of all ranks.

    Attributes:
        status: torchrun's exit status; `None` where it had to be ended.
        seconds: it took.
        ranks: what each rank saw.
        error: the end of what was written to standard error.
    """

    status: int | None
    seconds: float
    ranks: list[Seen]
    error: str


def run(what: str, ranks: int) -> Run:
    """Starts all ranks and waits for their end."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command += [str(PROGRAM), what, folder]
        begun = time.monotonic()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603 - ours
        try:
            error, status = process.communicate(timeout=SECONDS)[1], process.returncode
        except subprocess.TimeoutExpired:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            error, status = process.communicate()[1], None
        files = sorted(Path(folder).glob("*.json"))
        seen = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        return Run(status, time.monotonic() - begun, seen, error[-2000:])


def only_iterating(found: Run, case: str, iterating: set[int]) -> bool:
    """Whether the ranks that iterate have workers and the same packs, the others nothing, and none is left."""
    packs = found.ranks[0][case]["packs"]
    for one in found.ranks:
        seen = one[case]
        if one["rank"] in iterating:
            right = packs and seen["packs"] == packs and seen["workers"] in {1, 2} and not seen["here"]
        else:
            right = not seen["packs"] and seen["started"] == 0
        if not right or seen["left"]:
            return False
    return True


def one_layout(found: Run) -> bool:
    """Whether all ranks have the layout of rank 0, also after a failure."""
    return all(one["layout"] == found.ranks[0]["layout"] and one["after"] for one in found.ranks)


def failure_everywhere(found: Run) -> bool:
    """Whether rank 0 had its own error, and the others word of it."""
    words = ["rank 0 could not pack" in str(one["failing"]["error"]) for one in found.ranks]
    named = all("the length of row 600 is -1" in str(one["failing"]["error"]) for one in found.ranks)
    soon = all(one["failing"]["seconds"] < AT_ONCE for one in found.ranks)
    return named and soon and words == [one["rank"] != 0 for one in found.ranks]


def nothing_left(found: Run) -> bool:
    """Whether no rank is there any more."""
    return not any(psutil.pid_exists(one["pid"]) for one in found.ranks)


def rows(ranks: int) -> list[tuple[str, bool, Run]]:
    """Every line of the table: what, whether it is right, and in which run."""
    caught, uncaught = run("caught", ranks), run("uncaught", ranks)
    complete = caught.status == 0 and len(caught.ranks) == ranks
    checks: list[tuple[str, Callable[[], bool]]] = [
        ("rank 0 alone iterates: no other rank starts a process", lambda: only_iterating(caught, "one", {0})),
        ("rank 0 and the last iterate: they alone", lambda: only_iterating(caught, "two", {0, ranks - 1})),
        ("one layout on all ranks, also after a failure", lambda: one_layout(caught)),
        ("rank 0 cannot pack: all ranks raise", lambda: failure_everywhere(caught)),
        ("all ranks end", lambda: nothing_left(caught)),
    ]
    lines = [(text, complete and check(), caught) for text, check in checks]
    ended = uncaught.status not in {None, 0} and len(uncaught.ranks) == ranks and nothing_left(uncaught)
    return [*lines, ("rank 0 cannot pack, uncaught: all ranks end", ended, uncaught)]


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RANKS} ranks")
    parser.add_argument("--ranks", type=int, help=f"how many (default: {RANKS})")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed here, and ranks are started by it: nothing to do")
        return 0
    ranks = options.ranks or (QUICK_RANKS if options.quick else RANKS)
    found = rows(ranks)
    print(f"| {ranks} ranks | | seconds of the run |\n|---|---|---|")
    for text, right, one in found:
        print(f"| {text} | {'right' if right else 'WRONG'} | {one.seconds:.1f} |")
    for text, right, one in found:
        if not right:
            print(f"WRONG {text}: status {one.status}\n{one.ranks}\n{one.error}", file=sys.stderr)
    return 0 if all(right for _, right, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())

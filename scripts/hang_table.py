"""The hang table: where plain `datasets` waits for ever or shows another error, beside the same inside a scope of ours.

    python scripts/hang_table.py [--quick] [--tries N] [--python PATH …]

Prints, for the `datasets` of each interpreter, a Markdown table of what was raised and how long after the event. Exits
1 where ours was wrong, later than five seconds, or left a process running.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dying.programs import lines_of

Try = dict[str, Any]


class Situation(NamedTuple):
    """What happens, and what is to come out of it inside a scope.

    Attributes:
        title: what happens.
        error: type of the exception; `None` where the rows are to come.
        verdict: its verdict.
        text: what its text has in it.
    """

    title: str
    error: str | None
    verdict: str | None = None
    text: str = ""


SITUATIONS = {
    "idle": Situation("idle worker killed while another works", "WorkerDied", "killed"),
    "receiving": Situation("worker killed while it receives a large task", "WorkerDied", "killed"),
    "one-way": Situation("exception that pickles but does not unpickle", "RuntimeError", text="OneWay: odd"),
    "import": Situation("map while its module is being imported", None),
    "export": Situation("`to_json` worker killed", "WorkerDied", "killed"),
    "queued": Situation("worker killed while tasks are queued", "WorkerDied", "killed"),
    "ctrl-c": Situation("Ctrl-C", "KeyboardInterrupt"),
    "manager": Situation("manager killed", "WorkerDied", "manager-died"),
    "hidden": Situation("exception in one shard, then a death in another", "ValueError", text="a row"),
}
SIDES = ("plain", "ours")
METHODS = ("fork", "spawn", "forkserver")
SECONDS_OURS = 30.0
"""After which ours is ended too: it has hung."""


def main() -> int:
    """Run the tries, print the tables."""
    options = _options()
    cut = options.cut or (4.0 if options.quick else 20.0)
    # A fresh interpreter reads its modules too, so that nobody can tell by what it has read when a task arrives.
    names = [name for name in options.situations if options.method == "fork" or name != "receiving"]
    words = [",".join(names), ",".join(SIDES), str(1 if options.quick else options.tries)]
    faults = []
    for python in options.python:
        arguments = [*words, options.method, str(cut), str(SECONDS_OURS)]
        seconds = 60 + len(names) * int(words[2]) * (cut + SECONDS_OURS + 10)
        tries = list(lines_of(python, "hangs", arguments, seconds))
        print("\n".join(_table(tries, cut)))
        ours = [one for one in tries if one["side"] == "ours"]
        wrong = [(one, fault) for one in ours if (fault := fault_of(one, options.within))]
        print(f"\nOurs: {len(ours) - len(wrong)} of {len(ours)} right.\n", flush=True)
        faults += wrong
    for one, fault in faults:
        place = f"datasets {one['datasets']}, Python {one['python']}, {one['method']}"
        print(f"WRONG {place}: {SITUATIONS[one['situation']].title}: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares plain `datasets` with a scope of ours where pools go wrong.")
    parser.add_argument("--quick", action="store_true", help="one try each; plain is cut off after 4 seconds")
    parser.add_argument("--tries", type=int, default=12, help="of each situation, on each side (12)")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters, each with its `datasets`")
    parser.add_argument("--method", choices=METHODS, default="fork", help="how the workers are started (fork)")
    parser.add_argument("--situations", nargs="+", default=list(SITUATIONS), choices=SITUATIONS)
    parser.add_argument("--cut", type=float, help="seconds after which a try of plain `datasets` is ended (20)")
    parser.add_argument("--within", type=float, default=5.0, help="seconds from the event to our error (5)")
    return parser.parse_args()


def fault_of(one: Try, within: float) -> str | None:
    """What is wrong with a try of ours; `None` where nothing is."""
    if one["hung"] or one["lost"]:
        return "hangs" if one["hung"] else "no outcome"
    wanted = SITUATIONS[one["situation"]]
    if (one["error"], one["verdict"]) != (wanted.error, wanted.verdict) or wanted.text not in one["text"]:
        return f"{one['error']}, {one['verdict']} in place of {wanted.error}, {wanted.verdict}: {one['text']}"
    if one["seconds"] is None or one["seconds"] > within:
        return f"came {one['seconds']} s after the event"
    left = [*one["left"], *one["later"]]
    return f"left running: {'; '.join(left)}" if left else None


def _table(tries: Sequence[Try], cut: float) -> Iterator[str]:
    """Each situation, plain beside ours."""
    about = tries[0]
    yield f"datasets {about['datasets']}, Python {about['python']}, {about['method']}\n"
    yield "| situation | plain `datasets` | inside `dnp.workers()` |"
    yield "|---|---|---|"
    for name, situation in SITUATIONS.items():
        sides = [[one for one in tries if (one["situation"], one["side"]) == (name, side)] for side in SIDES]
        if sides[0]:
            yield f"| {situation.title} | {' | '.join(_summary(side, cut) for side in sides)} |"


def _summary(tries: Sequence[Try], cut: float) -> str:
    """What came out of the tries of one side: each outcome with its count and its longest time."""
    counts = Counter(_word(one) for one in tries)
    parts = []
    for word, count in counts.most_common():
        times = [one["seconds"] for one in tries if _word(one) == word and one.get("seconds") is not None]
        after = f" after {max(times):.1f} s" if times else f" (ended after {cut:.0f} s)"
        parts.append(f"{word}{after}" + (f", {count} of {len(tries)}" if len(tries) > 1 else ""))
    leaks = sum(bool(one.get("left") or one["later"]) for one in tries)
    if leaks:
        parts.append("workers left running" + (f", {leaks} of {len(tries)}" if len(tries) > 1 else ""))
    return "; ".join(parts)


def _word(one: Try) -> str:
    if one["hung"] or one["lost"]:
        return "**hangs**" if one["hung"] else "no outcome"
    if one["error"] is None:
        return "the rows, made in this process" if one["situation"] == "import" else "no error"
    return f"`{one['error']}`" + (f" ({one['verdict']})" if one["verdict"] else "")


if __name__ == "__main__":
    sys.exit(main())

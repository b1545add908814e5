"""The demo: a real tokenizing map, with the worker count that the policy chose from this machine, and why.

One job: to show the library at work in a minute, on any machine, without a network. The data set is made on the spot
and memory-mapped from disk, as a training run's would be.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dataset_num_proc import api, report
from dataset_num_proc.errors import WorkerDied

if TYPE_CHECKING:
    from datasets import Dataset

SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in ("a", "e", "i", "o", "u", "ou", "ai")]
WORDS_PER_ROW = 80
FATAL_ROW = 3
WORD = re.compile(r"\w+|[^\w\s]")


def made_up_rows(count: int) -> Iterator[dict[str, str]]:
    """`count` rows of made-up text, the same every time."""
    chance = random.Random(20)  # noqa: S311 - text, not secrets
    for _ in range(count):
        words = ("".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(WORDS_PER_ROW))
        yield {"text": " ".join(words) + "."}


class Tokenizer:
    """Greedy longest match against the commonest pieces of a sample: a Python function, as people write themselves."""

    def __init__(self, sample: list[str], size: int = 4000, longest: int = 6) -> None:
        """Learn the `size` commonest pieces of `sample`, of up to `longest` letters."""
        pieces: Counter[str] = Counter()
        for text in sample:
            for word in WORD.findall(text):
                pieces.update(
                    word[start:end]
                    for start in range(len(word))
                    for end in range(start + 1, min(start + longest, len(word)) + 1)
                )
        self.longest = longest
        self.ids = {piece: number for number, (piece, _) in enumerate(pieces.most_common(size), start=1)}

    def __call__(self, row: dict[str, Any]) -> dict[str, list[int]]:
        """Token ids of one row; 0 stands for a letter that no piece covers."""
        ids = []
        for word in WORD.findall(row["text"]):
            start = 0
            while start < len(word):
                end = min(start + self.longest, len(word))
                while end > start + 1 and word[start:end] not in self.ids:
                    end -= 1
                ids.append(self.ids.get(word[start:end], 0))
                start = end
        return {"input_ids": ids}


def _timed(dataset: Dataset, tokenizer: Tokenizer, num_proc: int | None) -> tuple[Dataset, float]:
    start = time.perf_counter()
    tokenized = dataset.map(tokenizer, num_proc=num_proc, load_from_cache_file=False, desc=f"num_proc={num_proc}")
    return tokenized, time.perf_counter() - start


def kill_itself(_row: dict[str, Any], number: int) -> None:
    """Sends its own process SIGKILL at one row, as the kernel does to a worker that takes too much memory."""
    if number == FATAL_ROW:
        os.kill(os.getpid(), signal.SIGKILL)


def death_of_a_worker(dataset: Dataset) -> WorkerDied | None:
    """The error for a worker that is killed on purpose; `None` where this machine is given no workers."""
    try:
        with api.workers(2, rows=len(dataset), function=kill_itself) as num_proc:
            if num_proc is not None:  # or it would be this process
                dataset.map(kill_itself, with_indices=True, num_proc=num_proc, desc="a worker is killed")
    except WorkerDied as died:
        return died
    return None


def run(*, rows: int, as_json: bool) -> int:
    """Make the data set, decide, map it as decided and in process, and compare; returns the exit status."""
    try:
        from datasets import Dataset
    except ImportError:
        print("the demo maps a real data set: pip install 'dataset-num-proc[datasets]'", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="dataset-num-proc-demo-") as folder:
        dataset = Dataset.from_generator(made_up_rows, gen_kwargs={"count": rows}, cache_dir=folder)
        tokenizer = Tokenizer(dataset[:500]["text"])
        decision = api.plan(rows=len(dataset), function=tokenizer)
        with api.workers(rows=len(dataset), function=tokenizer) as num_proc:
            tokenized, seconds = _timed(dataset, tokenizer, num_proc)
        alone, seconds_alone = _timed(dataset, tokenizer, None)
        equal = tokenized.data.column("input_ids").equals(alone.data.column("input_ids"))
        figures = {"rows": rows, "tokens": sum(map(len, tokenized["input_ids"])), "equal": equal}
        died = death_of_a_worker(dataset.select(range(min(rows, 100)))) if hasattr(signal, "SIGKILL") else None
    figures |= {"seconds": seconds, "seconds_in_process": seconds_alone, "death": died and died.verdict}
    if as_json:
        print(json.dumps({"decision": report.decision_to_json(decision, "map", num_proc), "demo": figures}, indent=1))
        return 0 if equal else 1
    print(report.in_full(decision, "map", num_proc))
    print(f"{rows:,} rows, {figures['tokens']:,} tokens, {'equal' if equal else 'DIFFERENT'} with workers and without")
    print(f"{seconds:.2f} s with num_proc={num_proc}, {seconds_alone:.2f} s in this process")
    print(f"\na worker that is killed on purpose:\n{died or 'this machine is given no workers'}")
    return 0 if equal else 1

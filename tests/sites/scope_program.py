"""Programs that map a real data set inside a scope, and say as JSON what they saw.

One job: `scope_program.py NAME METHOD` runs the function of that name. A file with a guarded main, as spawn needs it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from importlib import import_module
from typing import Any

import datasets

from dataset_num_proc.machine.apply import applied
from dataset_num_proc.policy.worker_environment import WORKER_VARIABLES

MODULES = ("multiprocess", "multiprocessing")
ROWS = 4


def data() -> Any:  # noqa: ANN401 - `datasets` is untyped here
    """A few rows, in memory, and so without a cache."""
    return datasets.Dataset.from_dict({"row": list(range(ROWS))})


def environment() -> dict[str, list[str | None]]:
    """The variables, as Python and as C have them."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    in_c = {name: getenv(name.encode()) for name in WORKER_VARIABLES}
    return {name: [os.environ.get(name), value.decode() if value else None] for name, value in in_c.items()}


def seen(row: dict[str, Any]) -> dict[str, Any]:
    """What a worker has."""
    handlers = [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    return {**row, "seen": json.dumps({"pid": os.getpid(), "environment": environment(), "handlers": handlers})}


def fails(row: dict[str, Any]) -> dict[str, Any]:
    """A worker's error."""
    raise KeyError(row["row"])


def dies_or_sleeps(row: dict[str, Any]) -> dict[str, Any]:
    """One worker is killed, the other would go on for long."""
    if row["row"] == 0:
        time.sleep(0.5)  # until the other worker has its shard: with tasks queued, `datasets` may raise something else
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return row


def state() -> dict[str, Any]:
    """Of this process, all that a scope or a map changes."""
    pools = [vars(import_module(f"{module}.pool").Pool)["Process"] for module in MODULES]
    return {
        "environment": environment(),
        "mapping": id(os.environ),
        "variables": sorted(os.environ),
        "methods": [import_module(module).get_start_method(allow_none=True) for module in MODULES],
        "handlers": [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)],
        "pools": [*map(id, pools), *(id(import_module(f"{module}.managers").SyncManager.start) for module in MODULES)],
    }


def observe(method: str) -> dict[str, Any]:
    """A map that works and one that fails, with the state before, inside and after."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
    before, error = state(), None
    with applied(workers=2, cpus=16, start_method=method):
        rows = data().map(seen, num_proc=2)["seen"]
        inside = state()
    after = state()
    try:
        with applied(workers=2, cpus=16, start_method=method):
            data().map(fails, num_proc=2)
    except KeyError as caught:
        error = str(caught)
    return {
        "workers": [json.loads(row) for row in rows],
        "here": os.getpid(),
        "error": error,
        "before": before,
        "inside": inside,
        "after": after,
        "after_error": state(),
    }


def death(method: str) -> dict[str, Any]:
    """C49: a parent whose SIGTERM handler only logs, and a worker that is killed while another is busy."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with applied(workers=2, cpus=2, start_method=method):
            data().map(dies_or_sleeps, num_proc=2)
    except RuntimeError as error:
        return {"error": str(error), "children": len(import_module("multiprocess").active_children())}
    return {}


def tokenize(method: str) -> dict[str, Any]:
    """C11: a tokenizer whose threads ran in the parent, then in workers."""
    tokenizers = import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))  # noqa: S106 - a word
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    text = ["a b " * 50] * 500
    before = [len(encoding.ids) for encoding in tokenizer.encode_batch(text)]
    state_before = state()

    def encode(batch: dict[str, Any]) -> dict[str, Any]:
        return {"ids": [encoding.ids for encoding in tokenizer.encode_batch(batch["text"])]}

    with applied(workers=2, cpus=2, start_method=method):
        mapped = datasets.Dataset.from_dict({"text": text}).map(encode, batched=True, num_proc=2)
    state_after = state()
    same = [len(ids) for ids in mapped["ids"]] == before == [len(row.ids) for row in tokenizer.encode_batch(text)]
    return {"same": same, "before": state_before, "after": state_after}


PROGRAMS = {program.__name__: program for program in (observe, death, tokenize)}

if __name__ == "__main__":
    datasets.disable_progress_bars()
    _, name, start_method = sys.argv
    sys.stdout.write(json.dumps(PROGRAMS[name](start_method)) + "\n")

"""Workers that do nothing, and workers that only look so."""

from __future__ import annotations

import pytest

from tests.capabilities import needs_datasets, needs_linux
from tests.scripts import run

PROGRAM = """
import json, os, signal, sys, tempfile, threading, time
import datasets
from tests.left_running import left_running
from dataset_num_proc import watch
datasets.disable_progress_bars()
lock = threading.Lock()
folder = tempfile.mkdtemp()

def locked(row, index):
    with lock:
        return {"y": index}

def stopped(row, index):
    if index == 7:
        os.kill(os.getpid(), signal.SIGSTOP)
    return {"y": index}

def writing(row, index):
    with open(f"{folder}/{index}", "w") as file:
        file.write("x")
    time.sleep(0.9)
    return {"y": index}

def computing(row, index):
    begun = time.monotonic()
    while index == 0 and time.monotonic() - begun < 4:
        pass
    return {"y": index}

def elsewhere(row, index):
    if index == 0:
        os.system(f"{sys.executable} -c 'import time; t = time.monotonic()\\nwhile time.monotonic() - t < 4: pass'")
    return {"y": index}

function = globals()[sys.argv[1]]
rows = datasets.Dataset.from_dict({"x": list(range(8))})
if function is locked:
    lock.acquire()
before = signal.getsignal(signal.SIGUSR1)
try:
    with watch(stall_timeout=1.5):
        rows.map(function, with_indices=True, num_proc=2)
    said = ["fine", None, None]
except RuntimeError as error:
    said = [type(error).__name__, error.verdict.value, str(error)]
print(json.dumps([said, left_running(), signal.getsignal(signal.SIGUSR1) == before]))
"""

pytestmark = [needs_linux, needs_datasets]


def outcome(function: str) -> list[str | None]:
    """What comes out; nothing is left running, and the signal is as it was."""
    said, left, same = run("-c", PROGRAM, function).json()
    assert (left, same) == ([], True)
    return list(said)


def test_a_lock_that_was_held_at_the_fork() -> None:
    """It is never given back in the workers: they are named with the line that waits (C06)."""
    kind, verdict, text = outcome("locked")
    assert (kind, verdict) == ("WorkerStalled", "stalled")
    assert "in locked" in (text or "")


def test_a_worker_that_is_stopped() -> None:
    """It is told from one that waits, and is ended although it cannot take SIGTERM."""
    kind, _, text = outcome("stopped")
    assert kind == "WorkerStalled"
    assert "stopped by a signal" in (text or "")


@pytest.mark.parametrize("function", ["writing", "computing", "elsewhere"])
def test_a_slow_worker_is_not_stuck(function: str) -> None:
    """Neither one that writes now and then, nor one that computes, in itself or in a program that it started."""
    assert outcome(function) == ["fine", None, None]

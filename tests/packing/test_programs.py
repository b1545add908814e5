"""Programs with packing workers: started as people start them, and ended in every way that a program ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.capabilities import needs_linux
from tests.scripts import Finished, run

HEAD = """
import json, os, signal, sys, threading, time
from dataset_num_proc.packing import EncoderPool
from tests.left_running import left_running
from tests.packing import encoders
from tests.values import machine
"""

UNGUARDED = """
with open("started", "a") as file:
    file.write("once\\n")
pool = EncoderPool(encoders.encode, workers=2, start_method=sys.argv[1], snapshot=machine())
rows = [one.value["row"] for one in pool.encode(range(50))]
pool.close()
print(json.dumps([rows == list(range(50)), left_running()]))
"""

ENCODER_IN_MAIN = """
def encode(row):
    return row + 1
{guard}
    pool = EncoderPool(encode, workers=2, start_method="spawn", snapshot=machine())
    print(json.dumps([one.value for one in pool.encode(range(3))]))
"""

CTRL_C = """
threading.Timer(0.7, os.killpg, (0, signal.SIGINT)).start()
pool = EncoderPool(encoders.slow, workers=2, start_method="fork", snapshot=machine())
try:
    for one in pool.encode(range(10_000)):
        pass
except KeyboardInterrupt:
    print(json.dumps(left_running()))
"""

NOT_CLOSED = """
pool = EncoderPool(encoders.slow, workers=2, start_method="fork", snapshot=machine())
outcomes = pool.encode(range(10_000))
next(outcomes)
print(json.dumps(left_running()))
"""

FORKED = """
pool = EncoderPool(encoders.pid_of, workers=2, start_method="fork", snapshot=machine())
outcomes = pool.encode(range(100))
mine = {next(outcomes).value[1] for _ in range(10)}
reader, writer = os.pipe()
if os.fork() == 0:
    theirs = [one.value for one in pool.encode(range(20))]
    try:
        for one in outcomes:  # those of the message that was just taken are here, and no more
            pass
    except RuntimeError as error:
        theirs.append(str(error))
    pool.close()
    os.write(writer, json.dumps(theirs).encode())
    os._exit(0)
os.close(writer)
os.wait()
theirs = json.loads(os.read(reader, 1 << 16))
rest = [one.value[0] for one in outcomes]
pool.close()
apart = not mine & {pid for _, pid in theirs[:-1]}
print(json.dumps([rest == list(range(10, 100)), [row for row, _ in theirs[:-1]], theirs[-1], apart, left_running()]))
"""

PARENT = """
pool = EncoderPool(encoders.slow, workers=2, start_method=sys.argv[1], snapshot=machine())
outcomes = pool.encode(range(10_000))
next(outcomes)
print(json.dumps(left_running()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def program(text: str, *arguments: str, folder: Path) -> Finished:
    """What a script with this text does, as a file in a folder of its own."""
    path = folder / "train.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return run(path, *arguments, folder=folder)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_unguarded_script_runs_once(method: str, tmp_path: Path) -> None:
    """A script without a guard, whose encoder lives elsewhere, works: workers do not import it."""
    assert program(UNGUARDED, method, folder=tmp_path).json() == [True, []]
    assert (tmp_path / "started").read_text(encoding="utf-8") == "once\n"


def test_encoder_in_the_main_script(tmp_path: Path) -> None:
    """An encoder in the main script works where that is guarded; else it is refused with the line to guard."""
    guarded = ENCODER_IN_MAIN.format(guard='if __name__ == "__main__":')
    assert program(guarded, folder=tmp_path).json() == [1, 2, 3]
    done = program(ENCODER_IN_MAIN.format(guard="if True:"), folder=tmp_path)
    assert done.status == 1
    line = len(HEAD.splitlines()) + 5
    assert "WorkerStartFailed" in done.err
    assert f"put train.py, line {line} and what follows, under `if __name__" in done.err


def test_encoder_at_a_prompt(tmp_path: Path) -> None:
    """An encoder that was typed or piped in reaches a fresh interpreter by value, with the globals that it reads."""
    text = HEAD + "PLUS = 1\n" + ENCODER_IN_MAIN.format(guard="if 1:").replace("row + 1", "row + PLUS")
    assert run("-", stdin=text, folder=tmp_path).json() == [1, 2, 3]


def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    """Ctrl-C, which reaches the workers too, is a KeyboardInterrupt here, and leaves nothing running."""
    done = program(CTRL_C, folder=tmp_path)
    assert done.json() == []
    assert "Traceback" not in done.err  # no worker has anything to say


def test_a_pool_that_nobody_closes(tmp_path: Path) -> None:
    """A program may end in the middle of an iteration: its workers end with it."""
    pids = program(NOT_CLOSED, folder=tmp_path).json()
    assert len(pids) == 2
    assert not any(_alive(pid) for pid in pids)


def test_forked_process_has_workers_of_its_own(tmp_path: Path) -> None:
    """A forked copy of a process with a pool starts its own workers, and takes nothing from its parent's."""
    rest, theirs, refusal, apart, left = program(FORKED, folder=tmp_path).json()
    assert (rest, theirs, apart, left) == (True, list(range(20)), True, [])
    assert "another process" in refusal


@needs_linux
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_end_with_a_killed_parent(method: str, tmp_path: Path) -> None:
    """Where the parent is killed its workers end within two seconds, those in the middle of a row too."""
    done = program(PARENT, method, folder=tmp_path)
    assert done.status == -signal.SIGKILL
    pids = eval(done.out)  # noqa: S307 - a list of numbers that our own program printed
    assert len(pids) == 2
    end = time.monotonic() + 2
    while any(_alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return sys.platform != "linux" or "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")

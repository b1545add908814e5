"""Workers and managers that cannot start: the child's own word comes out, in the place of an empty EOFError."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.capabilities import needs_datasets, needs_linux
from tests.scripts import Finished, run

SCRIPT = """
import sys
import datasets, multiprocess
from dataset_num_proc import watch
datasets.disable_progress_bars()
multiprocess.set_start_method(sys.argv[-1], force=True)
def same(row):
    return row
with watch():
    datasets.Dataset.from_dict({"x": [1, 2, 3, 4]}).map(same, num_proc=2)
"""

DIES = """
import os, signal, sys
import multiprocess
if __name__ == "__mp_main__" and sys.argv[-1] in multiprocess.current_process().name:
    os.kill(os.getpid(), signal.SIGKILL)
import datasets
from dataset_num_proc import watch
def same(row):
    return row
if __name__ == "__main__":
    multiprocess.set_start_method(sys.argv[-2])
    multiprocess.set_forkserver_preload([])  # from Python 3.14 on the server has imported this file for its workers
    datasets.disable_progress_bars()
    with watch():
        datasets.Dataset.from_dict({"x": [1, 2, 3, 4]}).map(same, num_proc=2)
"""

pytestmark = [needs_linux, needs_datasets]


def last_lines(done: Finished) -> str:
    """The error that the program itself ended with: what its children say stands before it."""
    assert done.status == 1
    return done.err.rpartition("dataset_num_proc.errors.")[2]


def test_an_unguarded_main(tmp_path: Path) -> None:
    """C20: fresh interpreters would run the script again; the message shows the guard."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    text = last_lines(run(script, "spawn"))
    assert text.startswith("WorkerStartFailed")
    assert "bootstrapping phase" in text
    assert 'if __name__ == "__main__":' in text


def test_a_main_from_standard_input() -> None:
    """C22: there is no file that a fresh interpreter could import."""
    text = last_lines(run("-", "spawn", stdin=SCRIPT))
    assert text.startswith("WorkerStartFailed")
    assert "import failed" in text
    assert "<stdin>" in text


def test_a_long_folder_for_temporary_files(tmp_path: Path) -> None:
    """C90: the manager's socket does not fit there; the message says what to set."""
    folder = tmp_path / ("scratch" * 16)
    folder.mkdir()
    finished = run("-c", SCRIPT, "fork", environ={"TMPDIR": str(folder)})
    if sys.version_info >= (3, 14):  # looks for a shorter folder by itself
        assert finished.status == 0
        return
    text = last_lines(finished)
    assert text.startswith("WorkerStartFailed")
    assert "set TMPDIR to a short path" in text


@pytest.mark.parametrize(
    ("method", "who", "role", "word"),
    [
        ("spawn", "Manager", "Manager", "manager died"),
        ("forkserver", "PoolWorker", "Worker", "killed"),
    ],
)
def test_killed_while_it_starts(method: str, who: str, role: str, word: str, tmp_path: Path) -> None:
    """It is what its status says, and no failed start: all that the parent gets is the end of a pipe."""
    script = tmp_path / "script.py"
    script.write_text(DIES)
    text = last_lines(run(script, method, who))
    assert text.startswith(f"WorkerDied: {role} ")
    assert text.splitlines()[0].endswith(f"was ended by signal 9 (SIGKILL): {word}")

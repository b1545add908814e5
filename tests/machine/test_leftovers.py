"""Temporary files of failed workers: ours go, everybody else's stay."""

from __future__ import annotations

import tempfile
import threading
from importlib import import_module
from pathlib import Path

import pytest

from dataset_num_proc.machine.leftovers import removed_on_failure
from tests.capabilities import needs_linux

pytestmark = needs_linux


def write(folder: str) -> str:
    """In a worker: what `datasets` does at the start of a shard."""
    with tempfile.NamedTemporaryFile("wb", dir=folder, delete=False) as file:
        return Path(file.name).name


def written(folder: Path, method: str = "fork") -> str:
    """The name of a file that a worker of a new pool has written."""
    with import_module("multiprocess").get_context(method).Pool(1) as pool:
        name = pool.apply(write, (str(folder),))
        assert isinstance(name, str)
        return name


def names(folder: Path) -> set[str]:
    """What is in a folder."""
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_failure_takes_its_files_along(tmp_path: Path, method: str) -> None:
    """What workers wrote in a block that fails is removed, and the error is the block's own; other files stay."""
    stranger = write(str(tmp_path))
    before = vars(import_module("multiprocess.pool").Pool)["Process"]
    own = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught, removed_on_failure(lambda: [str(tmp_path)]):  # noqa: PT012 - one block
        assert written(tmp_path, method) in names(tmp_path)
        here = write(str(tmp_path))
        raise own
    assert caught.value is own
    assert names(tmp_path) == {stranger, here}
    assert vars(import_module("multiprocess.pool").Pool)["Process"] is before


def test_success_takes_nothing(tmp_path: Path) -> None:
    """Where the block succeeds its files are somebody's result."""
    with removed_on_failure(lambda: [str(tmp_path)]):
        name = written(tmp_path)
    assert names(tmp_path) == {name}


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    """A folder that was never made, or has gone, holds nothing, and the error is still the block's own."""
    with pytest.raises(ValueError, match="mine"), removed_on_failure(lambda: [str(tmp_path / "gone")]):
        raise ValueError("mine")  # noqa: EM101 - what is tested


def test_another_threads_files_stay(tmp_path: Path) -> None:
    """Two threads that write into one folder at the same time have a mark each, and a failure takes its own alone."""
    wrote, failed = threading.Event(), threading.Event()
    theirs: list[str] = []

    def succeeds() -> None:
        with removed_on_failure(lambda: [str(tmp_path)]):
            theirs.append(written(tmp_path))
            wrote.set()
            failed.wait(20)

    def fails() -> None:
        with removed_on_failure(lambda: [str(tmp_path)]):
            # In turn: two threads that fork at the same moment may leave a lock held in a child.
            assert wrote.wait(20)
            assert written(tmp_path) in names(tmp_path)
            raise ValueError("mine")  # noqa: EM101 - what is tested

    thread = threading.Thread(target=succeeds)
    thread.start()
    with pytest.raises(ValueError, match="mine"):
        fails()
    failed.set()
    thread.join()
    assert names(tmp_path) == set(theirs)
    assert import_module("multiprocess.pool").Pool.Process.__module__ == "multiprocess.pool"

"""What workers and managers do first: signals, and no life after their parent's; in real processes of both modules."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest

from dataset_num_proc.machine.children import prepared
from tests.capabilities import needs_linux
from tests.scripts import ROOT, run

MODULES = ("multiprocess", "multiprocessing")

in_both = pytest.mark.parametrize("module", MODULES)


@pytest.fixture
def _own_handlers() -> Iterator[None]:
    """Handlers of this process that would keep a child of it alive."""
    before = [signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)]
    yield
    for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
        signal.signal(number, handler)


def handlers(_: object = None) -> list[str]:
    """What this process does on SIGTERM and SIGINT."""
    return [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]


def fork(module: str) -> Any:  # noqa: ANN401 - a context of either module
    """The module's context that inherits the most."""
    return import_module(module).get_context("fork")


def sealed(module: str) -> list[object]:
    """What `prepared` replaces."""
    pool, manager = import_module(f"{module}.pool").Pool, import_module(f"{module}.managers").BaseManager
    return [vars(pool)["Process"], vars(pool)["_repopulate_pool_static"], vars(manager)["start"]]


@needs_linux
@in_both
@pytest.mark.usefixtures("_own_handlers")
def test_a_worker_has_default_signals(module: str) -> None:
    """C49: a forked worker has Python's own handlers and not the parent's, which the parent keeps."""
    own = handlers()
    with prepared(), fork(module).Pool(1) as pool:
        assert pool.apply(handlers) == [str(signal.SIG_DFL), str(signal.default_int_handler)]
    assert handlers() == own


@needs_linux
@in_both
def test_a_worker_goes_on_ignoring_ctrl_c(module: str) -> None:
    """Where the parent ignores SIGINT, as under `nohup`-like launchers, its workers do."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with prepared(), fork(module).Pool(1) as pool:
            assert pool.apply(handlers)[1] == str(signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGINT, before)


@needs_linux
@in_both
@pytest.mark.usefixtures("_own_handlers")
def test_a_manager_keeps_its_own_ways(module: str) -> None:
    """A manager takes SIGTERM by default, and ignores Ctrl-C as it always does; its initializer still runs."""
    reader, writer = os.pipe()
    with prepared():
        manager = import_module(f"{module}.managers").SyncManager(ctx=fork(module))
        manager.start(report, (writer,))
        with manager:
            assert json.loads(os.read(reader, 1000)) == [str(signal.SIG_DFL), str(signal.SIG_IGN)]
            assert manager.dict(a=1).copy() == {"a": 1}
    os.close(reader)
    os.close(writer)


def report(writer: int) -> None:
    """Writes what this process does on signals."""
    os.write(writer, json.dumps(handlers()).encode())


@in_both
def test_the_stock_classes_come_back(module: str) -> None:
    """The classes are the same objects throughout, and have their own methods back afterwards, on errors too."""
    stock, pool = sealed(module), import_module(f"{module}.pool").Pool
    with pytest.raises(KeyError), prepared():
        raise KeyError(all(now is not before for now, before in zip(sealed(module), stock, strict=True)))
    assert all(now is before for now, before in zip(sealed(module), stock, strict=True))
    assert import_module(f"{module}.pool").Pool is pool


@in_both
def test_a_thread_pool_is_left_alone(module: str) -> None:
    """A pool of threads has no processes to prepare: its work still runs here, with this process's handlers."""
    before = signal.getsignal(signal.SIGTERM)
    with prepared(), import_module(f"{module}.pool").ThreadPool(1) as pool:
        assert pool.apply(os.getpid) == os.getpid()
    assert signal.getsignal(signal.SIGTERM) is before


@needs_linux
@in_both
def test_workers_outlive_the_thread_that_started_them(module: str) -> None:
    """The kernel would count a thread's end as a parent's: a pool made by a thread that has ended still works."""
    with prepared():
        with ThreadPoolExecutor(1) as executor:
            pool = executor.submit(fork(module).Pool, 2).result()
        with pool:
            assert pool.map_async(abs, [-1, -2, -3], 1).get(timeout=10) == [1, 2, 3]


@needs_linux
@in_both
def test_replacements_outlive_the_thread_of_the_pool(module: str) -> None:
    """Workers that the pool's own thread started in the place of spent ones leave by themselves, with status 0."""
    with prepared():
        pool = fork(module).Pool(2, maxtasksperchild=1)
        assert pool.map_async(abs, range(8), 1).get(timeout=10) == list(range(8))
        pool.close()
        workers = list(pool._pool)  # noqa: SLF001 - no public name has it
        pool.join()
    assert {worker.exitcode for worker in workers} == {0}


SWALLOWED = """
import multiprocessing, os, signal, time
from dataset_num_proc.machine.children import prepared
signal.signal(signal.SIGTERM, lambda *_: print("swallowed", flush=True))
os.register_at_fork(after_in_child=lambda: time.sleep(0.5))
with prepared():
    pool = multiprocessing.get_context("fork").Pool(1)
    worker = pool._pool[0]
    pool.terminate()
    print("status", worker.exitcode)
"""


@needs_linux
def test_a_worker_that_is_only_starting_can_be_ended() -> None:
    """C49: SIGTERM that comes before the worker has reset the parent's handler still ends it."""
    assert run("-c", SWALLOWED, seconds=10).out.split() == ["status", "-15"]


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and nobody has reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


KILLED = [
    *[(module, method, "main") for module in MODULES for method in ("fork", "spawn", "forkserver")],
    ("multiprocess", "fork", "other"),
    ("multiprocess", "spawn", "other"),
]


@needs_linux
@pytest.mark.parametrize(("module", "method", "thread"), KILLED)
def test_children_die_with_their_parent(module: str, method: str, thread: str) -> None:
    """Workers and manager end when their parent is killed, whichever thread started them and by whatever method."""
    program = Path(__file__).with_name("pool_program.py")
    command = [sys.executable, str(program), module, method, thread]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, start_new_session=True) as process:
        assert process.stdout is not None
        pids = json.loads(process.stdout.readline())
        everything = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        assert len(pids) == 3
        assert set(pids) <= set(everything)
        process.kill()
        process.wait()
        try:
            _, left = psutil.wait_procs([psutil.Process(pid) for pid in everything if alive(pid)], timeout=10)
            assert [left_over for left_over in left if alive(left_over.pid)] == []
        finally:
            for pid in filter(alive, everything):
                os.kill(pid, signal.SIGKILL)

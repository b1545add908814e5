"""What a watch takes hold of, and gives back, whichever thread ends first."""

from __future__ import annotations

import multiprocessing.managers
import multiprocessing.pool
import multiprocessing.spawn
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dataset_num_proc.errors import WorkerDied
from dataset_num_proc.watching import watch
from tests.capabilities import needs_datasets, needs_linux

pytestmark = [needs_linux, needs_datasets]


def held() -> list[object]:
    """What is replaced while a watch is on."""
    pool, manager = vars(multiprocessing.pool.Pool), vars(multiprocessing.managers.BaseManager)
    return [
        pool["_setup_queues"],
        pool["__exit__"],
        manager["__init__"],
        manager["_finalize_manager"],
        multiprocessing.spawn.get_preparation_data,
    ]


def pid_of(_: object) -> int:
    """The worker's pid."""
    return os.getpid()


def test_all_of_it_comes_back() -> None:
    """After nested watches too, and only after the last."""
    before = held()
    with watch():
        inside = held()
        with watch():
            assert held() == inside
        assert held() == inside
    assert held() == before
    assert all(now is not then for now, then in zip(inside, before, strict=True))


def test_threads_end_their_watches_in_any_order() -> None:
    """The last one out gives back what the first one took."""
    before, entered, leave = held(), threading.Event(), threading.Event()

    def other() -> None:
        with watch():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with watch():
        thread.start()
        assert entered.wait(10)
    assert held() != before
    leave.set()
    thread.join()
    assert held() == before


def is_watched() -> bool:
    """Whether a pool that is made now, by this thread, is watched: else it has its stock methods alone."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return "_terminate_pool" in vars(pool)


def test_a_pool_of_a_helping_thread() -> None:
    """It is watched, whether the thread was there before the scope or not, unless the scope wants its own alone."""
    with ThreadPoolExecutor(1) as old:
        assert not old.submit(is_watched).result(10)
        with watch(), ThreadPoolExecutor(1) as new:
            assert [old.submit(is_watched).result(10), new.submit(is_watched).result(10), is_watched()] == [True] * 3
        with watch(helpers=False):
            assert [old.submit(is_watched).result(10), is_watched()] == [False, True]
        assert not old.submit(is_watched).result(10)


def test_whose_helper_a_thread_is() -> None:
    """With scopes of two threads, a third's pools belong to neither, and each has its own."""

    def nested(helper: ThreadPoolExecutor) -> list[bool]:
        with watch():
            return [is_watched(), helper.submit(is_watched).result(10)]

    with ThreadPoolExecutor(1) as other, ThreadPoolExecutor(1) as helper, watch():
        assert other.submit(nested, helper).result(10) == [True, False]
        assert helper.submit(is_watched).result(10)


def test_a_death_in_a_helping_thread() -> None:
    """The diagnosis comes out of that thread's call, and pools of others go on."""

    def dies() -> None:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.apply(os._exit, (3,))

    with watch(), ThreadPoolExecutor(1) as helper, multiprocessing.get_context("fork").Pool(1) as pool:
        with pytest.raises(WorkerDied) as caught:
            helper.submit(dies).result(20)
        assert caught.value.verdict == "exited"
        assert pool.map(abs, [-1, -2]) == [1, 2]
        with pytest.raises(KeyError, match="0"):  # an error of the scope's thread is none of the helper's
            raise KeyError(0)


def test_a_pool_outlives_its_watch() -> None:
    """A pool that was made inside goes on to work afterwards, and ends."""
    with watch():
        pool = multiprocessing.get_context("fork").Pool(1)
    assert pool.map(abs, [-1, -2]) == [1, 2]
    pool.close()
    pool.join()


def test_no_thread_and_no_file_stays() -> None:
    """A scope with pools leaves as many threads and open files as there were."""
    with watch(), multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(abs, [1])
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
    with watch(), multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(abs, [1])
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= files  # noqa: PTH208 - a count

"""What a watch takes hold of, and gives back, whichever thread ends first."""

from __future__ import annotations

import multiprocessing.managers
import multiprocessing.pool
import multiprocessing.spawn
import os
import threading

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


def test_a_pool_of_another_thread_is_not_watched() -> None:
    """It has its stock methods."""
    seen: list[bool] = []

    def other() -> None:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            seen.append("_terminate_pool" in vars(pool))

    with watch():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            seen.append("_terminate_pool" in vars(pool))
            assert pool.map(pid_of, [1]) != [os.getpid()]
    assert seen == [False, True]


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

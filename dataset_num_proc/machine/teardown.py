# ruff: noqa: SLF001 - a pool's parts have no public names
"""A pool's end, whatever its workers hold.

One job: to end the workers and the threads of one pool in the place of `Pool._terminate_pool`, always, in a time that
is bounded. It may not look at why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dataset_num_proc.machine import pipes
from dataset_num_proc.machine.members import Member
from dataset_num_proc.machine.processes import is_ending

_SECONDS_FOR_SIGTERM = 1.0
_SECONDS_FOR_SIGKILL = 10.0  # a worker of 100 GiB takes about as long to give them back
_TERMINATE = "TERMINATE"  # the pool module's own word for the state


def taken_down(  # noqa: PLR0913, PLR0917 - the stock function's arguments
    members: list[Member],
    read_over: threading.Event,
    will_not_end: Callable[[list[Member]], None],
    taskqueue: object,  # noqa: ARG001 - from here on the arguments of the stock function
    inqueue: Any,  # noqa: ANN401
    outqueue: Any,  # noqa: ANN401
    pool: object,  # noqa: ARG001
    change_notifier: Any,  # noqa: ANN401
    worker_handler: Any,  # noqa: ANN401
    task_handler: Any,  # noqa: ANN401
    result_handler: Any,  # noqa: ANN401
    cache: object,  # noqa: ARG001
) -> None:
    """Ends the pool: first its workers, so that no lock of theirs counts any more, then its threads.

    The stock teardown takes the lock that idle workers hold while they wait for a task. A worker that is killed there,
    or while it receives a large task, never gives it back, and the teardown waits without end.

    Args:
        members: its workers.
        read_over: tells its reader that nothing more will come.
        will_not_end: called with the workers that SIGTERM does not end, before they are killed.
        taskqueue: this and the others are those of the stock function.
        inqueue: likewise.
        outqueue: likewise.
        pool: likewise.
        change_notifier: likewise.
        worker_handler: likewise.
        task_handler: likewise.
        result_handler: likewise.
        cache: likewise.
    """
    worker_handler._state = task_handler._state = _TERMINATE
    change_notifier.put(None)
    _join(worker_handler)
    end_workers(members, will_not_end)
    pipes.free(outqueue._wlock)
    pipes.empty_while(inqueue._reader, task_handler)
    result_handler._state = _TERMINATE
    with suppress(OSError):
        outqueue._writer.send(None)
    read_over.set()
    _join(result_handler)


def end_workers(members: list[Member], will_not_end: Callable[[list[Member]], None] | None = None) -> None:
    """Ends processes by SIGTERM, then by SIGKILL, and then leaves alone what waits in the kernel for a dead disk."""
    alive = [member for member in members if member.process.is_alive()]
    for member in alive:
        member.process.terminate()
    alive = _joined(alive, _SECONDS_FOR_SIGTERM)
    # They are stopped, or have a handler of their own.
    if will_not_end is not None and (stuck := [member for member in alive if not is_ending(member.process.pid)]):
        will_not_end(stuck)
    for member in alive:
        member.process.kill()
    _joined(alive, _SECONDS_FOR_SIGKILL)
    for member in members:
        member.ended()


def _joined(members: list[Member], seconds: float) -> list[Member]:
    """Those that have not ended within that time."""
    deadline = time.monotonic() + seconds
    for member in members:
        member.process.join(max(0.0, deadline - time.monotonic()))
    return [member for member in members if member.process.is_alive()]


def _join(thread: threading.Thread) -> None:
    if thread is not threading.current_thread():
        thread.join()


def fail_pending(cache: dict[int, Any], error: BaseException) -> None:
    """Has whoever waits for a result of the pool get `error`."""
    for job, result in list(cache.items()):
        with suppress(KeyError):
            if hasattr(result, "_number_left"):
                result._number_left = 1  # a result of many chunks is ready when the last one is
            result._set(getattr(result, "_index", 0), (False, error))
            del cache[job]  # an iterator stays otherwise, and would get the error again

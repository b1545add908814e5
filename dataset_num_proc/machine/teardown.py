# ruff: noqa: SLF001 - a pool's parts have no public names
"""A pool's end, whatever its workers hold.

One job: to end the workers and the threads of one pool in the place of `Pool._terminate_pool`, always, in a time that
is bounded. It may not look at why.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from dataset_num_proc.machine import pipes
from dataset_num_proc.machine.members import Member

_SECONDS_FOR_SIGTERM = 1.0
_TERMINATE = "TERMINATE"  # the pool module's own word for the state


def taken_down(  # noqa: PLR0913, PLR0917 - the stock function's arguments
    members: list[Member],
    read_over: threading.Event,
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
    """
    worker_handler._state = task_handler._state = _TERMINATE
    change_notifier.put(None)
    _join(worker_handler)
    _end_workers(members)
    pipes.free(outqueue._wlock)
    pipes.empty_while(inqueue._reader, task_handler)
    result_handler._state = _TERMINATE
    with suppress(OSError):
        outqueue._writer.send(None)
    read_over.set()
    _join(result_handler)


def _end_workers(members: list[Member]) -> None:
    alive = [member for member in members if member.process.is_alive()]
    for member in alive:
        member.process.terminate()
    deadline = time.monotonic() + _SECONDS_FOR_SIGTERM
    for member in alive:
        member.process.join(max(0.0, deadline - time.monotonic()))
        if member.process.is_alive():  # it is stopped, or has a handler of its own
            member.process.kill()
            member.process.join()
    for member in members:
        member.ended()


def _join(thread: threading.Thread) -> None:
    if thread is not threading.current_thread():
        thread.join()

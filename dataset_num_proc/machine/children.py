"""What a pool's worker, and a manager's process, does first: default signals, and no life after its parent's.

One job: for the length of a scope, to have every pool worker and manager process that starts run `ChildStart` before
anything else, in `multiprocess` (which `Dataset.map` uses) and in `multiprocessing` (which the exports use) alike. It
may not choose how many workers there are, nor look after them once they run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dataset_num_proc.machine.contexts import MODULES
from dataset_num_proc.machine.replaced import replaced
from dataset_num_proc.policy.facts import FORK, FORKSERVER
from dataset_num_proc.policy.worker_environment import WORKER_VARIABLES

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class ChildStart:
    """A process's target, with what the process does before it.

    Holds nothing but what pickles, since under spawn it travels to the child.

    Attributes:
        target: what the process is really for; a manager has nothing more to do here.
        package: the process module that starts it.
        parent: pid of the process that the child must not outlive.
        by_kernel: whether the kernel can see to that: the parent's main thread starts the child itself.
        environment: variables to set first.
    """

    target: Callable[..., Any] | None
    package: str
    parent: int
    by_kernel: bool
    environment: Mapping[str, str]

    @classmethod
    def of(cls, target: Callable[..., Any] | None, package: str, method: str) -> ChildStart:
        """The start of a child that this thread is about to have by `method`."""
        by_fork_server = method == FORKSERVER
        # The kernel takes the *thread* that forked for the parent. A pool's own thread starts the replacements of dead
        # workers and ends before the pool does: by kernel they would be killed with it, perhaps holding the task lock.
        by_kernel = sys.platform == "linux" and not by_fork_server and _on_main_thread()
        # A fork server keeps the environment it was started with, however long ago; the others inherit today's.
        environment = {name: os.environ[name] for name in WORKER_VARIABLES if name in os.environ}
        return cls(target, package, os.getpid(), by_kernel, environment if by_fork_server else {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes on whatever the target takes and gives
        """In the child: gets ready, then does the target's work."""
        os.environ.update(self.environment)
        _default_signals()
        _die_with(self.parent, self.package, by_kernel=self.by_kernel)
        return None if self.target is None else self.target(*args, **kwargs)


@contextmanager
def prepared() -> Iterator[None]:
    """Has the children of pools and managers begin with `ChildStart`, in the whole process, for the scope's length.

    The stock classes stay what they are, only the methods by which they start a process are replaced: a subclass would
    show in type checks and in pickles, and under spawn the child, which has the stock methods, needs the start alone.
    """
    with ExitStack() as stack:
        for package in MODULES:
            pool = import_module(f"{package}.pool").Pool
            manager = import_module(f"{package}.managers").BaseManager
            stack.enter_context(replaced(pool, "Process", staticmethod(_pool_process(pool.Process, package))))
            if sys.platform != "win32":
                held_back = staticmethod(_held_back(pool._repopulate_pool_static))  # noqa: SLF001 - what forks workers
                stack.enter_context(replaced(pool, "_repopulate_pool_static", held_back))
            stack.enter_context(replaced(manager, "start", _manager_start(manager.start, package)))
        yield


def _pool_process(stock: Callable[..., Any], package: str) -> Callable[..., Any]:
    """`Pool.Process`, with a start before the target."""

    def process(ctx: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the stock signature
        kwargs["target"] = ChildStart.of(kwargs.get("target"), package, ctx.get_start_method())
        return stock(ctx, *args, **kwargs)

    return process


def _held_back(stock: Callable[..., None]) -> Callable[..., None]:
    """`Pool._repopulate_pool_static`, with SIGTERM held back from a forked worker until its start lets it through.

    A pool that is taken down while it replaces a dead worker sends SIGTERM to a process that still has the parent's
    handler, which may swallow it: the pool would wait for that worker without end.
    """

    def repopulate(ctx: Any, *args: Any) -> None:  # noqa: ANN401 - the stock signature
        if ctx.get_start_method() != FORK:  # nothing is inherited, and a fork server must not start with a mask
            return stock(ctx, *args)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            return stock(ctx, *args)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return repopulate


def _manager_start(stock: Callable[..., None], package: str) -> Callable[..., None]:
    """`BaseManager.start`, with a start before the initializer: by then a manager ignores Ctrl-C, and it goes on so."""

    def start(  # the stock signature
        self: Any,  # noqa: ANN401 - any manager
        initializer: Callable[..., Any] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        stock(self, ChildStart.of(initializer, package, self._ctx.get_start_method()), initargs)

    return start


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _default_signals() -> None:
    """Python's own handlers, in place of the parent's.

    A forked worker inherits handlers written in Python. One for SIGTERM that returns (a logger, a checkpointer) makes
    the worker outlive the pool's `terminate`, which then waits for it without end.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # Not SIG_DFL: a worker that waits for a task holds the pool's task lock, and must unwind to let go of it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _die_with(parent: int, package: str, *, by_kernel: bool) -> None:
    """Ends this process when `parent` ends, SIGKILL included.

    A worker whose parent was killed would work on to the end of its shard and hold its memory, a manager for ever.
    """
    if by_kernel and ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
        if os.getppid() != parent:  # it died before we asked, and no signal will come
            os._exit(1)
        return
    threading.Thread(target=_follow, args=(parent, package), name="dataset_num_proc parent watch", daemon=True).start()


def _follow(parent: int, package: str) -> None:
    """Waits for the end of `parent`, and ends this process."""
    if sys.platform != "win32" and os.getppid() == parent:
        # Polled, since forked siblings hold the write ends of each other's parent sentinels.
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    else:
        # A fork server's child: the server stays up while any client lives, this process among them. On Windows a
        # parent's pid stays what it was.
        sys.modules[package].parent_process().join()
    os._exit(1)

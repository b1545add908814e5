# ruff: noqa: SLF001 - a pool's parts have no public names
"""Where a watch takes hold of pools and managers that a thread makes, in both process modules.

One job: for as long as any watch is on, to show each new pool and manager to the watch that it belongs to. The classes
stay what they are, and nothing is replaced that `children` replaces: scopes of several threads may end in any order.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from dataset_num_proc.machine.contexts import MODULES
from dataset_num_proc.machine.early_start import EarlyStart
from dataset_num_proc.machine.interrupts import postponed, whole
from dataset_num_proc.machine.replaced import replaced


class Observer(Protocol):
    """A watch, as this module sees it."""

    def adopt_pool(self, pool: Any, package: str) -> None:  # noqa: ANN401 - a pool of either module
        """A pool has its queues, and no worker yet."""

    def leave_pool(self, pool: Any, error: BaseException | None) -> None:  # noqa: ANN401 - a pool of either module
        """The block of a pool has been left, and the pool ended; may raise what belongs in place of `error`."""

    def adopt_manager(self, manager: Any, package: str) -> None:  # noqa: ANN401 - a manager of either module
        """A manager has not been started yet."""

    def end_manager(self, process: Any) -> None:  # noqa: ANN401 - a manager's process
        """A manager is about to be told to end."""

    def early_trace(self) -> EarlyStart | None:
        """What goes to the fresh interpreter that is being started."""


class _Scope(NamedTuple):
    observer: Observer
    pid: int  # a forked child has a copy of its parent's scopes, which are not its own
    helpers: bool


_lock = threading.Lock()
_of_thread: dict[int, _Scope] = {}
_of_pool: weakref.WeakKeyDictionary[Any, Observer] = weakref.WeakKeyDictionary()
_on: list[ExitStack] = []
_scopes = 0


@contextmanager
def observing(observer: Observer, *, helpers: bool = True) -> Iterator[None]:
    """Shows to `observer` the pools and managers that this thread makes, for the scope's length.

    Args:
        observer: the watch.
        helpers: also show it those of threads that have no scope of their own, such as an executor's, as long as no
            other thread has a scope: whose helpers they are cannot be known then.
    """
    global _scopes  # noqa: PLW0603 - what is replaced is global too
    if sys.platform == "win32":  # pipes and signals are others there
        yield
        return
    here = threading.get_ident()
    with _lock:
        if _scopes == 0:
            _on.append(_replaced())
        _scopes += 1
        outer = _of_thread.get(here)
        _of_thread[here] = _Scope(observer, os.getpid(), helpers)
    try:
        yield
    finally:
        with _lock:
            del _of_thread[here]
            if outer is not None:
                _of_thread[here] = outer
            _scopes -= 1
            if _scopes == 0:
                _on.pop().close()


def _observer() -> Observer | None:
    """The watch that what this thread makes belongs to."""
    scopes = {thread: scope for thread, scope in _of_thread.copy().items() if scope.pid == os.getpid()}
    mine = scopes.get(threading.get_ident())
    if mine is not None:
        return mine.observer
    only = next(iter(scopes.values())) if len(scopes) == 1 else None
    return only.observer if only is not None and only.helpers else None


def _replaced() -> ExitStack:
    with ExitStack() as stack:
        for package in MODULES:
            # Managers first: their module keeps the pool class that it sees at import.
            manager = import_module(f"{package}.managers").BaseManager
            pool = import_module(f"{package}.pool").Pool
            process = import_module(f"{package}.process").BaseProcess
            spawn = import_module(f"{package}.spawn")
            stack.enter_context(replaced(process, "start", whole(process.start)))
            stack.enter_context(replaced(pool, "__init__", whole(pool.__init__)))
            stack.enter_context(replaced(pool, "_setup_queues", _setup_queues(pool._setup_queues, package)))
            stack.enter_context(replaced(pool, "__exit__", _exit(pool.__exit__)))
            stack.enter_context(replaced(manager, "__init__", _manager(manager.__init__, package)))
            finalize = staticmethod(_finalize(manager._finalize_manager))
            stack.enter_context(replaced(manager, "_finalize_manager", finalize))
            data = _preparation_data(spawn.get_preparation_data)
            stack.enter_context(replaced(spawn, "get_preparation_data", data))
        return stack.pop_all()
    raise AssertionError  # pragma: no cover - for the type checker: an ExitStack may swallow errors


def _setup_queues(stock: Callable[[Any], None], package: str) -> Callable[[Any], None]:
    def setup_queues(pool: Any) -> None:  # noqa: ANN401 - a pool
        stock(pool)
        observer = _observer()
        if observer is not None:
            _of_pool[pool] = observer
            observer.adopt_pool(pool, package)

    return setup_queues


def _exit(stock: Callable[..., None]) -> Callable[..., None]:
    def leave(pool: Any, kind: object, error: BaseException | None, trace: object) -> None:  # noqa: ANN401 - a pool
        with postponed():
            stock(pool, kind, error, trace)
        observer = _of_pool.pop(pool, None)  # whatever scopes have been opened meanwhile
        if observer is not None:
            observer.leave_pool(pool, error)

    return leave


def _manager(stock: Callable[..., None], package: str) -> Callable[..., None]:
    def init(manager: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the stock signature
        stock(manager, *args, **kwargs)
        observer = _observer()
        if observer is not None:
            observer.adopt_manager(manager, package)

    return init


def _finalize(stock: Callable[..., None]) -> Callable[..., None]:
    def finalize(process: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the stock signature
        for scope in list(_of_thread.values()):  # only the one that has started it will know it
            scope.observer.end_manager(process)
        stock(process, *args, **kwargs)

    return whole(finalize)


def _preparation_data(stock: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    def preparation_data(name: str) -> dict[str, Any]:
        data = stock(name)
        observer = _observer()
        trace = observer.early_trace() if observer is not None else None
        # The reader of this mapping looks up what it knows, and leaves the rest alone.
        return data if trace is None else {**data, "early_trace": trace}

    return preparation_data

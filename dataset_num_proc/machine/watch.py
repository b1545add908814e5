# ruff: noqa: SLF001 - a pool's parts have no public names
"""The live workers of one scope: who ended, how, and what the machine looked like then; made into `Evidence`.

One job: to keep the pools and managers of a scope, and to show what was seen of them to the one who judges. It
never judges, and raises nothing of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dataset_num_proc.machine import memory_evidence, pool_hooks
from dataset_num_proc.machine.chains import cause_of, chain_of
from dataset_num_proc.machine.evidence import of_machine, of_pool, text_of
from dataset_num_proc.machine.members import Member
from dataset_num_proc.machine.observed import MANAGER, EarlyTrace, Observed
from dataset_num_proc.machine.stall import StallWatch
from dataset_num_proc.machine.watched_pool import WatchedPool
from dataset_num_proc.policy.autopsy import Evidence

Judge = Callable[[Evidence, BaseException], BaseException]
"""Makes the exception that stands for the evidence; the second argument is what was raised."""

_SECONDS_FOR_STATUS = 0.2  # a dead process's pipes close before its status can be had
_SECONDS_FOR_START = 2.0


@contextmanager
def watched(judge: Judge, stall_timeout: float | None = None) -> Iterator[Watcher]:
    """Watches the pools that this thread makes, for the scope's length.

    Raises, in place of what the scope raised: what `judge` makes of the evidence, where a worker or a manager died,
    could not start, or all were stuck; the exception that a map's worker sent, where that came first. Inside, the
    block of the pool raises it already.
    """
    watcher = Watcher(judge, stall_timeout, handled=sys.exc_info()[1])
    try:
        with pool_hooks.observing(watcher):
            yield watcher
    except BaseException as error:
        instead = watcher.instead_of(error)
        if instead is None:
            raise
        raise instead from cause_of(instead, error)
    finally:
        watcher.close()


@dataclass
class Watcher:
    """What is known of the pools and managers of one scope."""

    judge: Judge
    stall_timeout: float | None = None
    handled: BaseException | None = None
    evidence: list[Evidence] = field(default_factory=list)
    pools: list[WatchedPool] = field(default_factory=list)
    managers: list[Member] = field(default_factory=list)
    _of_pool: weakref.WeakKeyDictionary[Any, WatchedPool] = field(default_factory=weakref.WeakKeyDictionary)
    _before: memory_evidence.Counters | None = None
    _at_death: dict[int, Evidence] = field(default_factory=dict)
    _folder: str | None = None
    _children: int = 0
    _starting: str | None = None
    _raised: BaseException | None = None

    # --- what the hooks call ------------------------------------------------------------------------------------------

    def adopt_pool(self, pool: Any, package: str) -> None:  # noqa: ANN401 - a pool of either module
        """Begins to watch a pool that has its queues and no worker yet."""
        if self._before is None:
            self._before = memory_evidence.counters()
        number = _dump_signal() if self.stall_timeout is not None else None
        stall = StallWatch(self.stall_timeout, number) if self.stall_timeout is not None else None
        watched_pool = WatchedPool(package, self._next_path, self._first_death, stall, number)
        watched_pool.handled = sys.exc_info()[1]
        watched_pool.adopt(pool)
        self.pools.append(watched_pool)
        self._of_pool[pool] = watched_pool
        stock = pool._repopulate_pool

        def populate() -> None:
            del pool._repopulate_pool  # it holds the pool, which would never be collected
            try:
                stock()
            except OSError as error:
                self._start_failed(watched_pool.start_method, error)
            finally:
                self._starting = None
            watched_pool.begin(pool)

        pool._repopulate_pool = populate

    def adopt_manager(self, manager: Any, package: str) -> None:  # noqa: ANN401 - a manager of either module
        """Begins to watch a manager that has not been started yet."""
        stock = manager.start

        def start(initializer: Callable[..., Any] | None = None, initargs: tuple[Any, ...] = ()) -> None:
            del manager.start
            path = self._next_path()
            try:
                stock(Observed(initializer, package, path, MANAGER), initargs)
            except (EOFError, OSError) as error:
                child = Member(getattr(manager, "_process", None), path, MANAGER)
                self._start_failed(manager._ctx.get_start_method(), error, child)
            finally:
                self._starting = None
            self.managers.append(Member(manager._process, path, MANAGER))

        manager.start = start

    def end_manager(self, process: Any) -> None:  # noqa: ANN401 - a manager's process
        """Notes a manager that ended before it was told to."""
        for member in self.managers:
            if member.process is process and member.code is None:
                if isinstance(sys.exc_info()[1], Exception):
                    process.join(_SECONDS_FOR_STATUS if self._looks_dead(process) else 0)
                member.died = member.ended()

    @staticmethod
    def _looks_dead(process: Any) -> bool:  # noqa: ANN401 - a manager's process
        """Whether a process has nothing open any more: it may still take a moment to have a status."""
        with suppress(OSError):
            return not os.listdir(f"/proc/{process.pid}/fd")  # noqa: PTH208 - names only
        return True

    def early_trace(self) -> EarlyTrace | None:
        """What goes to the fresh interpreter that is being started."""
        return None if self._starting is None else EarlyTrace(self._starting)

    def leave_pool(self, pool: Any, error: BaseException | None) -> None:  # noqa: ANN401 - a pool of either module
        """Raises what belongs in place of `error`, where a pool's block ended with one."""
        watched_pool = self._of_pool.get(pool)
        if watched_pool is None:
            return
        if error is None:
            watched_pool.judged = True
            self.evidence.append(
                replace(of_pool(Evidence(), [], watched_pool.members), start_method=watched_pool.start_method)
            )
            return
        instead = self._instead_in(watched_pool, error)
        if instead is not None:
            raise instead.with_traceback(error.__traceback__) from cause_of(instead, error)

    # --- what is raised -----------------------------------------------------------------------------------------------

    def instead_of(self, error: BaseException) -> BaseException | None:
        """What belongs in place of an error that leaves the scope; `None` where that is the error itself."""
        if error is self._raised:
            return None
        for watched_pool in self.pools:
            if not watched_pool.judged:
                instead = self._instead_in(watched_pool, error)
                if instead is not None:
                    return instead
        return None

    def _instead_in(self, pool: WatchedPool, error: BaseException) -> BaseException | None:
        pool.judged = True
        chain = list(chain_of(error, pool.handled or self.handled))
        interrupt = next((link for link in chain if isinstance(link, KeyboardInterrupt)), None)
        if interrupt is not None or not isinstance(error, Exception):
            # Ctrl-C reaches the workers too, and comes out as the TimeoutError of a result that nobody waited for.
            return self._raise(interrupt, error) if interrupt is not None else None
        if error is self._raised or not (pool.maps or pool.lost in chain):
            return None
        dead_manager = [member for member in self.managers if member.died]
        # What came first counts: a failure is only kept where nobody had died before.
        for_want_of_manager = bool(dead_manager) and isinstance(pool.failure, (EOFError, OSError))
        if pool.maps and pool.failure is not None and not for_want_of_manager:
            return self._raise(pool.failure, error)
        if pool.broken or dead_manager:
            return self._raise(self.judge(self._evidence(pool, dead_manager), error), error)
        return None

    def _raise(self, instead: BaseException, error: BaseException) -> BaseException | None:
        self._raised = instead
        return None if instead is error else instead

    def _start_failed(self, start_method: str | None, error: Exception, child: Member | None = None) -> None:
        """Raises the diagnosis of a process that could not be started, or did not come as far as to answer."""
        deaths = []
        if child is not None and child.process is not None and child.process.pid is not None:
            child.process.join(_SECONDS_FOR_START)
            child.ended()
            deaths = [child]
        evidence = of_pool(self._now(None), deaths, deaths)
        said = next((death.error for death in evidence.deaths if death.error), "") or text_of(error)
        for pool in self.pools:
            pool.judged = True
        self._raised = self.judge(replace(evidence, start_error=said, start_method=start_method), error)
        raise self._raised from error

    def _evidence(self, pool: WatchedPool, dead_managers: list[Member]) -> Evidence:
        first = self._at_death.get(id(pool)) or self._now(dead_managers[0] if dead_managers else None)
        stall = pool.stall
        found = replace(
            of_pool(first, [*pool.deaths, *dead_managers], [*pool.members, *self.managers]),
            start_method=pool.start_method,
            stalled=stall.stalled if stall is not None else (),
            stalled_for=stall.for_seconds if stall is not None else 0.0,
        )
        self.evidence.append(found)
        return found

    def _first_death(self, pool: WatchedPool, member: Member) -> None:
        self._at_death[id(pool)] = self._now(member)

    def _now(self, victim: Member | None) -> Evidence:
        pid = victim.process.pid if victim is not None and victim.code == -signal.SIGKILL else None
        return of_machine(self._before or memory_evidence.counters(), pid)

    # --- files --------------------------------------------------------------------------------------------------------

    def _next_path(self) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="dataset_num_proc-")
        self._children += 1
        self._starting = f"{self._folder}/{self._children}"
        return self._starting

    def close(self) -> None:
        """Stops to look, and removes what the children have left."""
        for pool in self.pools:
            pool.end()
        # They hold this watch, and processes hold files, which would stay open until the next collection of cycles.
        self.pools.clear()
        self.managers.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _dump_signal() -> int | None:
    """The signal on which workers write their stacks, unless this process uses it."""
    number = signal.SIGUSR1
    return int(number) if signal.getsignal(number) is signal.SIG_DFL else None

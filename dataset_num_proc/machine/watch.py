# ruff: noqa: SLF001 - a pool's parts have no public names
"""The live workers of one scope: who ended, how, and what the machine looked like then; made into `Evidence`.

One job: to keep the pools and managers of a scope, and to show what was seen of them to the one who judges. It
never judges, and raises nothing of its own.
"""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from dataset_num_proc.machine import memory_evidence, pool_hooks
from dataset_num_proc.machine.chains import cause_of, chain_of
from dataset_num_proc.machine.early_start import EarlyStart
from dataset_num_proc.machine.evidence import of_machine, of_pool, text_of
from dataset_num_proc.machine.hazards import importing
from dataset_num_proc.machine.interrupts import postponed, whole
from dataset_num_proc.machine.members import Member
from dataset_num_proc.machine.stall import StallWatch, dump_signal
from dataset_num_proc.machine.traces import Traces
from dataset_num_proc.machine.watched_managers import WatchedManagers
from dataset_num_proc.machine.watched_pool import WatchedPool
from dataset_num_proc.policy.autopsy import Evidence, Stalled, cause_first

Judge = Callable[[Evidence, BaseException], BaseException]
"""Makes the exception that stands for the evidence; the second argument is what was raised."""


@contextmanager
def watched(judge: Judge, stall_timeout: float | None = None, *, helpers: bool = True) -> Iterator[Watcher]:
    """Watches the pools that this thread makes, and its helpers (see `pool_hooks.observing`), for the scope's length.

    Raises, in place of what the scope raised: what `judge` makes of the evidence, where a worker or a manager died,
    could not start, or all were stuck; the exception that a map's worker sent, where that came first. Inside, the
    block of the pool raises it already.
    """
    watcher = Watcher(judge, stall_timeout, handled=sys.exc_info()[1])
    try:
        with pool_hooks.observing(watcher, helpers=helpers):
            yield watcher
    except BaseException as error:
        if not isinstance(error, Exception):
            watcher.end_all()
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
    stuck: list[Stalled] = field(default_factory=list)
    pools: list[WatchedPool] = field(default_factory=list)
    traces: Traces = field(default_factory=Traces)
    managers: WatchedManagers = field(init=False)
    _of_pool: weakref.WeakKeyDictionary[Any, WatchedPool] = field(default_factory=weakref.WeakKeyDictionary)
    _before: memory_evidence.Counters | None = None
    _at_death: dict[int, Evidence] = field(default_factory=dict)
    _raised: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Hand the managers what they share with the pools."""
        self.managers = WatchedManagers(self.traces, self._start_failed)

    # --- what the hooks call ------------------------------------------------------------------------------------------

    def adopt_pool(self, pool: Any, package: str) -> None:  # noqa: ANN401 - a pool of either module
        """Begins to watch a pool that has its queues and no worker yet."""
        self._count_kills()
        number = dump_signal() if self.stall_timeout is not None else None
        stall = StallWatch(self.stall_timeout, number) if self.stall_timeout is not None else None
        watched_pool = WatchedPool(package, self.traces.next_path, self._first_death, stall, number)
        watched_pool.handled = sys.exc_info()[1]
        watched_pool.adopt(pool)
        self.pools.append(watched_pool)
        self._of_pool[pool] = watched_pool
        stock = pool._repopulate_pool

        def populate() -> None:
            del pool._repopulate_pool  # it holds the pool, which would never be collected
            try:
                with self.traces.starting():
                    stock()
            except OSError as error:
                watched_pool.look()  # of a child that died before it had its data, a broken pipe is all that is raised
                self._start_failed(watched_pool.start_method, error, watched_pool.deaths)
            watched_pool.begin(pool)

        pool._repopulate_pool = populate

    def adopt_manager(self, manager: Any, package: str) -> None:  # noqa: ANN401 - a manager of either module
        """Begins to watch a manager that has not been started yet."""
        self._count_kills()
        self.managers.adopt(manager, package)

    def end_manager(self, process: Any) -> None:  # noqa: ANN401 - a manager's process
        """Notes a manager that ended before it was told to."""
        self.managers.note_end(process)

    def early_trace(self) -> EarlyStart | None:
        """What goes to the fresh interpreter that is being started."""
        return self.traces.early()

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
        if self._is_ours(error):
            return None
        for watched_pool in self._pools_here():
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
        if self._is_ours(error) or not (pool.maps or pool.lost in chain):
            return None
        dead_manager = [member for member in self.managers.of_thread(pool.thread) if member.died]
        # What came first counts: a failure is only kept where nobody had died before.
        for_want_of_manager = bool(dead_manager) and isinstance(pool.failure, (EOFError, OSError))
        if pool.maps and pool.failure is not None and not for_want_of_manager:
            return self._raise(pool.failure, error)
        if pool.broken or dead_manager:
            return self._raise(self.judge(self._evidence(pool, dead_manager), error), error)
        return None

    def _pools_here(self) -> list[WatchedPool]:
        """Those of this thread; what goes wrong here says nothing about another's."""
        return [pool for pool in self.pools if pool.thread == threading.get_ident()]

    def _is_ours(self, error: BaseException) -> bool:
        return any(error is raised for raised in self._raised)

    def _raise(self, instead: BaseException, error: BaseException) -> BaseException | None:
        self._raised.append(instead)
        return None if instead is error else instead

    def _start_failed(self, start_method: str | None, error: Exception, deaths: Sequence[Member]) -> NoReturn:
        """Raises the diagnosis of a process that could not be started, or did not come as far as to answer."""
        evidence = of_pool(self._now(deaths[0] if deaths else None), deaths, deaths)
        said = next((death.error for death in evidence.deaths if death.error), "") or text_of(error)
        for pool in self._pools_here():
            pool.judged = True
        diagnosis = self.judge(replace(evidence, start_error=said, start_method=start_method), error)
        self._raised.append(diagnosis)
        raise diagnosis from error

    def _evidence(self, pool: WatchedPool, dead_managers: list[Member]) -> Evidence:
        first = self._at_death.get(id(pool)) or self._now(dead_managers[0] if dead_managers else None)
        stall = pool.stall
        found = replace(
            of_pool(first, [*pool.deaths, *dead_managers], [*pool.members, *self.managers.of_thread(pool.thread)]),
            start_method=pool.start_method,
            stalled=stall.stalled if stall is not None else (),
            stalled_for=stall.for_seconds if stall is not None else 0.0,
            importing=importing(sys._getframe()),
        )
        found = replace(found, deaths=cause_first(found.deaths))
        self.evidence.append(found)
        return found

    def _count_kills(self) -> None:
        """Has the kernel's counters as they stand before the first process is started."""
        if self._before is None:
            self._before = memory_evidence.counters()

    def _first_death(self, pool: WatchedPool, member: Member) -> None:
        self._at_death[id(pool)] = self._now(member)

    def _now(self, victim: Member | None) -> Evidence:
        pid = victim.process.pid if victim is not None and victim.code == -signal.SIGKILL else None
        return of_machine(self._before or memory_evidence.counters(), pid)

    # --- files --------------------------------------------------------------------------------------------------------

    def end_all(self) -> None:
        """Ends the pools and managers of the scope: Ctrl-C may have come before their own blocks could see to it."""
        with postponed():
            for pool in self.pools:
                pool.terminate()
            self.managers.end_all()

    @whole
    def close(self) -> None:
        """Stops to look, and removes what the children have left."""
        for pool in self.pools:
            pool.end()
            self.stuck += pool.stuck
        # They hold this watch, and processes hold files, which would stay open until the next collection of cycles.
        self.pools.clear()
        self._of_pool.clear()
        self._raised.clear()
        self.managers.forget()
        self.traces.remove()

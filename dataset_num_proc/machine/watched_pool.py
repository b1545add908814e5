# ruff: noqa: SLF001 - a pool's parts have no public names
"""One pool under watch: who died first, and what went wrong first.

One job: to keep every process of the pool and see when it ends, and to let nobody wait for what will not come. It may
not judge, nor word anything.

Nothing of the pool's class is replaced: attributes of this one pool stand in front of the class's.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dataset_num_proc.machine import pipes
from dataset_num_proc.machine.attribute_path import name_the_path
from dataset_num_proc.machine.largest_child import peak_of_ended_children
from dataset_num_proc.machine.members import Absent, Member, PoolBroken, files_of, has_absent, kill, severity
from dataset_num_proc.machine.observed import WORKER, Observed
from dataset_num_proc.machine.processes import peak_bytes
from dataset_num_proc.machine.stall import StallWatch, stacks
from dataset_num_proc.machine.teardown import end_workers, fail_pending, taken_down
from dataset_num_proc.policy.autopsy import Stalled

_SECONDS_BETWEEN_LOOKS = 0.05  # the pool of `datasets` looks as often
_LOOKS_BETWEEN_PEAKS = 2
_RUN, _CLOSE = "RUN", "CLOSE"  # the pool module's own words for its state


@dataclass
class WatchedPool:
    """What is known of one pool. Made in `Pool.__init__`, before the pool has any worker.

    Attributes:
        package: the process module.
        next_path: names the files of the next child.
        at_first_death: called when the first worker has died, with it.
        stall: looks for progress; `None` where nobody asked.
        dump_signal: on which workers write their stacks.
        thread: that makes it.
    """

    package: str
    next_path: Callable[[], str]
    at_first_death: Callable[[WatchedPool, Member], None]
    stall: StallWatch | None = None
    dump_signal: int | None = None
    thread: int = field(default_factory=threading.get_ident)
    members: list[Member] = field(default_factory=list)
    deaths: list[Member] = field(default_factory=list)
    stuck: list[Stalled] = field(default_factory=list)
    failure: BaseException | None = None
    start_method: str | None = None
    handled: BaseException | None = None
    maps: bool = False
    judged: bool = False
    lost: PoolBroken = field(default_factory=lambda: PoolBroken("a worker of this pool has died"))
    _reaped: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _over: threading.Event = field(default_factory=threading.Event)
    _read_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _workers: list[Any] = field(default_factory=list)
    _cache: dict[int, Any] = field(default_factory=dict)
    _pool: Callable[[], Any] = field(default=lambda: None)

    @property
    def broken(self) -> bool:
        """Whether this pool can do no more work."""
        return bool(self.deaths) or (self.stall is not None and bool(self.stall.stalled))

    def adopt(self, pool: Any) -> None:  # noqa: ANN401 - a pool of either module
        """Puts the watch in front of a pool that has its queues and nothing else yet."""
        self._pool = weakref.ref(pool)
        self._workers = pool._pool
        self.start_method = pool._ctx.get_start_method()
        pool.Process = self._process(type(pool).Process)
        pool._quick_put = self._put(pool._quick_put)
        pool._quick_get = self._get(pool._outqueue)
        pool._check_running = self._check(pool._check_running.__func__)
        pool._terminate_pool = self._terminate

    def begin(self, pool: Any) -> None:  # noqa: ANN401 - a pool of either module
        """Starts to look, once the workers are there: none of them is forked from a process with this thread."""
        self._cache = pool._cache
        self._reaped = peak_of_ended_children()
        self._thread = threading.Thread(target=self._follow, name="dataset_num_proc watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stops to look."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def terminate(self) -> None:
        """Ends the pool, unless it has ended, and what is left of one that never came to be."""
        pool = self._pool()
        if hasattr(pool, "_terminate"):
            pool.terminate()
        for member in self.members:
            kill(member.process)

    # --- what stands in front of the pool's methods ---------------------------------------------------------------

    def _process(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def process(ctx: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the stock signature
            self.look()
            if self.broken:
                return Absent()
            path = self.next_path()
            kwargs["target"] = Observed(kwargs.get("target"), self.package, path, WORKER, self.dump_signal)
            made = stock(ctx, *args, **kwargs)
            with self._lock:
                self.members.append(Member(made, path))
            return made

        return process

    def _put(self, send: Callable[[Any], None]) -> Callable[[Any], None]:
        def put(task: Any) -> None:  # noqa: ANN401 - a task, or the `None` that ends a worker
            if task is not None and getattr(task[2], "__name__", "") == "_write_generator_to_queue":
                self.maps = True
            try:
                send(task)
            except Exception as error:
                if task is not None:
                    name_the_path(error, task, self.package)
                    self._note_failure(error)
                raise

        return put

    def _get(self, outqueue: Any) -> Callable[[], Any]:  # noqa: ANN401 - a queue of either module
        from importlib import import_module

        loads = import_module(f"{self.package}.reduction").ForkingPickler.loads

        def get() -> Any:  # noqa: ANN401 - a result, or the `None` that ends the thread
            while True:
                data = pipes.read_message(outqueue._reader, self._read_over)
                try:
                    result = loads(data)
                except Exception as error:  # noqa: BLE001 - the thread that would end here answers for all results
                    self._note_failure(error)
                    fail_pending(self._cache, error)
                    continue
                if result is not None and not result[2][0]:
                    self.look()
                    self._note_failure(result[2][1])
                return result

        return get

    def _check(self, stock: Callable[[Any], None]) -> Callable[[], None]:
        def check() -> None:
            pool = self._pool()
            if pool is not None:
                stock(pool)
            if self.broken:
                raise self.lost

        return check

    def _terminate(self, *parts: Any) -> None:  # noqa: ANN401 - the stock signature: the parts of a pool
        self.look()
        self.end()
        taken_down(self.members, self._read_over, self._note_stuck, *parts)

    def _note_stuck(self, members: list[Member]) -> None:
        """Notes workers that will not end, where all that they were to do is done: else their end is no news."""
        if not self._cache and not self.broken and self.failure is None:
            self.stuck += stacks(files_of(members), self.dump_signal)

    # --- the look ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        looks = 0
        while not self._over.wait(_SECONDS_BETWEEN_LOOKS):
            self.look()
            if looks % _LOOKS_BETWEEN_PEAKS == 0:
                self._look_closer()
            looks += 1
            if self.broken:
                fail_pending(self._cache, self.lost)
            if self.maps and (self.broken or self.failure is not None) and not has_absent(self._workers):
                # `datasets` compares the pids of the pool after each result, and waits for all shards otherwise.
                self._workers.append(Absent())

    def look(self) -> None:
        """Notes who has ended."""
        with self._lock:
            first = not self.deaths
            ended = [member for member in self.members if member.ended()]
            for member in sorted(ended, key=severity):
                if not self._over.is_set() and not (self._spent() and member.code == 0):
                    member.died = True
                    self.deaths.append(member)
            if first and self.deaths:
                self._weigh(self.deaths[0])
                self.at_first_death(self, self.deaths[0])

    def _spent(self) -> bool:
        """Whether workers of this pool end by themselves: they have a number of tasks, or there is no more work."""
        pool = self._pool()
        return pool is None or pool._maxtasksperchild is not None or pool._state != _RUN

    def _weigh(self, member: Member) -> None:
        """Has the peak of the first dead from the kernel's own account: it may have grown since the last look."""
        largest = peak_of_ended_children()
        if largest > self._reaped:
            member.peak = max(largest, member.peak or 0)

    def _look_closer(self) -> None:
        alive = [member for member in self.members if member.code is None and member.process.pid]
        for member in alive:
            member.peak = max(peak_bytes(member.process.pid) or 0, member.peak or 0) or None
        if self.stall is not None and not self.broken:
            self.stall.look(files_of(alive), pending=bool(self._cache) or self._closed())
            if self.stall.stalled and not self._cache:
                self._end_stuck()

    def _closed(self) -> bool:
        """Whether the pool has been told that no more work comes: who joins it waits for the workers' own end."""
        return getattr(self._pool(), "_state", None) == _CLOSE

    def _end_stuck(self) -> None:
        """Ends the workers of a closed pool that have nothing to do and do not end."""
        with self._lock:  # no look takes their end for a death
            end_workers(self.members)
            if self.stall is not None:
                self.stuck += self.stall.stalled
                self.stall.stalled = ()

    def _note_failure(self, error: BaseException) -> None:
        with self._lock:
            if self.failure is None and not self.deaths:
                self.failure = error

"""The workers of one pool, from their start to their end: who has what in hand, and who is gone.

One job: to send rows and take results without ever waiting for one worker alone, and to notice within a moment that one
has died, does not start, or is stuck. It may not know what an iteration makes of the results.
"""

from __future__ import annotations

import os
import pickle
import selectors
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawArray
from typing import Any

from dataset_num_proc.machine import processes
from dataset_num_proc.machine.members import Member
from dataset_num_proc.machine.memory_evidence import Counters, counters
from dataset_num_proc.machine.stall import dump_signal
from dataset_num_proc.machine.teardown import end_workers
from dataset_num_proc.packing import start, worker
from dataset_num_proc.packing.deaths import Dead, death, not_started, stall
from dataset_num_proc.packing.outcome import PROTOCOL, Failure
from dataset_num_proc.packing.transport import Channel, Frame, loads, rows_body
from dataset_num_proc.packing.worker_handle import Chunk, Worker

_SECONDS_BETWEEN_LOOKS = 0.5
"""At clocks and memory; ends and results are noticed at once, since they are waited for."""
_KILLED = -9  # by SIGKILL, which Windows has no name for
_SECONDS_FOR_STATUS = 0.5  # a dead process's socket closes before its status can be had


@dataclass
class Crew:
    """The workers of one pool in one process.

    Attributes:
        starter: what starts them.
        kit: what they are sent once they are up, `None` where they are forked and have it.
        given: what forked ones have.
        start_timeout: seconds that a worker has to say that it is ready.
        item_timeout: seconds that a row may take, `None` for as long as it likes.
        decision: what they were started on; it goes into an error.
    """

    starter: start.Starter
    kit: worker.Kit | None
    given: Any
    start_timeout: float
    item_timeout: float | None
    decision: Any
    workers: list[Worker] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    seconds_per_row: float | None = None
    owner: int = field(default_factory=os.getpid)
    _folder: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="dataset_num_proc-"))
    _before: Counters = field(default_factory=counters)
    _selector: selectors.BaseSelector = field(
        # Not epoll: its registrations outlive a socket that a forked child of this process holds a copy of.
        default_factory=getattr(selectors, "PollSelector", selectors.SelectSelector)
    )
    _dump: int | None = None
    _deadline: float = 0.0
    _looked: float = 0.0

    # --- start and end ------------------------------------------------------------------------------------------------

    def start(self, count: int, post: Callable[[str, int | None], worker.Post]) -> None:
        """Starts `count` workers; where one of them cannot be started, none is left.

        Raises:
            WorkerStartFailed: with what kept it from starting as its cause.
        """
        self._dump = dump_signal() if sys.platform != "win32" else None
        self._deadline = time.monotonic() + self.start_timeout
        try:
            for place in range(count):
                self._start_one(post(os.path.join(self._folder, str(place)), self._dump))  # noqa: PTH118 - text throughout
        except Exception as error:
            failed = not_started(error, self._dead([]))
            self.close()
            raise failed from error
        except BaseException:
            self.close()
            raise

    def _start_one(self, post: worker.Post) -> None:
        ours, theirs = socket.socketpair()
        note = RawArray("d", [worker.IDLE, 0.0, 0.0])
        inherited = [one.channel.socket for one in self.workers] + [ours] if self.given is not None else []
        try:
            args = (theirs, note, post, inherited, self.given)
            process = self.starter.start(worker.work, args, f"dataset_num_proc packing {len(self.workers)}")
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()  # before the next start: no sibling may hold it, or this worker's end would not be seen
        one = Worker(process, Channel(ours), note, Member(process, post.path))
        self.workers.append(one)
        self._selector.register(ours, selectors.EVENT_READ, one)
        if sys.platform != "win32":  # where a sentinel is no socket, and a socket's end is all there is to wait for
            self._selector.register(process.sentinel, selectors.EVENT_READ, one)
        if self.kit is not None:
            self._put(one, Frame(worker.WORK, body=pickle.dumps(self.kit, PROTOCOL)))

    def close(self) -> None:
        """Ends the workers. In a process that did not start them, only lets go of what it has copies of."""
        self._selector.close()
        for one in self.workers:
            one.channel.close()
        if self.owner == os.getpid():
            self._end()
            self.starter.close()
            shutil.rmtree(self._folder, ignore_errors=True)
        self.workers = []

    # --- work ---------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether any worker has the encoder."""
        return any(one.ready for one in self.workers)

    def least_loaded(self, most: int) -> Worker | None:
        """The ready worker with the fewest rows, `None` where each has `most`."""
        ready = [one for one in self.workers if one.ready]
        best = min(ready, key=lambda one: one.rows, default=None)
        return best if best is not None and best.rows < most else None

    def assign(self, one: Worker, chunk: Chunk, rows: Iterable[bytes]) -> None:
        """Sends rows to a worker."""
        one.chunks.append(chunk)
        self._put(one, Frame(worker.WORK, chunk.session, chunk.first, body=rows_body(rows)))

    def forget_before(self, session: int) -> None:
        """Has workers leave the rows of iterations before that one."""
        for one in self.workers:
            one.note[worker.WANTED] = float(session)

    def _put(self, one: Worker, frame: Frame) -> None:
        with suppress(OSError):  # it is gone, which the next look says better
            one.channel.put(frame)
        self._follow(one)

    def _follow(self, one: Worker) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.channel.behind else 0)
        if self._selector.get_key(one.channel.socket).events != events:
            self._selector.modify(one.channel.socket, events, one)

    def pump(self, *, wait: bool) -> None:
        """Takes what has come and sends what fits; waits for the first of it, or a moment.

        Raises:
            WorkerDied: a worker has ended; also its kinds, where one did not start or is stuck.
        """
        mine = self.owner == os.getpid()
        if not mine or not self.workers:
            message = "the pool was closed" if mine else "this iteration belongs to another process, as its workers do"
            raise RuntimeError(message)
        gone: list[Worker] = []
        for key, events in self._selector.select(_SECONDS_BETWEEN_LOOKS if wait else 0):
            one: Worker = key.data
            if key.fileobj is not one.channel.socket or not self._exchange(one, events):
                gone.append(one)
        if gone:
            raise self._death(list(dict.fromkeys(gone)))
        if time.monotonic() - self._looked > _SECONDS_BETWEEN_LOOKS:
            self._look()

    def _exchange(self, one: Worker, events: int) -> bool:
        """Whether the worker's socket is still open."""
        try:
            if events & selectors.EVENT_READ:
                for frame in one.channel.receive():
                    self._take(one, frame)
            one.channel.flush()
        except (EOFError, OSError):
            return False
        self._follow(one)
        return True

    def _take(self, one: Worker, frame: Frame) -> None:
        if frame.kind == worker.READY:
            one.ready, self.lost = True, loads(frame.body)  # type: ignore[assignment] # what the worker sends
        elif frame.kind == worker.FAILED:
            failure: Failure = loads(frame.body)  # type: ignore[assignment] # likewise
            raise not_started(failure, self._dead([])) from failure.error()
        else:
            chunk = one.chunks.popleft()
            chunk.reply = frame.body
            if frame.kind == worker.DONE:
                seconds, before = frame.seconds / chunk.count, self.seconds_per_row
                self.seconds_per_row = seconds if before is None else 0.7 * before + 0.3 * seconds  # one may be unlucky

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """At what no event tells: clocks, the memory that workers hold, and ends that a grandchild hides.

        A process that an encoder forked has copies of its worker's socket and sentinel, and keeps both open.
        """
        self._looked = now = time.monotonic()
        gone = [one for one in self.workers if one.process.exitcode is not None]
        if gone:
            raise self._death(gone)
        for one in self.workers:
            one.member.peak = max(one.member.peak or 0, processes.peak_bytes(one.process.pid or 0) or 0) or None
        if now > self._deadline and not all(one.ready for one in self.workers):
            message = f"a worker did not say within {self.start_timeout:.0f} s that it has the encoder"
            raise not_started(TimeoutError(message), self._dead([]))
        for one in self.workers:
            since = one.note[worker.SINCE]
            late = self.item_timeout is not None and one.note[worker.ROW] >= 0 and now - since >= self.item_timeout
            if late:
                raise stall(one.member, one.row, now - since, self._dead([]), self._dump)

    def _death(self, gone: list[Worker]) -> BaseException:
        for one in gone:
            one.process.join(_SECONDS_FOR_STATUS)
            one.member.ended()
        return death(self._dead(gone))

    def _dead(self, gone: list[Worker]) -> Dead:
        """What is known of these workers, and of all others, which are ended now."""
        first = next((one for one in gone if one.member.code == _KILLED), None)
        return Dead(
            [(one.member, one.row, one.ready) for one in gone],
            [one.member for one in self.workers],
            self._before,
            first.process.pid if first else None,
            self._end,
            self.starter.method,
            self.decision,
        )

    def _end(self) -> None:
        end_workers([one.member for one in self.workers])

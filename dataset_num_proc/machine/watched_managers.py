# ruff: noqa: SLF001 - a manager's parts have no public names
"""The managers of one scope under watch: the processes that carry the workers' results.

One job: to keep their processes, and to note which of them ended before it was told to, or before it answered at all.
It may not judge.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dataset_num_proc.machine.interrupts import whole
from dataset_num_proc.machine.members import Member, kill
from dataset_num_proc.machine.observed import MANAGER, Observed
from dataset_num_proc.machine.processes import looks_dead
from dataset_num_proc.machine.traces import Traces

_SECONDS_FOR_STATUS = 0.2  # a dead process's pipes close before its status can be had
_SECONDS_FOR_START = 2.0

StartFailed = Callable[[str, Exception, list[Member]], NoReturn]
"""Raises the diagnosis: of the start method, what was raised, and the process as far as there was one."""


@dataclass
class WatchedManagers:
    """What is known of the managers of one scope.

    Attributes:
        traces: names their files.
        start_failed: called where one could not be started.
        members: their processes.
    """

    traces: Traces
    start_failed: StartFailed
    members: list[Member] = field(default_factory=list)
    _ends: list[Callable[[], object]] = field(default_factory=list)

    def of_thread(self, thread: int) -> list[Member]:
        """Those that this thread has started: a pool and the manager of its results are one thread's."""
        return [member for member in self.members if member.thread == thread]

    def adopt(self, manager: Any, package: str) -> None:  # noqa: ANN401 - a manager of either module
        """Begins to watch a manager that has not been started yet."""
        stock = manager.start

        def start(initializer: Callable[..., Any] | None = None, initargs: tuple[Any, ...] = ()) -> None:
            del manager.start
            with self.traces.starting():
                path = whole(self.traces.next_path)()
                try:
                    stock(Observed(initializer, package, path, MANAGER), initargs)
                except (EOFError, OSError) as error:
                    self.start_failed(manager._ctx.get_start_method(), error, _ended(manager, path))
                except BaseException:  # Ctrl-C, while it waits for the child's address: nobody else knows of the child
                    kill(getattr(manager, "_process", None))
                    raise
            self.members.append(Member(manager._process, path, MANAGER))
            self._ends.append(manager.shutdown)

        manager.start = start

    def note_end(self, process: Any) -> None:  # noqa: ANN401 - a manager's process
        """Notes a manager that ended before it was told to."""
        for member in self.members:
            if member.process is process and member.code is None:
                if isinstance(sys.exc_info()[1], Exception):
                    process.join(_SECONDS_FOR_STATUS if looks_dead(process.pid) else 0)
                member.died = member.ended()

    def end_all(self) -> None:
        """Ends those that have not ended."""
        for end in self._ends:
            end()

    def forget(self) -> None:
        """Lets go of processes that are nobody's business any more; they hold files."""
        self.members.clear()
        self._ends.clear()


def _ended(manager: Any, path: str) -> list[Member]:  # noqa: ANN401 - a manager of either module
    """The process of a manager that did not answer, with its status; none where there was no process."""
    process = getattr(manager, "_process", None)
    if process is None or process.pid is None:
        return []
    process.join(_SECONDS_FOR_START)
    child = Member(process, path, MANAGER)
    child.ended()
    return [child]

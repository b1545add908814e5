"""The processes of a pool under watch, kept for their statuses, and what stands for one that is not there.

One job: plain objects. They may not look at anything but their own process.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from dataset_num_proc.machine.observed import WORKER


class PoolBroken(RuntimeError):  # noqa: N818 - named for the state, as `ScopeBusy` is
    """What waits for a result of a pool gets, where a worker has died; the scope makes a diagnosis of it."""


@dataclass
class Member:
    """A process of the pool, kept for its status.

    Attributes:
        process: its object in the module that started it.
        path: of the files that it leaves, without their endings.
        role: "worker" or "manager".
        code: its status, once it has ended.
        peak: the most memory that was seen in it, in bytes.
        died: it ended before it was told to.
        thread: that started it.
    """

    process: Any
    path: str
    role: str = WORKER
    code: int | None = None
    peak: int | None = None
    died: bool = False
    thread: int = field(default_factory=threading.get_ident)

    def ended(self) -> bool:
        """Whether it has ended since the last look."""
        if self.code is None:
            self.code = self.process.exitcode
            return self.code is not None
        return False


class Absent:
    """Stands where a worker would: in place of a replacement, or as the change of workers that `datasets` looks for."""

    name, daemon, pid, exitcode = "", True, None, None

    def start(self) -> None:
        """Starts nothing."""

    terminate = kill = join = start

    def is_alive(self) -> bool:
        """Never."""
        return False


def severity(member: Member) -> int:
    """Of processes that ended between two looks, a crash comes first, and what follows from one last."""
    if member.code in {0, -15}:
        return 2
    return 0 if member.code is not None and member.code < 0 else 1


def files_of(members: list[Member]) -> list[tuple[int, str]]:
    """Pid and path of the files of each."""
    return [(member.process.pid, member.path) for member in members]


def kill(process: Any) -> None:  # noqa: ANN401 - a process of either module, or `None`
    """Ends a process that may not have been started, or may have ended."""
    if process is not None and process.pid is not None:
        process.kill()
        process.join()


def has_absent(workers: list[Any]) -> bool:
    """Whether one of a pool's workers is none."""
    return any(isinstance(worker, Absent) for worker in workers)

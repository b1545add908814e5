"""Live processes by pid, from /proc: memory, processor time, reads and writes.

One job: to read them; `None` for a process that has ended, or where there is no /proc. It may not judge.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from dataset_num_proc.machine.files import Reader, number_after

_KIB = 1024
_PF_EXITING = 4  # linux/sched.h


class Activity(NamedTuple):
    """What a process and all its descendants have done so far, and its own state.

    Attributes:
        state: the kernel's letter: "R" running, "S" sleeping, "D" waiting for a disk, "T" stopped, "Z" ended.
        work: ticks of processor time, and bytes read and written; it grows whenever any of them does.
    """

    state: str
    work: int


def peak_bytes(pid: int) -> int | None:
    """The most memory that a process has held at once, in bytes."""
    kib = number_after(b"\n" + (Reader().read(b"/proc/%d/status" % pid) or b""), b"\nVmHWM:", b" kB")
    return None if kib is None else kib * _KIB


def is_ending(pid: int) -> bool:
    """Whether a process is on its way out: a large one takes seconds to give back its memory."""
    fields = _stat(Reader(), pid)
    return fields is None or bool(int(fields[6]) & _PF_EXITING)


def looks_dead(pid: int) -> bool:
    """Whether a process has nothing open any more: it may still take a moment to have a status."""
    with suppress(OSError):
        return not os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names only
    return True


def activity(pid: int) -> Activity | None:
    """What a process has done, with its descendants: a function may leave its work to a program that it starts."""
    state, work = _of_one(pid)
    if state is None:
        return None
    todo = [pid]
    while todo:
        parent = todo.pop()
        for child in _children(parent):
            work += _of_one(child)[1]
            todo.append(child)
    return Activity(state, work)


def _of_one(pid: int) -> tuple[str | None, int]:
    reader = Reader()
    fields = _stat(reader, pid)
    if fields is None:
        return None, 0
    ticks = sum(int(field) for field in fields[11:13])
    transfer = b"\n" + (reader.read(b"/proc/%d/io" % pid) or b"")
    moved = sum(number_after(transfer, key) or 0 for key in (b"\nrchar: ", b"\nwchar: ", b"\nread_bytes: "))
    return fields[0].decode(), ticks + moved


def _stat(reader: Reader, pid: int) -> list[bytes] | None:
    """The fields of a process's status line from its state on; `None` where there is none."""
    data = reader.read(b"/proc/%d/stat" % pid)
    # The name before them may hold anything, spaces and brackets too.
    return None if data is None else data.rpartition(b")")[2].split()


def _children(pid: int) -> list[int]:
    reader = Reader()
    found = []
    for task in reader.names(b"/proc/%d/task" % pid):
        data = reader.read(b"/proc/%d/task/%s/children" % (pid, task)) or b""
        found += [int(child) for child in data.split()]
    return found

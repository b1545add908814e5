"""What a worker under watch does besides its work: leaves traces that its parent can read when it is gone.

One job: the child's side of a watch. A crash's stack, the task in hand, the text of an error outside the user's
function go to files whose names the parent chose; a result that the parent could not unpickle is made one that it can.
It may not change what the function computes, nor fail where a trace cannot be left.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

MANAGER, WORKER = "manager", "worker"
TRACE, STACK, ERROR, TASK = ".trace", ".stack", ".error", ".task"
"""What a child's files end in: its crash, its stack on request, an error outside the function, the work in hand."""

_TASK_BYTES = 128
_NAMELESS = (MemoryError, EOFError, TimeoutError)
_kept_open: list[TextIO] = []  # faulthandler writes to descriptors, and a collected file would close its own


@dataclass(frozen=True)
class Observed:
    """A process's target, with the traces that it leaves. Holds nothing but what pickles.

    Attributes:
        target: what the process is really for; a manager has nothing more to do here.
        package: the process module that starts it.
        path: of its files, without their endings.
        role: "worker" or "manager".
        dump_signal: the signal on which it writes its stack; `None` for none.
    """

    target: Callable[..., Any] | None
    package: str
    path: str
    role: str = WORKER
    dump_signal: int | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes on whatever the target takes and gives
        """In the child: does the target's work and leaves traces of it."""
        with suppress(OSError):  # the scope has ended, or the disk is full: work without traces is still work
            trace_crashes(self.path, self.dump_signal)
        if self.role == MANAGER:
            # A manager that cannot listen fails outside its initializer, and says why on stderr alone.
            sys.stderr = _Copied(sys.stderr, self.path + ERROR)
            return None if self.target is None else self.target(*args, **kwargs)
        if self.target is None:
            return None
        note = _Note(self.path + TASK)
        self._follow_tasks(args[0], note)
        self._check_results(args[1], note)
        try:
            return self.target(*args, **kwargs)
        except Exception:
            write(self.path + ERROR, traceback.format_exc())
            raise

    def _follow_tasks(self, inqueue: Any, note: _Note) -> None:  # noqa: ANN401 - a queue of either module
        """Has each task noted as it arrives, and says so where it does not arrive.

        The stock worker takes an OSError or EOFError *of the task's own unpickling* for the end of the queue, and
        leaves with status 0.
        """
        loads = sys.modules[f"{self.package}.reduction"].ForkingPickler.loads

        def get() -> Any:  # noqa: ANN401 - a task
            with inqueue._rlock:  # noqa: SLF001 - as `SimpleQueue.get` does
                data = inqueue._reader.recv_bytes()  # noqa: SLF001 - likewise
            try:
                task = loads(data)
            except (OSError, EOFError) as error:
                message = f"{type(error).__name__}: {error}"
                raise RuntimeError(message) from error
            return note.of(task)

        inqueue.get = get

    def _check_results(self, outqueue: Any, note: _Note) -> None:  # noqa: ANN401 - a queue of either module
        """Has an exception that pickles but does not unpickle, which would end the parent's thread, replaced."""
        stock, pickler = outqueue.put, sys.modules[f"{self.package}.reduction"].ForkingPickler

        def put(result: Any) -> None:  # noqa: ANN401 - what the stock worker makes
            job, place, (success, value) = result
            stock((job, place, (success, value if success else _sound(value, pickler, note))))

        outqueue.put = put


def trace_crashes(path: str, dump_signal: int | None) -> None:
    """Has this process write its stack when it crashes, and on a signal that nothing else here uses.

    Args:
        path: of the files, without their endings.
        dump_signal: the signal; `None` for none.

    Raises:
        OSError: a file cannot be made.
    """
    crash = open(path + TRACE, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - open for the process's life
    _kept_open.append(crash)
    faulthandler.enable(crash)
    if dump_signal is not None and signal.getsignal(dump_signal) is signal.SIG_DFL:
        stack = open(path + STACK, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - open for the process's life
        _kept_open.append(stack)
        faulthandler.register(dump_signal, stack)


class _Note:
    """The task in hand, in a file of a fixed size, so that a note takes one system call."""

    def __init__(self, path: str) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.text = f"worker {os.getpid()}"

    def of(self, task: Any) -> Any:  # noqa: ANN401 - a task, or the `None` that ends the worker
        """The task, noted, with its progress noted too where it is a shard of `datasets`."""
        if task is None:
            return None
        job, place, function, args, kwargs = task
        if getattr(function, "__name__", "") != "_write_generator_to_queue":
            self._write(None, None)
            return task
        queue, generator, values = args
        rows = None
        with suppress(Exception):  # not every shard has a length
            rows = [values["offset"], values["offset"] + len(values["shard"])]
        shard = values.get("rank", values.get("job_id"))
        self._write(shard, rows)
        return job, place, function, (_Counted(queue, self, shard, rows), generator, values), kwargs

    def _write(self, shard: object, rows: list[int] | None) -> None:
        where = f", shard {shard}" if shard is not None else ""
        self.text = f"worker {os.getpid()}{where}" + (f", rows {rows[0]} to {rows[1] - 1}" if rows else "")
        if self._file is not None:
            with suppress(OSError):
                os.pwrite(self._file, json.dumps([shard, rows]).encode().ljust(_TASK_BYTES), 0)

    def progress(self, shard: object, rows: list[int]) -> None:
        """Notes that the rows before `rows[0]` are done."""
        self._write(shard, rows)


class _Counted:
    """The queue of results, with the rows that pass through it counted off the task in hand."""

    def __init__(self, queue: Any, note: _Note, shard: object, rows: list[int] | None) -> None:  # noqa: ANN401 - a proxy
        self._queue, self._note, self._shard, self._rows = queue, note, shard, rows

    def put(self, item: Any) -> None:  # noqa: ANN401 - (shard, done, rows or result)
        if self._rows is not None and isinstance(item, tuple) and item[1] is False and isinstance(item[2], int):
            self._rows[0] = min(self._rows[0] + item[2], self._rows[1])
            self._note.progress(self._shard, self._rows)
        self._queue.put(item)


def _sound(value: Any, pickler: Any, note: _Note) -> Any:  # noqa: ANN401 - an exception, or one with its traceback
    """`value` if the parent can have it, else a RuntimeError with its type and text."""
    error = getattr(value, "exc", value)
    if type(error) in _NAMELESS and not str(error):
        error.args = (f"{type(error).__name__} in {note.text}",)
    try:
        data = pickler.dumps(value)
    except Exception:  # noqa: BLE001 - whatever a reducer raises; the stock worker makes a MaybeEncodingError of it
        return value
    try:
        pickler.loads(data)
    except Exception as reason:  # noqa: BLE001 - whatever an `__init__` raises
        kind = type(error)
        text = f"{kind.__module__}.{kind.__qualname__}: {error} (it does not unpickle: {reason})"
        replacement = RuntimeError(text)
        if value is error:
            return replacement
        value.exc = replacement
    return value


class _Copied(io.TextIOBase):
    """A stream whose text goes to a file too."""

    def __init__(self, stream: TextIO | None, path: str) -> None:
        self._stream, self._path = stream, path

    def write(self, text: str) -> int:
        """Writes to both."""
        write(self._path, text, "a")
        return self._stream.write(text) if self._stream is not None else len(text)

    def flush(self) -> None:
        """Flushes the stream; the file is never behind."""
        if self._stream is not None:
            self._stream.flush()


def write(path: str, text: str, mode: str = "w") -> None:
    """Leaves text for the parent, where that can be done."""
    with suppress(OSError), open(path, mode, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - paths are text here
        file.write(text)


def read(path: str) -> str:
    """What a child left; empty where it left nothing."""
    with suppress(OSError), open(path, encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123 - as above
        return file.read()
    return ""

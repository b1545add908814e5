"""Pipes of a pool whose other end may be dead: read without ever waiting for what will not come.

One job: messages of `multiprocessing`'s connections, read so that a reader can be stopped in the middle of one, and
pipes emptied whatever stands in them. It may not know what the messages are.
"""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from typing import Any

_MILLISECONDS = 100
_SECONDS_OF_SILENCE = 2.0
_CHUNK = 1 << 20
_LONG = -1  # in place of a length that does not fit: eight bytes with it follow


def read_message(connection: Any, over: threading.Event) -> bytes:  # noqa: ANN401 - a connection of either module
    """The next message of a connection.

    A worker that is killed while it sends leaves part of a message; the stock `recv` then waits for the rest of it for
    as long as anybody holds the pipe open, and with it the thread that the pool's teardown joins.

    Raises:
        EOFError: the pipe was closed, or `over` was set and nothing came.
    """
    (length,) = struct.unpack("!i", _read(connection, 4, over))
    if length == _LONG:
        (length,) = struct.unpack("!Q", _read(connection, 8, over))
    return _read(connection, length, over)


def _read(connection: Any, size: int, over: threading.Event) -> bytes:  # noqa: ANN401 - a connection of either module
    descriptor = connection.fileno()
    data = bytearray()
    while len(data) < size:
        while not readable(descriptor, _MILLISECONDS):
            if over.is_set():
                raise EOFError
        more = os.read(descriptor, min(size - len(data), _CHUNK))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def readable(descriptor: int, milliseconds: int) -> bool:
    """Whether there is something to read, or an end, within that time."""
    poll = select.poll()  # not `select.select`, which cannot have descriptors of 1024 and above
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(milliseconds))


def empty_while(connection: Any, writer: threading.Thread) -> None:  # noqa: ANN401 - a connection of either module
    """Takes whatever stands in a pipe, for as long as a thread may be writing to it.

    Raw bytes: what a killed reader left begins anywhere in a message, and to unpickle a task asks a manager that is
    gone (the FileNotFoundError that a stock pool gives in place of the death).

    A thread that writes nothing for seconds may wait for what its reader holds, such as the lock of a module that is
    being imported. It is left, and gets a broken pipe when it comes to write.
    """
    deadline = time.monotonic() + _SECONDS_OF_SILENCE
    while writer.is_alive():
        if readable(connection.fileno(), 1):
            os.read(connection.fileno(), _CHUNK)
            deadline = time.monotonic() + _SECONDS_OF_SILENCE
        elif time.monotonic() > deadline:
            connection.close()
            return
        else:
            writer.join(0.001)


def free(lock: Any) -> None:  # noqa: ANN401 - a lock of either module
    """Frees a lock that a dead process may have held. Only where no process that uses it is alive."""
    if lock is not None:
        lock.acquire(timeout=0.2)
        lock.release()

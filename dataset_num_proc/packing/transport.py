"""Messages between the pool and a worker: frames over one socket, in both directions.

One job: whole frames in, whole frames out. The pool's side never waits: it takes what is there and sends what fits, so
that a worker which is stopped or killed in the middle of a message holds nobody up. It may not know what a frame means.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_HEADER = struct.Struct("!BQQdQ")
_LENGTH = struct.Struct("!Q")
_RECORD = struct.Struct("!BQ")
_SMALL = 1 << 16  # bytes that are copied in less time than a system call takes


class Frame(NamedTuple):
    """One message.

    Attributes:
        kind: what it is, one of the worker's.
        session: number of the iteration that it belongs to.
        first: place of its first row in the source.
        seconds: time that the work on it took.
        body: its bytes.
    """

    kind: int
    session: int = 0
    first: int = 0
    seconds: float = 0.0
    body: bytes | memoryview = b""

    def parts(self) -> list[bytes | memoryview]:
        """Its bytes: in one piece where that is cheap, since each piece is a system call."""
        head = _HEADER.pack(*self[:4], len(self.body))
        return [head + bytes(self.body)] if len(self.body) <= _SMALL else [head, self.body]


class Channel:
    """The pool's end of a worker's socket."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)  # noqa: FBT003 - the method's only argument
        self.socket = end
        self._out: deque[memoryview] = deque()
        self._header: tuple[int, int, int, float, int] | None = None
        self._expect(_HEADER.size)

    @property
    def behind(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._out)

    def put(self, frame: Frame) -> None:
        """Sends a frame, or as much of it as fits; `flush` sends the rest.

        Raises:
            OSError: the worker's end is closed.
        """
        self._out += map(memoryview, frame.parts())
        self.flush()

    def flush(self) -> None:
        """Sends what fits.

        Raises:
            OSError: the worker's end is closed.
        """
        while self._out:
            try:
                sent = self.socket.send(self._out[0])
            except BlockingIOError:
                return
            rest = self._out.popleft()[sent:]
            if rest:
                self._out.appendleft(rest)

    def receive(self) -> Iterator[Frame]:
        """The frames that are whole by now.

        Raises:
            EOFError, OSError: the worker's end is closed.
        """
        while True:
            try:
                count = self.socket.recv_into(self._space[self._filled :])
            except BlockingIOError:
                return
            if not count:
                raise EOFError
            self._filled += count
            if self._filled == len(self._space):
                yield from self._whole()

    def _whole(self) -> Iterator[Frame]:
        if self._header is None:
            self._header = _HEADER.unpack(self._space)
            self._expect(self._header[4])
            if self._header[4]:
                return
        kind, session, first, seconds, _ = self._header
        body, self._header = self._space, None
        self._expect(_HEADER.size)
        yield Frame(kind, session, first, seconds, body)

    def _expect(self, size: int) -> None:
        self._space, self._filled = memoryview(bytearray(size)), 0

    def close(self) -> None:
        """Closes this end: the worker reads the end of its work."""
        self.socket.close()


def read(end: socket.socket) -> Frame | None:
    """The next frame at the worker's end, however long it takes; `None` where the pool has closed its own."""
    head = _read(end, _HEADER.size)
    if head is None:
        return None
    kind, session, first, seconds, length = _HEADER.unpack(head)
    body = _read(end, length)
    return None if body is None else Frame(kind, session, first, seconds, body)


def send(end: socket.socket, frame: Frame) -> None:
    """Sends a frame from the worker's end, however long it takes.

    Raises:
        OSError: the pool has closed its own.
    """
    for part in frame.parts():
        end.sendall(part)


def _read(end: socket.socket, size: int) -> memoryview | None:
    space, filled = memoryview(bytearray(size)), 0
    while filled < size:
        try:
            count = end.recv_into(space[filled:])
        except ConnectionError:  # the pool's process was killed with something unread
            return None
        if not count:
            return None
        filled += count
    return space


def rows_body(rows: Iterable[bytes]) -> bytes:
    """Pickled rows as the body of a frame."""
    return b"".join(part for data in rows for part in (_LENGTH.pack(len(data)), data))


def rows_of(body: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """The pickled rows of a frame's body."""
    at = 0
    while at < len(body):
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        yield body[at : at + length]
        at += length


def record(kind: int, data: bytes) -> tuple[bytes, bytes]:
    """A row's result, as parts of a frame's body."""
    return _RECORD.pack(kind, len(data)), data


def records_of(body: bytes | memoryview) -> Iterator[tuple[int, bytes | memoryview]]:
    """The results of a frame's body: kind and pickled value of each row."""
    at = 0
    while at < len(body):
        kind, length = _RECORD.unpack_from(body, at)
        at += _RECORD.size
        yield kind, body[at : at + length]
        at += length


def loads(data: bytes | memoryview) -> object:
    """What was pickled by the other end."""
    return pickle.loads(data)  # noqa: S301 - our own worker's, or our own pool's

"""What a worker does, from its first line to its last.

One job: the child's side. It gets itself ready, takes the encoder, encodes rows in the order in which they come, and
ends when the pool's end of its socket closes. It may not decide what is skipped or lost, nor outlive its parent.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dataset_num_proc.machine.observed import trace_crashes
from dataset_num_proc.machine.variables import put
from dataset_num_proc.packing.outcome import PROTOCOL, Failure, Kind, encoded_here
from dataset_num_proc.packing.payload import arrived_empty, unpacked
from dataset_num_proc.packing.transport import Frame, loads, read, record, rows_of, send

WORK, READY, FAILED, DONE, ABANDONED = range(5)
"""Kinds of frames: rows to encode; the worker has the encoder; it could not have it; results; rows nobody waits for."""

ENCODED, SKIPPED, DROPPED = range(3)
"""Kinds of results."""

_KINDS = {Kind.SKIPPED: SKIPPED, Kind.DROPPED: DROPPED}
ROW, SINCE, WANTED = range(3)
"""What a worker's note holds: the row in hand (-1 for none), since when, and the oldest iteration still wanted."""

IDLE = -1.0


@dataclass(frozen=True)
class Post:
    """What a worker is started with; all of it pickles.

    Attributes:
        path: of the files that it leaves when it crashes, without their endings.
        variables: the environment to set first; `None` takes a variable away.
        threads: of native pools, where the user has set no limit; `None` leaves them alone.
        dump_signal: on which it writes its stack; `None` for none.
    """

    path: str
    variables: Mapping[str, str | None]
    threads: int | None
    dump_signal: int | None


@dataclass(frozen=True)
class Kit:
    """What a worker is sent once it is up; forked ones have it already.

    Attributes:
        init: a function with its arguments, pickled, to be called before the encoder is read; and whether by dill.
        work: encode, skip and encode_kwargs by name, likewise.
        held: attributes that hold something in the pool's process.
    """

    init: tuple[bytes, bool] | None
    work: tuple[bytes, bool]
    held: dict[str, list[str]]


def work(end: socket.socket, note: Any, post: Post, inherited: Iterable[socket.socket], given: Any) -> None:  # noqa: ANN401 - shared memory; a kit or `None`
    """The whole life of a worker.

    Args:
        end: its end of the socket.
        note: three numbers that the pool can read at any time, when the worker is dead too.
        post: how to get ready.
        inherited: the pool's ends that a forked child has copies of: while it holds them, no sibling would see its
            pool close them.
        given: in a forked child the two parts of a `Kit` as objects; `None` elsewhere.
    """
    for other in inherited:
        other.close()
    _settle(post)
    with suppress(ConnectionError):  # the pool is gone, and nobody waits for anything
        encoder = _encoder(end, given, post)
        if encoder is not None:
            _Desk(end, note, *encoder).serve()


def _settle(post: Post) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the pool's process sees to its workers
    put(post.variables)
    with suppress(OSError):  # the disk is full: work without traces is still work
        trace_crashes(post.path, post.dump_signal)


def _encoder(end: socket.socket, given: Any, post: Post) -> tuple[Any, Any, Any] | None:  # noqa: ANN401 - as above
    """(encode, skip, encode_kwargs), with word to the pool; `None` where they cannot be had."""
    try:
        if given is None:
            frame = read(end)
            if frame is None:
                return None
            kit: Kit = loads(frame.body)  # type: ignore[assignment] # what the pool sends first
            if kit.init is not None:
                _call(**unpacked(kit.init[0], by_dill=kit.init[1]))
            given = unpacked(kit.work[0], by_dill=kit.work[1])
            lost = arrived_empty(given["encode"], kit.held)
        else:
            first, given = given
            _call(**first)
            lost = []
        _limit_threads(post.threads)
    except BaseException as error:  # noqa: BLE001 - an import runs anybody's code, `sys.exit` too
        send(end, Frame(FAILED, body=pickle.dumps(Failure.of(error), PROTOCOL)))
        return None
    send(end, Frame(READY, body=pickle.dumps(lost, PROTOCOL)))
    return given["encode"], given["skip"], given["encode_kwargs"]


def _call(init: Callable[..., object] | None, init_args: tuple[object, ...]) -> None:
    if init is not None:
        init(*init_args)


def _limit_threads(threads: int | None) -> None:
    """Torch reads its limits when it is imported, which a fork server or a parent has done before this worker was."""
    torch = sys.modules.get("torch")
    if threads is not None and torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(threads)


class _Desk:
    """Where a worker works: rows in, results out by a thread of their own.

    Without that thread a worker would wait with its result until the consumer comes back for the next row, and do
    nothing meanwhile.
    """

    def __init__(
        self,
        end: socket.socket,
        note: Any,  # noqa: ANN401 - shared memory
        encode: Callable[..., object],
        skip: tuple[type[BaseException], ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._end, self._note = end, note
        self._encode, self._skip, self._kwargs = encode, skip, kwargs
        self._out: queue.SimpleQueue[Frame] = queue.SimpleQueue()

    def serve(self) -> None:
        """Encodes until the pool closes its end."""
        threading.Thread(target=self._deliver, name="dataset_num_proc results", daemon=True).start()
        while (frame := read(self._end)) is not None:
            self._out.put(self._answer(frame))

    def _deliver(self) -> None:
        try:
            while True:
                send(self._end, self._out.get())
        finally:
            os._exit(1)  # the pool is gone, or this thread cannot go on: the work would be for nothing

    def _answer(self, frame: Frame) -> Frame:
        begun, index = time.perf_counter(), frame.first
        parts: list[bytes] = []
        for data in rows_of(frame.body):
            if frame.session < self._note[WANTED]:
                return Frame(ABANDONED, frame.session, frame.first)
            self._note[SINCE] = time.monotonic()
            self._note[ROW] = float(index)
            parts += record(*self._result(data))
            self._note[ROW] = IDLE
            index += 1
        return Frame(DONE, frame.session, frame.first, time.perf_counter() - begun, b"".join(parts))

    def _result(self, data: bytes | memoryview) -> tuple[int, bytes]:
        try:
            row = loads(data)
        except Exception as error:  # noqa: BLE001 - whatever the row's own code raises
            return DROPPED, pickle.dumps(Failure.of(error), PROTOCOL)
        kind, value = encoded_here(self._encode, row, self._kwargs, self._skip)
        if kind is Kind.ENCODED:
            try:
                return ENCODED, pickle.dumps(value, PROTOCOL)
            except Exception as error:  # noqa: BLE001 - whatever a reducer raises
                kind, value = Kind.DROPPED, error
        return _KINDS[kind], pickle.dumps(Failure.of(value), PROTOCOL) if kind is Kind.DROPPED else b""

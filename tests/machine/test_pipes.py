"""Pipes whose other end is gone, or stopped in the middle of a message."""

from __future__ import annotations

import multiprocessing
import os
import struct
import threading

import pytest

from dataset_num_proc.machine.pipes import empty_while, free, read_message
from tests.capabilities import needs_linux

pytestmark = needs_linux


@pytest.mark.parametrize("size", [0, 5, 100_000, 5_000_000])
def test_whole_messages(size: int) -> None:
    """What a connection sends is read as its own `recv_bytes` would."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    data = os.urandom(size)
    sender = threading.Thread(target=writer.send_bytes, args=(data,))
    sender.start()
    assert read_message(reader, threading.Event()) == data
    sender.join()
    reader.close()
    writer.close()


def test_a_message_of_more_than_an_int_can_count() -> None:
    """Its length has eight bytes after a mark."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    os.write(writer.fileno(), struct.pack("!iQ", -1, 3) + b"abc")
    assert read_message(reader, threading.Event()) == b"abc"
    reader.close()
    writer.close()


@pytest.mark.parametrize("left", [b"", b"\0\0", struct.pack("!i", 100) + b"part"])
def test_part_of_a_message_does_not_hold_the_reader(left: bytes) -> None:
    """A reader that is told that it is over gives up wherever it stands, though the pipe is open."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    os.write(writer.fileno(), left)
    over = threading.Event()
    over.set()
    with pytest.raises(EOFError):
        read_message(reader, over)
    reader.close()
    writer.close()


def test_a_closed_pipe_is_an_end() -> None:
    """As for a stock connection."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    writer.close()
    with pytest.raises(EOFError):
        read_message(reader, threading.Event())
    reader.close()


def test_a_blocked_writer_is_let_go() -> None:
    """Whatever it writes, and whatever stood in the pipe, is taken until it ends."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    os.write(writer.fileno(), b"half")
    blocked = threading.Thread(target=writer.send_bytes, args=(b"x" * 3_000_000,))
    blocked.start()
    empty_while(reader, blocked)
    assert not blocked.is_alive()
    reader.close()
    writer.close()


@pytest.mark.parametrize("held", [True, False])
def test_a_lost_lock_is_freed(held: bool) -> None:  # noqa: FBT001 - a parameter
    """Whether a dead process held it or not, it can be taken afterwards."""
    lock = multiprocessing.get_context("fork").Lock()
    if held:
        lock.acquire()
    free(lock)
    assert lock.acquire(timeout=1)
    free(None)

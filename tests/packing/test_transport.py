"""Frames over a socket: whole ones only, whatever pieces they come in, and never a wait for the rest of one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from dataset_num_proc.packing.transport import Channel, Frame, read, record, records_of, rows_body, rows_of, send

FRAMES = [
    Frame(1, 2, 3, 0.5, b"x" * 10),
    Frame(2, 1 << 40, 1 << 41),
    Frame(3, body=bytes(range(256)) * 1000),
]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a socket."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def plain(frame: Frame) -> Frame:
    """A frame whose body compares."""
    return frame._replace(body=bytes(frame.body))


@pytest.mark.parametrize("piece", [1, 7, 33, 34, 100_000])
def test_frames_come_whole(ends: tuple[socket.socket, socket.socket], piece: int) -> None:
    """A frame is there when its last byte is, and not before; what is missing is not waited for."""
    channel = Channel(ends[0])
    got: list[Frame] = []
    data = b"".join(bytes(part) for frame in FRAMES[:2] for part in frame.parts())
    for at in range(0, len(data), piece):
        before = len(got)
        ends[1].sendall(data[at : at + piece])
        got += map(plain, channel.receive())
        assert len(got) > before or at + piece < len(data)
    assert got == FRAMES[:2]


def test_a_cut_message_is_an_end(ends: tuple[socket.socket, socket.socket]) -> None:
    """Where the other end closes in the middle of a frame that is an error at once, on either side."""
    data = b"".join(bytes(part) for part in FRAMES[2].parts())
    ends[1].sendall(data[:1000])
    ends[1].close()
    with pytest.raises(EOFError):
        list(Channel(ends[0]).receive())
    one, other = socket.socketpair()
    with one:
        other.sendall(data[:1000])
        other.close()
        assert read(one) is None


def test_a_full_socket_is_not_waited_for(ends: tuple[socket.socket, socket.socket]) -> None:
    """What does not fit is sent when there is room, in order."""
    channel = Channel(ends[0])
    large = Frame(4, body=bytes(8 << 20))
    channel.put(large)
    channel.put(FRAMES[0])
    assert channel.behind
    ends[1].setblocking(False)  # noqa: FBT003 - the method's only argument
    other = Channel(ends[1])
    got: list[Frame] = []
    while len(got) < 2:
        got += map(plain, other.receive())
        channel.flush()
    assert got == [large, FRAMES[0]]
    assert not channel.behind


def test_both_sides_speak_alike(ends: tuple[socket.socket, socket.socket]) -> None:
    """What a worker sends, small or large, is what the pool takes, and the other way round."""
    send(ends[1], FRAMES[0])
    assert [plain(frame) for frame in Channel(ends[0]).receive()] == [FRAMES[0]]
    Channel(ends[0]).put(FRAMES[1])
    found = read(ends[1])
    assert found is not None
    assert plain(found) == FRAMES[1]


def test_rows_and_results_keep_their_bounds() -> None:
    """Rows and results of any size, none too, come apart as they were put together."""
    rows = [b"", b"a", bytes(1000)]
    assert [bytes(row) for row in rows_of(rows_body(rows))] == rows
    body = b"".join(part for kind, data in enumerate(rows) for part in record(kind, data))
    assert [(kind, bytes(data)) for kind, data in records_of(body)] == list(enumerate(rows))

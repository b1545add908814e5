"""Small files below a root, read without ever raising.

One job: bytes of a file, or `None` with the reason kept. It may not know what any file means; those who do say what was
expected. Descriptors and bytes rather than `open` and `pathlib`, which cost twice as much on files of one line.
"""

from __future__ import annotations

import errno
import os

from dataset_num_proc.policy.facts import Unreadable

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # a recorded machine may be read on Windows
_PAGE = 4096
# The kernel hands these files out whole, or page by page, each cut after a whole line: anything longer is read on.
_WHOLE = 3500
# A file that is not there says nothing: each layout lacks the files of the other, and groups lack those of controllers
# that are off.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})


_LONGEST = 32
"""Bytes of a number with its white space: the kernel's have twenty digits, and longer ones overflow a float."""


class Reader:
    """Reads files below one root and keeps what could not be read.

    Attributes:
        prefix: what stands before each path; empty for the live machine.
        unreadable: what could not be read or understood so far, and why.
    """

    __slots__ = ("prefix", "unreadable")

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self.prefix = os.fsencode(root).rstrip(b"/")
        self.unreadable: list[Unreadable] = []

    @property
    def live(self) -> bool:
        """Whether the root is that of the running machine."""
        return not self.prefix

    def note(self, what: str | bytes, why: str) -> None:
        """Keeps `why` the file or the fact `what` is not known."""
        self.unreadable.append(Unreadable(shown(what) if isinstance(what, bytes) else what, why))

    def read(self, path: bytes) -> bytes | None:
        """The bytes of a file; `None` where there is no such file, and, noted, where it cannot be read."""
        try:
            descriptor = os.open(self.prefix + path, _FLAGS)
            try:
                data = os.read(descriptor, _PAGE)
                if len(data) >= _WHOLE:
                    while more := os.read(descriptor, _PAGE):
                        data += more
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _ABSENT:
                self.note(path, error.strerror or type(error).__name__)
            return None
        except ValueError as error:  # a zero byte in the path, which came out of another file
            self.note(path, str(error))
            return None
        return data

    def number(self, path: bytes) -> int | None:
        """The number that a file holds; `None` for "max", and, noted, for a file with anything else in it."""
        data = self.read(path)
        if data is None:
            return None
        if len(data) <= _LONGEST:
            try:
                return int(data)
            except ValueError:
                pass
        if data.strip() != b"max":
            self.malformed(path, data)
        return None

    def malformed(self, path: bytes, data: bytes) -> None:
        """Notes that a file does not hold what it should."""
        self.note(path, "not understood" if data.strip() else "empty")

    def names(self, directory: bytes) -> list[bytes]:
        """The names in a directory; none, noted, where it cannot be listed."""
        try:
            return os.listdir(self.prefix + directory)  # noqa: PTH208 - bytes, and quicker
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) not in _ABSENT:
                self.note(directory, getattr(error, "strerror", None) or str(error))
            return []


def shown(path: bytes) -> str:
    """A path as text: bytes that are no UTF-8 as escapes, so that the text can be printed anywhere."""
    return path.decode("utf-8", "backslashreplace")


def number_after(text: bytes, key: bytes, unit: bytes = b"") -> int | None:
    r"""The number between `key` and the line's end.

    Args:
        text: a file's bytes, with a newline before the first line.
        key: all that stands before the number, the newline included: b"\nMemTotal:".
        unit: what may stand after the number: b" kB".
    """
    start = text.find(key)
    if start < 0:
        return None
    start += len(key)
    end = text.find(b"\n", start)
    digits = text[start : end if end >= 0 else None].removesuffix(unit)
    try:
        return int(digits) if len(digits) <= _LONGEST else None
    except ValueError:
        return None

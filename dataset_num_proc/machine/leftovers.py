"""Temporary files of a failed map: told from everybody else's by a mark in their names, and removed.

One job: to have the workers that one thread starts name their temporary files with a mark, and to remove the files that
bear it. It may not remove by any other sign: many processes write `tmp*` files into one cache folder at the same time,
on several machines perhaps.

`datasets` writes each shard to a temporary file beside the cache file, and renames it at the end. A worker that dies
leaves its file, and so do the workers that the pool then ends; nobody ever removes them.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Marked:
    """A worker's target, with the mark of its temporary files. Holds nothing but what pickles."""

    target: Callable[..., Any] | None
    mark: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes on whatever the target takes and gives
        """In the child: takes the mark, then does the target's work."""
        tempfile.template = self.mark
        return None if self.target is None else self.target(*args, **kwargs)


@dataclass
class _Marks:
    """The marks of the threads that want one, behind one replacement of `Pool.Process` while there are any."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    of_thread: dict[int, list[str]] = field(default_factory=dict)
    stock: Any = None

    def add(self, mark: str) -> None:
        with self.lock:
            if not self.of_thread:
                pool = import_module("multiprocess.pool").Pool
                self.stock = vars(pool)["Process"]  # the descriptor itself: getattr would unwrap a staticmethod
                pool.Process = staticmethod(self._process(pool.Process))
            self.of_thread.setdefault(threading.get_ident(), []).append(mark)

    def remove(self, mark: str) -> None:
        with self.lock:
            marks = self.of_thread[threading.get_ident()]
            marks.remove(mark)
            if not marks:
                del self.of_thread[threading.get_ident()]
            if not self.of_thread:
                import_module("multiprocess.pool").Pool.Process = self.stock

    def _process(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def process(ctx: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the stock signature
            marks = self.of_thread.get(threading.get_ident())
            if marks:
                kwargs["target"] = Marked(kwargs.get("target"), marks[-1])
            return stock(ctx, *args, **kwargs)

        return process


_marks = _Marks()


@contextmanager
def removed_on_failure(folders: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Where the block fails, removes what the workers of the pools that it started left in these folders.

    Nested inside the scope that prepares the children, and around the whole life of the pool: the workers have ended
    when the block has.

    Args:
        folders: asked after a failure: where the files would be.
    """
    # Begins as every temporary file does, for those who clear such files by name.
    mark = f"tmp{secrets.token_hex(8)}_"
    _marks.add(mark)
    try:
        yield
    except BaseException:  # a Ctrl-C leaves files too
        for folder in set(folders()):
            for path in Path(folder).glob(f"{mark}*"):
                with suppress(OSError):  # the error on its way says more
                    path.unlink()
        raise
    finally:
        _marks.remove(mark)

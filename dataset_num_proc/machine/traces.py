"""Where the children of one scope leave their traces.

One job: to name the files of the next child, in a folder of the scope's own, and to remove the folder. It may not read
what is in them.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dataset_num_proc.machine.early_start import EarlyStart


class Traces:
    """The files of one scope's children; several threads may start some at the same time."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._here = threading.local()

    def next_path(self) -> str:
        """The path of the next child's files, without their endings."""
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix="dataset_num_proc-")
        self._here.path = f"{self._folder}/{next(self._numbers)}"
        return str(self._here.path)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While this thread starts children: `early` is for the one whose path was named last."""
        try:
            yield
        finally:
            self._here.path = None

    def early(self) -> EarlyStart | None:
        """What goes to the fresh interpreter that this thread is starting; `None` where it starts none of ours."""
        path = getattr(self._here, "path", None)
        return None if path is None else EarlyStart(path)

    def remove(self) -> None:
        """Removes what the children have left."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

"""What a fresh interpreter does before it imports anything of the program's.

One job: the lines that travel in the data that such a child reads first. It tells of an import that fails, and does not
outlive its parent from here on: the main module may take seconds to import, and `children.ChildStart` comes after it.
"""

from __future__ import annotations

import os
import sys
import threading

from dataset_num_proc.machine.observed import ERROR


class EarlyStart:
    """Stands in the data that a fresh interpreter reads first.

    It reduces to plain source and to nothing of this package, which that interpreter may not be able to import yet.
    """

    # A child that its parent's main thread has spawned is the kernel's to end. Else, and of a fork server, which stays
    # as long as any child, there is the pipe that the data came by: it is hung up when the parent ends.
    _SOURCE = """
import os, sys

def tell(kind, error, trace, stock=sys.excepthook):
    import traceback
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(traceback.format_exception(kind, error, trace))
    except OSError:
        pass
    stock(kind, error, trace)
sys.excepthook = tell

def follow():
    import ctypes, select, threading
    if by_kernel and os.getppid() == parent and ctypes.CDLL(None).prctl(1, 9, 0, 0, 0) == 0:
        if os.getppid() != parent:
            os._exit(1)
        return
    frame = sys._getframe()
    while frame is not None and "parent_sentinel" not in frame.f_locals:
        frame = frame.f_back
    if frame is not None:
        end = select.poll()
        end.register(frame.f_locals["parent_sentinel"], 0)
        threading.Thread(target=lambda: end.poll() and os._exit(1), daemon=True).start()
follow()
"""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        by_kernel = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
        names = {"path": self.path + ERROR, "parent": os.getpid(), "by_kernel": by_kernel}
        return exec, (self._SOURCE, names)

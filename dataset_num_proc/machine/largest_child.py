"""The most memory that any child of this process has held, as the kernel keeps it.

One job: one figure, exact where a look at the live process comes too late: a worker may grow by gigabytes between two
looks, and is gone after the second.
"""

from __future__ import annotations

import sys

_KIB = 1024


def peak_of_ended_children() -> int:
    """Bytes that the largest child that has ended, and been waited for, held at once; 0 where that is not known.

    Of the whole life of this process. Children of a fork server are not its own.
    """
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB  # macOS counts bytes, Linux and the BSDs KiB

"""Work that one rank does for all of them.

One job: to run it on rank 0 and hand its result to the others, or its failure. Torch is read through `sys.modules`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from dataset_num_proc.errors import PackingError
from dataset_num_proc.packing.outcome import Failure

T = TypeVar("T")


def on_rank_zero(work: Callable[[], T]) -> T:
    """What `work` returns, done once for the process group, or here where there is none.

    Raises:
        PackingError: on the other ranks, where rank 0 failed. Without word from it they would wait in the broadcast for
            as long as the process group's time-out allows, which training frameworks set to hours.
        BaseException: on rank 0, what `work` raises.
    """
    group: Any = sys.modules.get("torch.distributed")
    if group is None or not (group.is_available() and group.is_initialized()) or group.get_world_size() == 1:
        return work()
    box: list[Any] = [None]
    if group.get_rank() == 0:
        try:
            box[0] = work()
        except BaseException as error:
            group.broadcast_object_list([Failure.of(error)], src=0)
            raise
    group.broadcast_object_list(box, src=0)
    if isinstance(box[0], Failure):
        message = f"rank 0 could not pack: {box[0].text}"
        raise PackingError(message) from box[0].error()
    result: T = box[0]
    return result

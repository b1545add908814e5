"""What a call site may say beside the count, and the check that it says nothing else.

One job: `Options`, and what a data set says by itself. What the options mean is the policy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from dataset_num_proc.policy.facts import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataset_num_proc.policy.cost import Profile
    from dataset_num_proc.policy.request import Settings, Workload


class Options(TypedDict, total=False):
    """What a call site may say beside the count; every one is optional.

    Attributes:
        workload: "map" (default) or "packing".
        rows: rows of the data set. Fewer than `Settings.min_rows` are mapped in process unless a count was asked for.
        dataset: the data set itself, in place of `rows`: its longest split is counted, a streamed one takes no workers.
        function: the function to be mapped. Where workers would be fresh interpreters it is checked that they can
            have it.
        bytes_per_worker: private memory that one more worker takes, in bytes.
        profile: a measurement of the work, in place of the fixed cap.
        side_effects: the function changes state of this process, so it must run here.
        touches_accelerator: the function uses an accelerator.
        spawn_ready: whether the function can be sent to a fresh interpreter, where the caller knows.
        streaming: the data set is streamed.
        threads_per_worker: native threads that each worker starts besides its own.
        snapshot: the machine, in place of a fresh reading.
        settings: the operator's word, in place of the environment.
    """

    workload: Workload | str
    rows: int | None
    dataset: object
    function: Callable[..., Any] | None
    bytes_per_worker: int | None
    profile: Profile | None
    side_effects: bool
    touches_accelerator: bool
    spawn_ready: bool | None
    streaming: bool
    threads_per_worker: int
    snapshot: Snapshot | None
    settings: Settings | None


def known(options: Options) -> dict[str, Any]:
    """The options, once it is sure that every one of them is one, and that a snapshot is a snapshot."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        message = f"no such option: {', '.join(sorted(unknown))}; accepted are {', '.join(Options.__annotations__)}"
        raise TypeError(message)
    snapshot = options.get("snapshot")
    if snapshot is not None and not isinstance(snapshot, Snapshot):
        message = (
            f"snapshot={snapshot!r:.80}: accepted is a Snapshot; from_json() makes one of what `doctor --json` wrote"
        )
        raise TypeError(message)
    return dict(options)


def measures(dataset: object) -> dict[str, Any]:
    """What `dataset` itself says: the rows of its longest split, or that it is streamed."""
    splits = list(dataset.values()) if isinstance(dataset, dict) else [dataset]
    sizes = [size for split in splits if (size := _length(split)) is not None]
    return {"rows": max(sizes)} if sizes else {"streaming": bool(splits)}


def _length(split: object) -> int | None:
    """The rows of a split, `None` where it cannot be counted: a streamed one may have a `__len__` that raises."""
    try:
        return len(split)  # type: ignore[arg-type] # the TypeError is the answer
    except TypeError:
        return None

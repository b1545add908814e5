"""`map` and `filter`: decided, applied, watched, and tried again where that can help.

One job: the two names that people call, in the arguments of `datasets`, with what they promise. What happens is in
`tries`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dataset_num_proc.calls import Call
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.request import Settings
from dataset_num_proc.tries import OnDeath, Recovery, run

__all__ = ["STALL_TIMEOUT", "filter", "map"]

STALL_TIMEOUT = 300.0
"""Seconds: half of the ten minutes after which a collective gives up on a rank that does not come to it
(https://docs.pytorch.org/docs/stable/distributed.html), so that the stuck worker is what is reported. A worker that
uses a processor or a disk is not stuck, however long it takes."""


def map(  # noqa: A001, PLR0913 - the name that it has in `datasets`; each option is one keyword
    dataset: Any,  # noqa: ANN401 - any of the four classes of `datasets`, which must not be imported here
    function: Callable[..., Any] | None = None,
    *args: Any,  # noqa: ANN401 - those of `Dataset.map`
    on_death: OnDeath = "step-down",
    retry_killed: bool = False,
    stall_timeout: float | None = STALL_TIMEOUT,
    start_method: str | None = None,
    snapshot: Snapshot | None = None,
    settings: Settings | None = None,
    **kwargs: Any,  # noqa: ANN401 - those of `Dataset.map`
) -> Any:  # noqa: ANN401 - the class of `dataset`
    """`dataset.map(function, …)` with a worker count that fits the machine, and a diagnosis where a worker dies.

    Rows, order, fingerprint and cache files are those of `Dataset.map`. Where workers would be fresh interpreters, one
    is first asked whether the function arrives; if not, the work is done in this process, with a warning that quotes
    it. So it is where the choice is ours, workers would be forked, and the function does not pickle.

    Args:
        dataset: a `Dataset` or a `DatasetDict`. A streamed one is mapped without workers, as it always is.
        function: as in `Dataset.map`.
        *args: as in `Dataset.map` of the installed release.
        on_death: "step-down" to go on with fewer workers where one was killed for memory: at most half as many each
            time, as many as their measured peak allows, in this process last and only if one peak fits there. Finished
            shards are kept (from datasets 4.0 on). "raise" to raise at once.
        retry_killed: also step down where SIGKILL came and nothing shows that the kernel sent it for memory.
        stall_timeout: seconds without progress and without use of a processor or a disk after which the workers are
            called stuck; `None` to wait for ever.
        start_method: as in `dataset_num_proc.workers`.
        snapshot: the machine, in place of a fresh reading.
        settings: the operator's word, in place of the environment.
        **kwargs: as in `Dataset.map`. `num_proc` is a request: `None` or "auto" to choose, 0 or 1 for "in this
            process", else the count asked for.

    Raises:
        WorkerDied: a worker died, and was not or could not be done without; also its kinds `WorkerStalled` and
            `WorkerStartFailed`.
        ScopeBusy, SiteError, TypeError, ValueError: as in `dataset_num_proc.workers`.

    Warns:
        WorkersReduced: fewer workers than asked for, or than before; the message says why.
        StuckInTeardown: as in `dataset_num_proc.watch`.
    """
    recover = Recovery(on_death, retry_killed, stall_timeout)
    call = Call.of("map", dataset, function, args, kwargs)
    return run(call, recover, start_method=start_method, snapshot=snapshot, settings=settings)


def filter(  # noqa: A001, PLR0913 - the name that it has in `datasets`; each option is one keyword
    dataset: Any,  # noqa: ANN401 - as in `map`
    function: Callable[..., Any] | None = None,
    *args: Any,  # noqa: ANN401 - those of `Dataset.filter`
    on_death: OnDeath = "step-down",
    retry_killed: bool = False,
    stall_timeout: float | None = STALL_TIMEOUT,
    start_method: str | None = None,
    snapshot: Snapshot | None = None,
    settings: Settings | None = None,
    **kwargs: Any,  # noqa: ANN401 - those of `Dataset.filter`
) -> Any:  # noqa: ANN401 - as in `map`
    """`dataset.filter(function, …)`, as `map` is `dataset.map(function, …)`; same arguments, errors and warnings.

    `datasets` has the worker count in a filter's cache key: a try with fewer workers starts anew.
    """
    recover = Recovery(on_death, retry_killed, stall_timeout)
    call = Call.of("filter", dataset, function, args, kwargs)
    return run(call, recover, start_method=start_method, snapshot=snapshot, settings=settings)

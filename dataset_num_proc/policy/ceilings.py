"""The rules that bound the count; the lowest wins.

One job: each function is one ceiling: a `Reason` with its limit where it applies, `None` where it does not.
"""

from __future__ import annotations

from functools import partial

from dataset_num_proc.policy.case import Case, available_memory, bytes_per_worker, usable_cpus
from dataset_num_proc.policy.cost import CAP, WAITING_CAP, best_workers, predicted_seconds
from dataset_num_proc.policy.decision import Reason, ReasonCode

WINDOWS_WORKERS = 60
"""WaitForMultipleObjects takes 64 handles, and a pool keeps some for itself (CPython allows an executor 61)."""
FEWEST = 2
"""A pool of one only adds its cost."""
POOL_PIDS = 8
"""Tasks a pool takes besides its workers: three threads in the parent, the manager and the manager's threads."""
STEPS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2)
"""Where the count is part of a cache key, memory steps down through these: a little less of it keeps the cache."""


def asked(case: Case) -> Reason | None:
    """The count that the caller asked for."""
    return None if case.auto else Reason(ReasonCode.ASKED, case.request.workers)


def cap(case: Case) -> Reason | None:
    """The most workers without being asked; measured work that waits may have more."""
    if not case.auto:
        return None
    cap = case.settings.auto_cap
    if case.measured and case.request.profile is not None:
        cap = WAITING_CAP if case.request.profile.waits else CAP
    return Reason(ReasonCode.CAP, cap, {"measured": case.measured})


def cpus(case: Case) -> Reason | None:
    """Half of the share of this rank, at least two, unless it has one cpu; not asked where the work was measured."""
    if not case.auto or case.measured:
        return None
    usable, seen = usable_cpus(case.snapshot)
    share = 0 if usable is None or usable < FEWEST else max(usable // 2, 2)
    return Reason(ReasonCode.CPUS, share, {**seen, "usable": usable})


def memory(case: Case) -> Reason | None:
    """What this rank's share of the available memory covers, stepped down where the count is in a cache key."""
    available, source = available_memory(case.snapshot)
    if available is None:
        return None
    share, ranks = case.settings.memory_share, case.process.local_world_size
    each = bytes_per_worker(case.request, case.settings)
    affordable = int(available * share / ranks / each)
    binds = case.request.workers is None or affordable < case.request.workers
    steps = binds and case.site.keeps_count(case.snapshot.libraries)
    limit = next((step for step in STEPS if step <= affordable), 0) if steps else affordable
    seen = {"available": available, "source": source, "memory_share": share, "local_ranks": ranks}
    return Reason(ReasonCode.MEMORY, limit, {**seen, "bytes_per_worker": each, "affordable": affordable})


def rows(case: Case) -> Reason | None:
    """Never more workers than rows; few rows stay in process unless somebody asked or measured."""
    rows, least = case.request.rows, case.settings.min_rows
    if rows is None:
        return None
    few = case.auto and not case.measured and rows < least
    return Reason(ReasonCode.ROWS, 0 if few else rows, {"rows": rows, "min_rows": least, "few": few})


def pids(case: Case) -> Reason | None:
    """What may still be started, less what the pool itself takes, by what a worker takes."""
    free, ranks, each = case.process.pids_free, case.process.local_world_size, 1 + case.request.threads_per_worker
    if free is None:
        return None
    seen = {"pids_free": free, "local_ranks": ranks, "threads_per_worker": each - 1, "pool": POOL_PIDS}
    return Reason(ReasonCode.PIDS, max(0, (free // ranks - POOL_PIDS) // each), seen)


def windows_handles(case: Case) -> Reason | None:
    """The workers that Windows can wait on."""
    return Reason(ReasonCode.WINDOWS_HANDLES, WINDOWS_WORKERS) if case.process.platform == "win32" else None


def devices(case: Case) -> Reason | None:
    """One worker per visible accelerator, where the function uses one."""
    count = case.process.accelerator_count
    if not case.auto or not case.request.touches_accelerator or count is None:
        return None
    return Reason(ReasonCode.DEVICES, count, {"devices": count})


def cost(case: Case) -> Reason | None:
    """The count with the least predicted time."""
    profile, rows = case.request.profile, case.request.rows
    if not case.auto or profile is None or rows is None:
        return None
    usable = usable_cpus(case.snapshot)[0] or 1
    seconds = partial(predicted_seconds, profile, rows=rows, cpus=usable, start_method=case.method)
    best = best_workers(profile, rows=rows, cpus=usable, start_method=case.method)
    predicted = {"seconds_in_process": seconds(workers=0), "seconds_with_workers": seconds(workers=best)}
    return Reason(ReasonCode.COST, best, {"rows": rows, "cpus": usable, **predicted})

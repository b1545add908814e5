"""What the work costs → the worker count with the least predicted time.

One job: seconds from a `Profile` of the work, with and without workers. It measures nothing.

In process the work takes its own wall time. In a pool, the part that computes is bounded by the cores, and a worker
has one core's worth of it: `datasets` turns a tokenizer's own threads off in its children. The part that waits scales
with the workers.
"""

from __future__ import annotations

from dataclasses import dataclass

CAP = 32
"""Most workers for measured work that computes."""
WAITING_CAP = 64
"""Most workers for measured work that mostly waits: its workers hardly use the cores."""
LEAST_GAIN = 0.1
"""Workers must promise a tenth off the time, or the work stays in process: a prediction is no better than that."""

POOL_SECONDS = 0.10
"""A forked pool, its manager and its end (16 rows: in process 0.003 s, 2 workers 0.11 s, 8 workers 0.17 s)."""
WORKER_SECONDS = {"fork": 0.01, "spawn": 0.5, "forkserver": 0.4}
"""Each further worker, by start method: a spawned one imports everything again (2 workers 1.6 s, 8 workers 4.6 s)."""
TRANSFER_BYTES_PER_SECOND = 500e6
"""The parent pickles one payload after the other: 2 × 98 MB cost 0.4 s."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A measurement of the caller's work.

    Attributes:
        wall_seconds_per_row: elapsed time of a row in process.
        cpu_seconds_per_row: processor time of a row, all threads together. Above the wall time the function is parallel
            already; below it, it waits.
        bytes_per_worker: private memory that one worker was seen to take.
        payload_bytes: what is pickled for each worker: function, arguments, in-memory table.
    """

    wall_seconds_per_row: float
    cpu_seconds_per_row: float
    bytes_per_worker: int | None = None
    payload_bytes: int = 0

    @property
    def waits(self) -> bool:
        """Whether the work waits for more than half of its time."""
        return self.cpu_seconds_per_row < self.wall_seconds_per_row / 2


def predicted_seconds(profile: Profile, *, rows: int, workers: int, cpus: int, start_method: str | None) -> float:
    """Seconds that the whole work takes with `workers` workers; 0 is in process."""
    if workers == 0:
        return rows * profile.wall_seconds_per_row
    start = POOL_SECONDS + workers * WORKER_SECONDS.get(start_method or "spawn", WORKER_SECONDS["spawn"])
    transfer = workers * profile.payload_bytes / TRANSFER_BYTES_PER_SECOND
    one_row = max(profile.wall_seconds_per_row, profile.cpu_seconds_per_row)
    # Not rounded up to whole rows: the steps would make a longer data set get fewer workers here and there.
    working = rows * one_row / workers
    computing = rows * profile.cpu_seconds_per_row / min(workers, max(cpus, 1))
    return start + transfer + max(working, computing)


def best_workers(profile: Profile, *, rows: int, cpus: int, start_method: str | None) -> int:
    """The count with the least predicted time: 0, or 2 and more. The fewest workers win a tie."""
    cap = WAITING_CAP if profile.waits else CAP

    def seconds(workers: int) -> float:
        return predicted_seconds(profile, rows=rows, workers=workers, cpus=cpus, start_method=start_method)

    best = min(range(2, cap + 1), key=seconds)
    return best if seconds(best) < (1 - LEAST_GAIN) * seconds(0) else 0

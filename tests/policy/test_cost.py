"""Measured cost → the worker count with the least predicted time."""

from __future__ import annotations

import pytest

from dataset_num_proc.policy.cost import CAP, POOL_SECONDS, WAITING_CAP, Profile, best_workers, predicted_seconds

MILLISECOND = 1e-3
COMPUTES = Profile(wall_seconds_per_row=2 * MILLISECOND, cpu_seconds_per_row=2 * MILLISECOND)
WAITS = Profile(wall_seconds_per_row=100 * MILLISECOND, cpu_seconds_per_row=MILLISECOND)
PARALLEL = Profile(wall_seconds_per_row=MILLISECOND, cpu_seconds_per_row=8 * MILLISECOND)


@pytest.mark.parametrize(
    ("profile", "waits"),
    [(COMPUTES, False), (WAITS, True), (PARALLEL, False), (Profile(1.0, 0.5), False), (Profile(1.0, 0.49), True)],
)
def test_waiting(profile: Profile, *, waits: bool) -> None:
    """Work waits where its processors are idle for more than half of its time."""
    assert profile.waits is waits


def test_in_process_is_wall_time() -> None:
    """In this process the work takes its own wall time, whatever the machine has."""
    for cpus in (1, 64):
        assert predicted_seconds(PARALLEL, rows=1000, workers=0, cpus=cpus, start_method="fork") == pytest.approx(1.0)


def test_workers_of_a_parallel_function_get_one_core_each() -> None:
    """A function that uses eight cores alone is no faster with workers that get one core each."""
    two = predicted_seconds(PARALLEL, rows=10_000, workers=2, cpus=8, start_method="fork")
    alone = predicted_seconds(PARALLEL, rows=10_000, workers=0, cpus=8, start_method="fork")
    assert alone == pytest.approx(10)
    assert two > 40
    assert best_workers(PARALLEL, rows=10_000, cpus=8, start_method="fork") == 0


def test_the_start_costs_by_method() -> None:
    """Each spawned worker imports everything again, a forked one nothing; an unknown method is the dearest."""
    by_method = {
        method: predicted_seconds(COMPUTES, rows=0, workers=8, cpus=8, start_method=method)
        for method in ("fork", "forkserver", "spawn", None)
    }
    assert by_method["fork"] < by_method["forkserver"] < by_method["spawn"]
    assert by_method[None] == by_method["spawn"]
    assert by_method["fork"] > POOL_SECONDS


def test_payloads_are_sent_one_after_the_other() -> None:
    """What is pickled for each worker costs once for each worker."""
    heavy = Profile(2 * MILLISECOND, 2 * MILLISECOND, payload_bytes=500_000_000)

    def seconds(profile: Profile, workers: int) -> float:
        return predicted_seconds(profile, rows=0, workers=workers, cpus=8, start_method="fork")

    assert seconds(heavy, 4) - seconds(COMPUTES, 4) == pytest.approx(4)
    assert best_workers(heavy, rows=2000, cpus=8, start_method="fork") == 0
    assert best_workers(COMPUTES, rows=2000, cpus=8, start_method="fork") > 2


@pytest.mark.parametrize(
    ("profile", "rows", "cpus", "method", "best"),
    [
        (COMPUTES, 1_000_000, 8, "fork", 8),
        (COMPUTES, 1_000_000, 1, "fork", 0),
        (COMPUTES, 1_000_000, 0, "fork", 0),
        (COMPUTES, 1_000_000, 256, "fork", CAP),
        (WAITS, 1_000_000, 2, "fork", WAITING_CAP),
        (COMPUTES, 0, 64, "fork", 0),
        (COMPUTES, 100, 64, "fork", 0),
        (COMPUTES, 400, 64, "fork", 9),
        (COMPUTES, 500, 64, "spawn", 0),
        (Profile(20e-6, 20e-6), 4578, 64, "fork", 0),
        (Profile(0.0, 0.0), 10**9, 64, "fork", 0),
    ],
)
def test_best_workers(profile: Profile, rows: int, cpus: int, method: str, best: int) -> None:
    """As many as pay: bounded by cores where the work computes, the cap where it waits; none where that is dearer."""
    assert best_workers(profile, rows=rows, cpus=cpus, start_method=method) == best


def test_a_tenth_must_be_gained() -> None:
    """Workers that promise less than a tenth off the time are not started: a prediction is no better than that."""
    gains = {rows: best_workers(COMPUTES, rows=rows, cpus=2, start_method="fork") for rows in (120, 130, 150, 160, 400)}
    assert gains[120] == gains[130] == 0
    assert gains[400] == 2
    for rows, workers in gains.items():
        alone = predicted_seconds(COMPUTES, rows=rows, workers=0, cpus=2, start_method="fork")
        two = predicted_seconds(COMPUTES, rows=rows, workers=2, cpus=2, start_method="fork")
        assert (workers == 2) == (two < 0.9 * alone)


def test_the_fewest_win_a_tie() -> None:
    """Work that costs nothing but its start is never given more workers than needed."""
    flat = Profile(1.0, 1.0)
    assert best_workers(flat, rows=10**6, cpus=4, start_method="fork") == 4

"""Public trouble reports: processes in containers, slices and jobs that believed the host's figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.report import facts_in_full
from tests import recorded
from tests.values import GIB, answer, limits, machine

GB = 10**9


def test_c26_comfyui_14938_host_figures_in_a_container(tmp_path: Path) -> None:
    """90 GB for the container, 45 used of which 5 are cache, are 50 GB, not the host's 880.

    Reported as Comfy-Org/ComfyUI#14938.
    """
    group: dict[str, str | int] = {
        "memory.max": 90 * GB,
        "memory.current": 45 * GB,
        "memory.stat": f"anon {40 * GB}\nfile {5 * GB}\ninactive_file {5 * GB}\nactive_file 0\n",
    }
    files = recorded.v2("/", at_0=group)
    snapshot = take_snapshot(recorded.write(tmp_path, files, total=1000 * GB, available=880 * GB))
    assert (snapshot.memory.headroom, snapshot.memory.limit) == (50 * GB, 90 * GB)
    decision = answer(1000, snapshot)
    assert decision.binding.seen["available"] == 50 * GB
    assert decision.binding.seen["affordable"] == int(25 * GB / GIB)


def test_c28_loky_634_the_limit_is_in_a_slice_above(tmp_path: Path) -> None:
    """A slice with 2 processors and 6 GiB binds the scope in it, which sets no limit of its own (joblib/loky#634)."""
    files = recorded.v2(
        "/user.slice/user-1000.slice/run.scope",
        at_1={"memory.max": "max", "memory.current": 0, "cpu.max": "max 100000"},
        at_2={"memory.max": 6 * GIB, "memory.current": 0, "cpu.max": "200000 100000"},
        at_3={"memory.max": "max", "memory.current": 0, "cpu.max": "max 100000"},
    )
    snapshot = take_snapshot(recorded.write(tmp_path, files))
    assert (snapshot.cpu.quota, snapshot.memory.headroom) == (2.0, 6 * GIB)
    assert str(snapshot.cpu.quota_source).endswith("user-1000.slice/cpu.max")
    decision = answer(None, snapshot)
    assert (decision.workers, decision.binding.code) == (2, ReasonCode.CPUS)


@pytest.mark.parametrize("sentinel", [9223372036854771712, 9223372036854710272, 9223372036854775807])
def test_c30_synapse_3198_no_limit_is_not_a_limit(tmp_path: Path, sentinel: int) -> None:
    """The largest number rounded to a page of any size is "no limit", and is said so (vertexproject/synapse#3198)."""
    files = recorded.v1("/", {"memory.limit_in_bytes": sentinel, "memory.usage_in_bytes": GIB})
    snapshot = take_snapshot(recorded.write(tmp_path, files, available=64 * GIB))
    assert (snapshot.memory.headroom, snapshot.memory.limit) == (None, None)
    assert "no control group limits it" in facts_in_full(snapshot)
    assert limits(answer(100, snapshot))[ReasonCode.MEMORY] == 32


def test_c31_datafusion_comet_5993_page_cache_is_not_used_memory(tmp_path: Path) -> None:
    """9 GiB with 8.99 "used", of which 4 are cache that can be given back, has 4 GiB left.

    Reported as apache/datafusion-comet#5993.

    The report's answer keeps 1 GiB in reserve and gets 3; here half of what is left goes to workers, which is 2.
    """
    current = 9 * GIB - GIB // 100
    group: dict[str, str | int] = {
        "memory.max": 9 * GIB,
        "memory.current": current,
        "memory.stat": f"anon {current - 4 * GIB}\nfile {4 * GIB}\ninactive_file {4 * GIB}\nactive_file 0\n",
    }
    snapshot = take_snapshot(recorded.write(tmp_path, recorded.v2("/kubepods", at_1=group)))
    assert snapshot.memory.headroom == 9 * GIB - current + 4 * GIB
    assert answer(None, snapshot).workers == 2


@pytest.mark.parametrize(
    ("limit", "quota", "usable", "workers"),
    [
        ("250000 100000", 2.5, 2, 2),
        ("200000 100000", 2.0, 2, 2),
        ("50000 100000", 0.5, 1, 0),
        ("max 100000", None, 64, 8),
    ],
)
def test_c32_cpython_149452_a_quota_is_a_bound(
    tmp_path: Path, limit: str, quota: float | None, usable: int, workers: int
) -> None:
    """A quota binds below the affinity mask (python/cpython#149452).

    The report leans to rounding 2.5 up to 3; here a quota is rounded down, since workers beside a busy parent would be
    throttled, and the fraction itself stays in the facts.
    """
    snapshot = take_snapshot(recorded.write(tmp_path, recorded.v2("/job", at_1={"cpu.max": limit})))
    assert snapshot.cpu.quota == quota
    decision = answer(None, snapshot)
    (cpus,) = [reason for reason in decision.reasons if reason.code is ReasonCode.CPUS]
    assert (cpus.seen["usable"], decision.workers) == (usable, workers)


def test_c83_codalab_2046_the_mask_of_a_slurm_step(tmp_path: Path) -> None:
    """A step with 8 of 32 processors has 8; bound to one it has no workers (codalab/codalab-worksheets#2046).

    The report's answer is 8 workers; a free choice takes half of the processors,
    and leaves the parent the rest: 4. Eight that are asked for are eight.
    """
    step = take_snapshot(recorded.write(tmp_path / "step", {}, cpus=32, allowed="8-15"))
    assert (step.cpu.host, step.cpu.affinity) == (32, 8)
    assert answer(None, step).workers == 4
    assert answer(8, step).workers == 8
    single = take_snapshot(recorded.write(tmp_path / "single", {}, cpus=2, allowed="0"))
    assert answer(None, single).workers == 0


def test_the_probe_agrees_with_plain_values(tmp_path: Path) -> None:
    """A machine read from files and the same machine written as values get the same answer."""
    read = take_snapshot(recorded.write(tmp_path, {}, cpus=64, available=480 << 30))
    assert isinstance(read, Snapshot)
    assert answer(None, read).workers == answer(None, machine(available=480 << 30)).workers == 8

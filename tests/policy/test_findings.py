"""What `doctor` finds wrong, each with one next step; a limit that works as it should is no finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dataset_num_proc.policy.facts import MainModule, Snapshot
from dataset_num_proc.policy.findings import CHECKS, Finding, findings
from dataset_num_proc.policy.request import Settings
from tests.values import GIB, MIB, machine, starts


def found(
    snapshot: Snapshot, settings: Settings | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, Finding]:
    """The findings by code."""
    return {finding.code: finding for finding in findings(snapshot, settings or Settings(), environ or {})}


CASES: list[tuple[dict[str, Any], dict[str, str], str, str, str]] = [
    ({}, {"DATASET_NUM_PROC": "banana"}, "variable-ignored", "DATASET_NUM_PROC='banana'", "whole number"),
    ({"available": None}, {}, "memory-unknown", "no count is bounded by memory", "DATASET_NUM_PROC"),
    ({"available": 4 * GIB - 1}, {}, "memory-short", "4.0 GiB available (MemAvailable)", "bytes_per_worker="),
    ({"available": 16 * GIB, "local_world_size": 8}, {}, "memory-short", "each rank", "bytes_per_worker="),
    ({"pids_free": 23}, {}, "few-pids", "Only 23 more", "pids.max"),
    ({"pids_free": 100, "local_world_size": 8}, {}, "few-pids", "Only 100 more", "pids.max"),
    ({"shm_free": 64 * MIB}, {}, "small-shm", "Only 64 MiB of /dev/shm", "--shm-size"),
    ({"shm_free": 0}, {}, "small-shm", "Only 0 MiB of /dev/shm", "--shm-size"),
    ({}, {"TMPDIR": "/" + "t" * 109}, "long-tmpdir", "TMPDIR is 110 bytes long", "/tmp"),
    ({}, {"TEMP": "/" + "ü" * 40}, "long-tmpdir", "81 bytes long", "/tmp"),
    (
        {"multiprocessing": starts("spawn", pinned=True)},
        {},
        "start-methods-differ",
        "multiprocessing was set to spawn, but datasets maps through multiprocess, which uses fork",
        "start_method=",
    ),
    ({"accelerators": frozenset({"cuda"})}, {}, "fork-hazards", "cuda is initialised", '"auto"'),
    (
        {"method": "spawn", "main": MainModule.UNGUARDED, "main_file": "train.py", "main_line": 12},
        {},
        "unguarded-main",
        "train.py cannot be imported again",
        'Put line 12 of train.py and what follows under `if __name__ == "__main__":`',
    ),
    ({"method": "spawn", "main": MainModule.STDIN}, {}, "unguarded-main", "stdin cannot be imported", "script file"),
    (
        {"torch": "2.13.0", "accelerator_count": 1},
        {},
        "nvml-check",
        "is_available()",
        "PYTORCH_NVML_BASED_CUDA_CHECK=1",
    ),
]


@pytest.mark.parametrize(("facts", "environ", "code", "text", "step"), CASES)
def test_findings(facts: dict[str, Any], environ: dict[str, str], code: str, text: str, step: str) -> None:
    """Each thing to mend is found alone, says what was seen, and has one next step."""
    every = found(machine(**facts), Settings.from_environ(environ), environ)
    assert set(every) == {code}
    assert text in every[code].text
    assert step in every[code].next


@pytest.mark.parametrize(
    ("facts", "environ"),
    [
        ({}, {}),
        ({}, {"DATASET_NUM_PROC": "4"}),
        ({"available": 4 * GIB}, {}),
        ({"available": None, "headroom": 4 * GIB}, {}),
        ({"pids_free": 24}, {}),
        ({"shm_free": 256 * MIB}, {}),
        ({}, {"TMPDIR": "/" + "t" * 66}),
        ({}, {"TMPDIR": "/tmp", "TEMP": "/" + "t" * 109}),
        ({}, {"TMPDIR": ""}),
        ({"method": "spawn", "platform": "win32"}, {"TEMP": "C:" + "t" * 109}),
        ({"multiprocessing": starts("spawn")}, {}),
        ({"multiprocessing": starts("fork", pinned=True)}, {}),
        ({"method": "spawn", "accelerators": frozenset({"cuda"})}, {}),
        ({"method": "spawn", "main": MainModule.FILE}, {}),
        ({"main": MainModule.UNGUARDED}, {}),
        ({"torch": None, "accelerator_count": 1}, {}),
        ({"torch": "2.13.0", "accelerator_count": 0}, {}),
        ({"torch": "2.13.0", "accelerator_count": None}, {}),
        ({"torch": "2.13.0", "accelerator_count": 1}, {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}),
    ],
)
def test_nothing_is_wrong(facts: dict[str, Any], environ: dict[str, str]) -> None:
    """The near misses of each finding are no finding."""
    assert found(machine(**facts), Settings.from_environ(environ), environ) == {}


def test_both_ignored_variables() -> None:
    """All variables that were ignored stand in one finding."""
    environ = {"DATASET_NUM_PROC": "x", "DATASET_NUM_PROC_START_METHOD": "thread"}
    finding = found(machine(), Settings.from_environ(environ), environ)["variable-ignored"]
    assert "DATASET_NUM_PROC='x'; DATASET_NUM_PROC_START_METHOD='thread'" in finding.text


def test_every_check_has_a_case() -> None:
    """No check is without a case that makes it speak."""
    assert len({code for _, _, code, _, _ in CASES}) == len(CHECKS)


def test_order() -> None:
    """Several findings come in the order of the checks."""
    sick = machine(available=None, pids_free=0, shm_free=0, accelerators=frozenset({"cuda"}))
    assert list(found(sick)) == ["memory-unknown", "few-pids", "small-shm", "fork-hazards"]

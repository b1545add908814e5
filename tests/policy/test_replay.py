"""A snapshot survives JSON, so that a decision can be replayed on another machine."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from dataset_num_proc.policy.facts import (
    CpuFacts,
    LibraryFacts,
    MainModule,
    MemoryFacts,
    ProcessFacts,
    Snapshot,
    StartMethods,
    Unreadable,
)
from dataset_num_proc.policy.replay import from_json, to_json
from tests.values import GIB, machine, starts

FULL = Snapshot(
    cpu=CpuFacts(host=64, affinity=4, quota=2.5, quota_source="cpu.max", declared={"SLURM_CPUS_PER_TASK": 4}),
    memory=MemoryFacts(
        available=GIB,
        headroom=GIB - 1,
        limit=2 * GIB,
        headroom_source="memory.max",
        declared={"SLURM_MEM_PER_NODE": GIB},
        shm_free=0,
    ),
    process=ProcessFacts(
        platform="darwin",
        python="3.14.0rc1",
        daemonic={"multiprocess": True, "multiprocessing": False},
        threads=9,
        main=MainModule.UNGUARDED,
        accelerators=frozenset({"cuda", "/dev/nvidia0"}),
        distributed=True,
        local_rank=3,
        local_world_size=8,
        pids_free=100,
        python_threads=2,
        runtimes=frozenset({"ray"}),
        importing="prepare",
        main_file="train.py",
        main_line=12,
        cpus_per_rank=True,
        accelerator_count=6,
    ),
    start_methods=StartMethods(starts("spawn", pinned=True), starts(None, offered=())),
    libraries=LibraryFacts(datasets="5.2.0", multiprocess="0.70.19", torch="2.13.0"),
    unreadable=(Unreadable("memory.max", "Permission denied"), Unreadable("pids.max", "not there")),
)


@pytest.mark.parametrize("snapshot", [Snapshot(), machine(), FULL])
def test_round_trip(snapshot: Snapshot) -> None:
    """What was written as JSON text is read back equal."""
    assert from_json(json.loads(json.dumps(to_json(snapshot)))) == snapshot


def test_the_full_snapshot_is_full() -> None:
    """No field of the round trip above is at its default, so none of them could be lost unseen."""
    for part in ("cpu", "memory", "process", "libraries"):
        default, value = getattr(Snapshot(), part), getattr(FULL, part)
        same = {field.name for field in fields(value) if getattr(value, field.name) == getattr(default, field.name)}
        assert same == set()


def test_a_doctor_document_is_read() -> None:
    """A whole document that holds a snapshot is as good as the snapshot."""
    assert from_json({"schema": 1, "snapshot": to_json(FULL), "findings": []}) == FULL


def test_what_is_missing_takes_its_default() -> None:
    """A document of an older release, with fewer keys, is read."""
    assert from_json({}) == Snapshot()
    assert from_json({"cpu": {"host": 4}}) == Snapshot(cpu=CpuFacts(host=4))
    assert from_json({"unreadable": [{"what": "m"}]}) == Snapshot(unreadable=(Unreadable("m", ""),))


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"cpu": 4},
        {"cpu": {"cores": 4}},
        {"weather": {}},
        {"process": {"main": "weird"}},
        {"process": []},
        {"process": {"accelerators": 5}},
        {"process": {"accelerators": "cuda"}},
        {"process": {"runtimes": "ray"}},
        {"start_methods": {"threading": {}}},
        {"start_methods": {"multiprocess": "fork"}},
        {"start_methods": {"multiprocess": {"offered": 3}}},
        {"libraries": None},
        {"unreadable": 5},
        {"unreadable": ["memory"]},
        {"unreadable": [{"who": "memory"}]},
        {"snapshot": 3},
    ],
)
def test_malformed_documents(document: Any) -> None:  # noqa: ANN401 - whatever a file holds
    """A key that no snapshot has, or a part of the wrong type, is a value error."""
    with pytest.raises(ValueError, match=r"."):
        from_json(document)


def test_the_error_names_the_key() -> None:
    """The message names the part and the key."""
    with pytest.raises(ValueError, match="CpuFacts has no cores"):
        from_json({"cpu": {"cores": 4}})
    with pytest.raises(ValueError, match="cpu is a mapping, not 4"):
        from_json({"cpu": 4})


def test_sets_are_written_in_order() -> None:
    """The same snapshot is always the same text."""
    assert to_json(FULL)["process"]["accelerators"] == ["/dev/nvidia0", "cuda"]

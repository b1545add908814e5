"""The probe on recorded machines: each finds what its file says must be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.policy.facts import LibraryFacts, Snapshot
from tests.machine.recorded import RecordedMachine, recorded_machines
from tests.values import answer

MACHINES = recorded_machines()
machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def found(snapshot: Snapshot) -> dict[str, object]:
    """The facts of a snapshot by the names that `expect` uses."""
    cpu, memory = snapshot.cpu, snapshot.memory
    return {
        "host": cpu.host,
        "affinity": cpu.affinity,
        "quota": cpu.quota,
        "quota_source": cpu.quota_source,
        "declared": cpu.declared,
        "available": memory.available,
        "limit": memory.limit,
        "headroom": memory.headroom,
        "headroom_source": memory.headroom_source,
        "memory_declared": memory.declared,
        "pids_free": snapshot.process.pids_free,
    }


@machines
def test_facts(machine: RecordedMachine, tmp_path: Path) -> None:
    """Every expected fact is found, exactly."""
    facts = found(take_snapshot(machine.write(tmp_path)))
    expected = {name: value for name, value in machine.expect.items() if name in facts}
    assert {name: facts[name] for name in expected} == expected
    assert expected.keys() >= {"host", "affinity", "quota", "limit", "headroom"}


@machines
def test_unreadable(machine: RecordedMachine, tmp_path: Path) -> None:
    """What could not be read is said, and so is why each fact is missing that is not known."""
    snapshot = take_snapshot(machine.write(tmp_path))
    said = {entry.what for entry in snapshot.unreadable}
    assert said >= set(machine.expect.get("unreadable", ()))
    facts = found(snapshot)
    parts = {"cpu": ("host", "affinity", "quota"), "memory": ("available", "headroom"), "process": ("pids_free",)}
    missing = {f"{part}.{name}" for part, names in parts.items() for name in names if facts[name] is None}
    assert said >= missing
    assert all(entry.why for entry in snapshot.unreadable)


@machines
def test_sources_are_files_of_the_machine(machine: RecordedMachine, tmp_path: Path) -> None:
    """A source is the path of a file as the recorded machine has it, and holds the fact."""
    snapshot = take_snapshot(machine.write(tmp_path))
    for source in filter(None, (snapshot.cpu.quota_source, snapshot.memory.headroom_source)):
        assert source.removeprefix("/") in machine.files


@pytest.mark.parametrize("machine", [one for one in MACHINES if "auto" in one.expect], ids=lambda machine: machine.name)
def test_answers(machine: RecordedMachine, tmp_path: Path) -> None:
    """The policy answers as expected on the recorded machine, with a `datasets` for which the count is no cache key."""
    snapshot = replace(take_snapshot(machine.write(tmp_path)), libraries=LibraryFacts(datasets="5.2.0"))
    assert (answer(None, snapshot).workers or None) == machine.expect["auto"]
    assert (answer(16, snapshot).workers or None) == machine.expect["ask16"]


def test_every_way_of_not_reading(tmp_path: Path) -> None:
    """Each file in turn missing, empty, malformed or forbidden raises nothing, and what is there is said."""
    machine = next(one for one in MACHINES if one.name == "slurm-v1")
    for number, path in enumerate(machine.files):
        rest = {name: text for name, text in machine.files.items() if name != path}
        for way, files, forbidden in (
            ("missing", rest, ()),
            ("empty", {**rest, path: ""}, ()),
            ("malformed", {**rest, path: "\x00?\n"}, ()),
            ("forbidden", rest, (path,)),
        ):
            root = replace(machine, files=files, forbidden=forbidden).write(tmp_path / f"{number}-{way}")
            said = {entry.what for entry in take_snapshot(root).unreadable}
            # The usage of a group without a limit, for one, is not even asked for.
            needed = path.startswith("proc/") or path.endswith(
                ("/online", "/memory.limit_in_bytes", "/cpu.cfs_quota_us")
            )
            assert not needed or way != "forbidden" or f"/{path}" in said


def test_membership_that_says_nothing(tmp_path: Path) -> None:
    """An empty /proc/self/cgroup is said, and the limits of the mounts themselves are taken."""
    machine = next(one for one in MACHINES if one.name == "docker-v2")
    files = {**machine.files, "proc/self/cgroup": ""}
    snapshot = take_snapshot(replace(machine, files=files).write(tmp_path))
    assert snapshot.cpu.quota == 4.0
    assert {"/proc/self/cgroup", "control group of cpu"} <= {entry.what for entry in snapshot.unreadable}

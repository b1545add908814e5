"""Public trouble reports: workers that died, and what is said of them; in real pools.

C01, C03, C05. That a worker's cost is found by running a few rows (C05) is sizing by measurement, and no part of this:
here it is given.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dataset_num_proc.death_report import death_message
from dataset_num_proc.policy.autopsy import Death, Evidence, MemoryEvidence, Verdict, autopsy
from tests.capabilities import needs_datasets, needs_linux
from tests.machine.test_memory_evidence import V2, seen
from tests.machine.test_watch import outcome
from tests.values import GIB, MIB, answer, machine


def test_c01_unsloth_2693_killed_for_memory() -> None:
    """The pid, the shard, the signal by name, the counter 3 → 4, the limit, and a next step that is not 1.

    Reported as unslothai/unsloth#2693.
    """
    evidence = Evidence(
        deaths=(Death(4711, -9, shard=1, signal="SIGKILL"),),
        memory=MemoryEvidence(group_kills=1, before=3, limit=4 * GIB, source="/sys/fs/cgroup/memory.events"),
    )
    text = death_message(autopsy(evidence), evidence)
    for part in ("4711", "shard 1", "signal 9 (SIGKILL)", "3 → 4", "4.0 GiB", "DATASET_NUM_PROC=2"):
        assert part in text
    assert "num_proc=1" not in text


def test_c01_unsloth_2693_the_counter_of_a_group(tmp_path: Path) -> None:
    """Between two looks at the group's own counter one kill is counted: it is memory, and both figures are shown.

    Reported as unslothai/unsloth#2693.
    """
    memory = seen(tmp_path, V2, {"step": 3, "job": 3}, {"step": 4, "job": 4}, host=6)
    evidence = Evidence(deaths=(Death(4711, -9, shard=1, signal="SIGKILL"),), memory=memory)
    assert autopsy(evidence) is Verdict.OUT_OF_MEMORY
    assert "/job/step/memory.events counted 3 → 4 kills for memory" in death_message(autopsy(evidence), evidence)


@needs_linux
@needs_datasets
@pytest.mark.parametrize("status", [0, 3])
def test_c03_data_juicer_430_exits_are_not_memory(status: int) -> None:
    """A worker that leaves with a status is told from one that a signal ended, and memory is not mentioned.

    Reported as datajuicer/data-juicer#430.
    """
    said = outcome(f"map:_exit{status}")
    assert said["verdict"] == "exited"
    assert f"exited with status {status}" in said["text"]
    assert "memory" not in said["text"].lower().replace("out-of-memory", "")


def test_c24_auto_round_1980_a_segfault_is_a_segfault() -> None:
    """A crash of a forked child is not memory, also where memory is short (intel/auto-round#1980)."""
    evidence = Evidence(deaths=(Death(1, -11, signal="SIGSEGV"),), memory=MemoryEvidence(group_kills=1))
    assert autopsy(evidence) is Verdict.SEGFAULT
    assert "signal 11 (SIGSEGV)" in death_message(Verdict.SEGFAULT, evidence)


def test_c05_ms_swift_6042_the_cost_is_measured() -> None:
    """400 MB a worker do not fit twice into what is left of 1 GiB: in this process (modelscope/ms-swift#6042)."""
    small = machine(available=64 * GIB, headroom=1 * GIB, limit=1 * GIB)
    assert answer(None, small, bytes_per_worker=400 * MIB).workers == 0

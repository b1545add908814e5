"""Public trouble reports: signals, sent from outside or swallowed by the parent's handlers.

C49 and C60, and the bus error of C75. None of them is about sizing by measurement.
"""

from __future__ import annotations

from dataset_num_proc.death_report import death_message
from dataset_num_proc.policy.autopsy import Death, Evidence, MemoryEvidence, Verdict, autopsy
from tests.capabilities import needs_datasets, needs_linux
from tests.machine.test_watch import outcome
from tests.scripts import run

HANDLER = """
import json, os, signal, sys, time
import datasets
from tests.left_running import left_running
import dataset_num_proc as dnp
datasets.disable_progress_bars()
signal.signal(signal.SIGTERM, lambda number, frame: None)
def work(row, index):
    if index == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60 if index >= 20 else 0)
    return {"y": index}
rows = datasets.Dataset.from_dict({"x": list(range(40))})
try:
    with dnp.watch():
        rows.map(work, with_indices=True, num_proc=2)
except dnp.WorkerDied as error:
    said = [error.verdict.value, sorted(map(str, error.exit_codes.values()))]
print(json.dumps([said, left_running()]))
"""


@needs_linux
@needs_datasets
def test_c49_verl_7163_a_handler_that_swallows_sigterm() -> None:
    """Workers inherit it and do not end by SIGTERM; the death is reported all the same, and they are gone.

    Reported as verl-project/verl#7163.
    """
    said, left = run("-c", HANDLER).json()
    assert said[0] == "killed"
    assert left == []


@needs_linux
@needs_datasets
def test_c60_dataset_viewer_2749_sigterm_from_outside() -> None:
    """A first death by SIGTERM is one from outside, though the pool ends its other workers by SIGTERM too.

    Reported as huggingface/dataset-viewer#2749.
    """
    said = outcome("map:SIGTERM")
    assert (said["verdict"], said["first"][1]) == ("signalled", -15)
    assert "a scheduler, a preemption" in said["text"]


def test_c60_sigterm_beside_kills_for_memory() -> None:
    """It is never called out of memory."""
    evidence = Evidence(deaths=(Death(1, -15, signal="SIGTERM"),), memory=MemoryEvidence(group_kills=2, host_kills=2))
    assert autopsy(evidence) is Verdict.SIGNALLED
    assert "kills for memory" not in death_message(Verdict.SIGNALLED, evidence)


def test_c75_pytorch_5040_a_bus_error_says_what_is_full() -> None:
    """With the state of /dev/shm and of the disk, and no word of memory (pytorch/pytorch#5040)."""
    evidence = Evidence(deaths=(Death(1, -7, signal="SIGBUS"),), shm_free=0, disk_free=1 << 30)
    text = death_message(autopsy(evidence), evidence)
    for part in ("signal 7 (SIGBUS)", "0 B free in /dev/shm", "1.0 GiB on the disk", "--shm-size"):
        assert part in text

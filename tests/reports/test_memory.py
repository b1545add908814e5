"""Public trouble reports: workers that together need more memory than there is.

C34 and C36, and of the dead workers C01 and C05. The cost of a worker is given here; to find it by running a few rows
(C05, C36) is sizing by measurement, and no part of this.
"""

from __future__ import annotations

import pytest

from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.encoding import encode
from dataset_num_proc.policy.facts import MainModule
from dataset_num_proc.report import in_one_line
from tests.values import GIB, answer, machine, starts


@pytest.mark.parametrize(("free", "workers"), [(3, 0), (4, 2), (6, 3)])
def test_c34_unsloth_zoo_87_32_processors_and_little_memory(free: int, workers: int) -> None:
    """On Windows with 32 processors and little memory it is memory that binds, and the answer says so.

    Reported as unslothai/unsloth-zoo#87.

    The report's answer for 3 GiB is 2 with 1 GiB in reserve; here half of the memory is the run's, so 4 GiB are 2.
    """
    spawn = starts("spawn", offered=("spawn",))
    facts = {"platform": "win32", "main": MainModule.FILE, "host": 32, "affinity": None}
    decision = answer(None, machine(multiprocess=spawn, multiprocessing=spawn, available=free * GIB, **facts))
    assert (decision.workers, decision.binding.code) == (workers, ReasonCode.MEMORY)


def test_c36_axolotl_3898_rows_as_large_as_pages() -> None:
    """Workers of 186 GiB with 370 free are none at all, never "try 1" (axolotl-ai-cloud/axolotl#3898).

    With 6 GiB a worker the report's answer is 48; half of 370 GiB covers 30.
    """
    large = machine(host=48, affinity=48, available=370 * GIB)
    decision = answer(8, large, bytes_per_worker=186 * GIB)
    assert (decision.workers, encode(decision)) == (0, None)
    line = in_one_line(decision, "map")
    assert "186.0 GiB a worker" in line
    assert "=1" not in line
    assert answer(48, large, bytes_per_worker=6 * GIB).workers == 30


@pytest.mark.parametrize(("limit", "workers"), [(4 * GIB, 0), (6 * GIB, 2), (5 * GIB // 2, 0)])
def test_c01_unsloth_2693_a_container_of_a_few_gigabytes(limit: int, workers: int) -> None:
    """With 1 GiB in use a container of 6 GiB takes 2 workers, one of 2.5 GiB none (unslothai/unsloth#2693).

    The report's answer for 4 GiB is 2 with 1 GiB in reserve; here half of the 3 GiB left go to workers, which is
    1, and one worker is none.
    """
    decision = answer(4, machine(headroom=limit - GIB, limit=limit, headroom_source="memory.max"))
    assert decision.workers == workers
    assert decision.binding.code is ReasonCode.MEMORY


def test_c05_ms_swift_6042_a_worker_costs_what_it_was_seen_to_cost() -> None:
    """Workers of 400 MB with 1 GiB free are none, and the reason names both figures (modelscope/ms-swift#6042)."""
    decision = answer(4, machine(headroom=GIB, headroom_source="memory.max"), bytes_per_worker=400 << 20)
    assert decision.workers == 0
    assert "1.0 GiB available" in in_one_line(decision, "map")
    assert "400.0 MiB a worker" in in_one_line(decision, "map")

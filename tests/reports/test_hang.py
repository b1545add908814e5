"""Public trouble reports: maps that never come back, as far as a decision avoids them.

C06, C07, C10, C11, C13, C14. What is said where one hangs all the same stands in `tests/machine/test_stall.py`: a lock
held at the fork (C06), threads that are not there after it (C10), a map at import time (C14). A real tokenizer in
workers (C11) is in `tests/sites/test_scope.py`. None of these is about sizing by measurement; the two rows of C07 are
few by count.
"""

from __future__ import annotations

import pytest

from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.facts import MainModule
from dataset_num_proc.policy.findings import findings
from dataset_num_proc.policy.request import Settings, Workload
from dataset_num_proc.policy.worker_environment import worker_environment
from dataset_num_proc.report import sentence
from tests import scripts
from tests.values import GIB, answer, machine

THREADED = {"threads": 9, "python_threads": 1}


def test_c06_datasets_5094_threads_that_hold_locks() -> None:
    """Left to choose beside native threads, a clean start method is taken, and the threads are counted.

    Reported as huggingface/datasets#5094.
    """
    decision = answer(4, machine(main=MainModule.FILE, **THREADED), start_method="auto")
    assert (decision.workers, decision.start_method) == (4, "forkserver")
    assert "native threads: 8" in sentence(decision.reasons[-1])
    unguarded = machine(main=MainModule.UNGUARDED, **THREADED)
    assert answer(4, unguarded, start_method="auto").workers == 0


def test_c07_trl_1964_two_rows() -> None:
    """Two rows are not worth a worker on 8 processors, and the reason says how many there were.

    Reported as huggingface/trl#1964.
    """
    decision = answer(None, machine(host=8, affinity=8, available=64 * GIB), rows=2)
    assert (decision.workers, decision.binding.code) == (0, ReasonCode.ROWS)
    assert decision.binding.seen["rows"] == 2


@pytest.mark.parametrize(("threads", "method"), [(8, "forkserver"), (1, "fork")])
def test_c10_ms_swift_6587_packing_beside_a_thread_pool(threads: int, method: str) -> None:
    """Packing workers beside native threads are not forked; with none, fork is allowed (modelscope/ms-swift#6587).

    The report's answer is spawn; forkserver, where offered, is as clean.
    """
    snapshot = machine(threads=threads, python_threads=1)
    assert answer(4, snapshot, workload=Workload.PACKING).start_method == method


@pytest.mark.parametrize("own", [{}, {"TOKENIZERS_PARALLELISM": "true"}])
def test_c11_specforge_422_a_tokenizers_threads(own: dict[str, str]) -> None:
    """The count stays; workers get `TOKENIZERS_PARALLELISM=false` unless the user has set it.

    Reported as sgl-project/SpecForge#422.
    """
    assert answer(16).workers == 16
    assert worker_environment(16, 32, own).get("TOKENIZERS_PARALLELISM") == (None if own else "false")


def test_c13_skyrl_1415_ray_is_up() -> None:
    """With Ray up a choice is not fork, and setting `multiprocessing` is said to have no effect.

    Reported as NovaSky-AI/SkyRL#1415.
    """
    ray = machine(runtimes=frozenset({"ray"}), main=MainModule.FILE)
    decision = answer(8, ray, start_method="auto")
    assert (decision.workers, decision.start_method) == (8, "forkserver")
    assert "ray is running" in sentence(decision.reasons[-1])


FAKE_RAY = """
import json, sys, types, multiprocessing
ray = types.ModuleType("ray")
ray.is_initialized = lambda: True
sys.modules["ray"] = ray
multiprocessing.set_start_method("spawn")
from dataset_num_proc.policy.findings import findings
import dataset_num_proc as dnp
snapshot = dnp.take_snapshot()
print(json.dumps([sorted(snapshot.process.runtimes), [item.code for item in findings(snapshot, dnp.Settings(), {})]]))
"""


def test_c13_skyrl_1415_seen_in_a_live_process() -> None:
    """Ray is seen where it is up, and so is a method that was set on the module that does not map."""
    runtimes, codes = scripts.run("-c", FAKE_RAY).json()
    assert runtimes == ["ray"]
    assert {"fork-hazards", "start-methods-differ"} <= set(codes)


def test_c14_datasets_7756_a_map_while_a_module_is_imported() -> None:
    """No workers while a module is being imported, with its name and where the call belongs.

    Reported as huggingface/datasets#7756.
    """
    decision = answer(2, machine(importing="prepare"))
    assert (decision.workers, decision.binding.code) == (0, ReasonCode.IMPORTING)
    assert "prepare" in sentence(decision.binding)
    assert "under a function" in sentence(decision.binding)


@pytest.mark.parametrize(("cpus", "threads"), [(16, "2"), (4, "1"), (None, None)])
def test_c48_llamafactory_10825_threads_of_each_worker(cpus: int | None, threads: str | None) -> None:
    """8 workers on 16 processors run 2 threads each, a user's own setting is kept (hiyouga/LlamaFactory#10825)."""
    wanted = worker_environment(8, cpus, {"MKL_NUM_THREADS": "5"})
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        assert wanted.get(name) == threads
    assert "MKL_NUM_THREADS" not in wanted


def test_a_clean_machine_has_no_finding() -> None:
    """A process with nothing up is told nothing."""
    assert findings(machine(), Settings(), {}) == ()

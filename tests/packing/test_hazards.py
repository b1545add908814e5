"""How workers start where live state makes a fork unsafe, and what they are then."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc.errors import UnsafeStartMethod
from dataset_num_proc.packing import EncoderPool, Kind
from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.request import Settings
from tests.capabilities import needs_torch
from tests.packing import encoders
from tests.packing.pools import pool, values
from tests.scripts import run
from tests.values import machine

HAZARDS: dict[str, dict[str, Any]] = {
    "cuda": {"accelerators": frozenset({"cuda"})},
    "xpu": {"accelerators": frozenset({"xpu"})},
    "npu": {"accelerators": frozenset({"npu"})},
    "open device": {"accelerators": frozenset({"/dev/nvidia0"})},
    "distributed": {"distributed": True},
    "native threads": {"threads": 9, "python_threads": 1},
}


@pytest.mark.parametrize("state", HAZARDS.values(), ids=HAZARDS)
def test_hazards_choose_a_clean_method(state: dict[str, Any]) -> None:
    """Each hazard alone has workers come from a fork server, with the reason in the decision."""
    with EncoderPool(encoders.encode, workers=2, snapshot=machine(**state), settings=Settings()) as made:
        decision = made.plan()
    assert (decision.workers, decision.start_method) == (2, "forkserver")
    (reason,) = (one for one in decision.reasons if one.code is ReasonCode.START_METHOD)
    assert reason.seen["hazards"]


def test_choice_comes_from_the_one_who_insists() -> None:
    """An argument comes before the environment, which comes before hazards; a fork against them is obeyed and said."""
    unsafe = machine(accelerators=frozenset({"cuda"}))
    with EncoderPool(encoders.encode, workers=2, snapshot=unsafe, settings=Settings(start_method="spawn")) as made:
        assert made.plan().start_method == "spawn"
        made.start_method = "forkserver"
        assert made.plan().start_method == "forkserver"
        made.start_method = "fork"
        with pytest.warns(UnsafeStartMethod, match="cuda is initialised"):
            assert made.plan().start_method == "fork"


def test_fork_server_imports_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the encoder needs is imported once for all workers, from wherever this process has it."""
    heavy = tmp_path / "heavy_encoder.py"
    heavy.write_text("import os\nIMPORTED_BY = os.getpid()\ndef encode(row):\n    return IMPORTED_BY, os.getpid()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.spec_from_file_location("heavy_encoder", heavy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "heavy_encoder", module)
    spec.loader.exec_module(module)
    with pool(module.encode, "forkserver", workers=3) as made:
        seen = values(made.encode(range(300)))
    (importer,) = {pid for pid, _ in seen}
    assert importer not in {os.getpid(), *(pid for _, pid in seen)}


def test_count_is_divided_among_those_that_iterate() -> None:
    """Ranks of a node share it; where only some of them iterate, those alone are counted."""
    node = machine(local_world_size=8, available=64 << 30)
    with EncoderPool(encoders.encode, workers=16, snapshot=node, settings=Settings()) as made:
        with pytest.warns(UserWarning, match="16 asked"):
            assert made.plan().workers == 4
        made.consumers = 1
        assert made.plan().workers == 16
        made.workers = None
        assert made.plan().workers == 8


TORCH = """
import json, torch
from torch.utils.data import DataLoader, IterableDataset
from dataset_num_proc.packing import EncoderPool
from tests.left_running import left_running
from tests.packing import torch_encoders

if __name__ == "__main__":
    torch.zeros(2, 100_000) + 1  # its OpenMP pool is up now
    torch.mm(torch.ones(400, 400), torch.ones(400, 400))
    out = {}
    with EncoderPool(torch_encoders.tensor, workers=2) as pool:
        out["tensors"] = [one.value.tolist() for one in pool.encode(range(3))]
        out["method"] = pool.decision.start_method
    data = torch_encoders.Encoded()
    loader = DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context="fork", persistent_workers=True)
    out["forked"] = [[int(row) for row in loader] for _ in range(2)]
    del loader
    out["left"] = left_running()
    print(json.dumps(out))
"""


@needs_torch
def test_with_torch_threads_and_data_loaders(tmp_path: Path) -> None:
    """With torch's threads up workers are clean and torch works in them; a DataLoader's worker gives the same rows.

    The operation of the report: https://github.com/modelscope/ms-swift/issues/6587
    """
    script = tmp_path / "train.py"
    script.write_text(TORCH, encoding="utf-8")
    out = run(script, folder=tmp_path).json()
    rows = list(range(0, 60, 2))
    tensors = [[100_000.0 * row] * 2 for row in range(3)]
    assert out == {"method": "forkserver", "tensors": tensors, "forked": [rows, rows], "left": []}


def test_pool_in_a_data_set_pickles_while_it_iterates() -> None:
    """What holds a pool can be sent to a DataLoader's spawned worker in the middle of an iteration."""
    with pool(encoders.encode) as made:
        outcomes: Iterator[Any] = made.encode(range(10))
        next(outcomes)
        assert pickle.loads(pickle.dumps({"pool": made}))["pool"].workers == 2  # noqa: S301 - our own
        assert all(one.kind is Kind.ENCODED for one in outcomes)

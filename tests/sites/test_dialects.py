"""The dialect table against the pools that the installed releases really build."""

from __future__ import annotations

import inspect
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dataset_num_proc as dnp
from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode
from dataset_num_proc.policy.encoding import LOKY, MULTIPROCESS, MULTIPROCESSING, POOL_OF_ONE_SINCE, SITES, encode
from tests import scripts
from tests.capabilities import needs_datasets, needs_torch

PROGRAM = Path(__file__).with_name("count_pools.py")
LIBRARIES = dnp.take_snapshot().libraries
IN_PROCESS = Decision(0, "fork", (Reason(ReasonCode.IN_PROCESS, 0),))
ONE_IS_A_POOL = LIBRARIES.datasets_version >= POOL_OF_ONE_SINCE

BY_SITE = {
    **{name: name for name in ("map", "filter", "batch", "flatten_indices", "load_dataset", "save_to_disk")},
    **{name: name for name in ("to_json", "to_csv", "to_sql")},
    "dict.map": "map",
}
"""Each call that the program can make → its row of the table."""

ZERO: dict[str, str | None] = {
    **dict.fromkeys(("map", "dict.map", "filter", "batch", "flatten_indices"), None if ONE_IS_A_POOL else "ValueError"),
    "save_to_disk": None,
    "load_dataset": "ZeroDivisionError",
}
"""What comes out of a call with 0, where it is not a value error; it changed at a map in the release in which 1 did."""


def expected_pools(call: str, methods: dict[str, str], count: int) -> list[list[object]]:
    """The pools that the table promises for one call with `count` workers."""
    row = SITES[BY_SITE[call]]
    method = row.forced_start_method(LIBRARIES) or methods[row.module]
    own = [[row.module, count, method]]
    # First `load_dataset` has the files "downloaded", local ones too, by pools of the standard library.
    return [[MULTIPROCESSING, count, methods[MULTIPROCESSING]]] * 2 + own if call == "load_dataset" else own


@needs_datasets
@pytest.mark.parametrize("call", BY_SITE)
def test_pools(call: str, tmp_path: Path) -> None:
    """The word for "in this process" builds no pool, 1 what the table says, and 2 two workers of its module."""
    seen: dict[str, Any] = scripts.run(PROGRAM, call, tmp_path).json()
    row = SITES[BY_SITE[call]]
    assert seen[str(encode(IN_PROCESS, row.name, libraries=LIBRARIES))] == {"pools": [], "error": None}
    two = expected_pools(call, seen["methods"], 2)
    assert seen["2"]["pools"] == two
    # Two processes cannot share one connection, and a data base by name would need sqlalchemy.
    assert seen["2"]["error"] == ("TypeError" if call == "to_sql" else None)
    pool_of_one = ONE_IS_A_POOL and row.one_means.startswith("a pool of one")
    one = expected_pools(call, seen["methods"], 1) if pool_of_one else []
    assert seen["1"] == {"pools": one, "error": None}
    # 0 is an error at most sites on some release, which is why it is the word at none of them.
    assert seen["0"] == {"pools": [], "error": ZERO.get(call, "ValueError")}


@needs_datasets
def test_push_to_hub() -> None:
    """`push_to_hub` takes a count, and spawns from the release in the table on; read from its source, not run."""
    from datasets import Dataset

    methods = [function for name, function in inspect.getmembers(Dataset, inspect.isfunction) if "push" in name]
    source = "".join(map(inspect.getsource, methods))
    forced = SITES["push_to_hub"].forced_start_method(LIBRARIES)
    assert ('get_context("spawn")' in source) == (forced == "spawn")
    assert ("num_proc" in source) == (LIBRARIES.datasets_version >= (4,))


@needs_datasets
def test_a_streamed_map_takes_no_count() -> None:
    """The map of a streamed data set has no such argument, which is why it has no row of its own."""
    from datasets import IterableDataset

    assert "num_proc" not in inspect.signature(IterableDataset.map).parameters


def seen_rows(row: dict[str, Any], log: str) -> bool:
    """Leaves a line for each row that it is called with."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{row['a']}\n")
    return True


@needs_datasets
@pytest.mark.parametrize("site", ["map", "filter"])
def test_counts_in_cache_keys(site: str, tmp_path: Path) -> None:
    """Another count throws the cache away exactly where the table says that the count is part of its key."""
    from datasets import Dataset

    Dataset.from_dict({"a": list(range(4))}).save_to_disk(tmp_path / "rows")
    rows = Dataset.load_from_disk(tmp_path / "rows")
    log = tmp_path / "log"
    work: Any = seen_rows if site == "filter" else lambda row, log: {"b": seen_rows(row, log)}
    for count in (None, 2):
        getattr(rows, site)(work, num_proc=count, fn_kwargs={"log": str(log)})
    again = len(log.read_text(encoding="utf-8").splitlines()) > len(rows)
    assert again == SITES[site].keeps_count(LIBRARIES)


@needs_datasets
@pytest.mark.parametrize("site", ["batch", "flatten_indices"])
def test_counts_in_fingerprints(site: str) -> None:
    """The count is part of what `batch` and `flatten_indices` are known by, and so of all that is made from them."""
    from datasets import Dataset

    rows = Dataset.from_dict({"a": list(range(4))}).select([2, 0, 1, 3])
    arguments = {"batch_size": 2} if site == "batch" else {}
    prints = {getattr(rows, site)(**arguments, num_proc=count)._fingerprint for count in (None, 2)}  # noqa: SLF001
    assert (len(prints) == 2) == SITES[site].keeps_count(LIBRARIES)


LOADER = """
import json, multiprocessing
from torch.utils.data import DataLoader
answer = {}
for count in (0, 1, 2):
    rows = iter(DataLoader(range(4), num_workers=count))
    next(rows)
    answer[count] = len(multiprocessing.active_children())
    del rows
try:
    DataLoader(range(4), num_workers=None)
except TypeError:
    answer["None"] = "TypeError"
print(json.dumps(answer))
"""


@needs_torch
def test_dataloader() -> None:
    """A DataLoader spells it 0, has one worker at 1, takes no `None`, and starts from the standard library."""
    assert scripts.run("-c", LOADER).json() == {"0": 0, "1": 1, "2": 2, "None": "TypeError"}
    assert encode(IN_PROCESS, "dataloader") == 0
    assert (SITES["dataloader"].module, SITES["dataloader"].none_means) == (MULTIPROCESSING, "invalid")


def test_executor() -> None:
    """An executor has no word for it: 0 raises, 1 is one worker, and `None` is every processor."""
    with pytest.raises(ValueError, match="max_workers"):
        ProcessPoolExecutor(0)
    every = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    with ProcessPoolExecutor(None) as chosen, ProcessPoolExecutor(1) as one:
        assert (chosen._max_workers, one._max_workers) == (every, 1)  # type: ignore[attr-defined] # noqa: SLF001
    with pytest.raises(dnp.SiteError):
        encode(IN_PROCESS, "executor")


def test_the_two_modules_are_two() -> None:
    """Every row of the table starts from one of two modules, but for joblib's, which has its own."""
    assert {row.module for row in SITES.values()} == {MULTIPROCESS, MULTIPROCESSING, LOKY}

"""A worker that aborts because it is refused memory: what can be known of it, and what cannot."""

from __future__ import annotations

import pytest

from tests.capabilities import needs_datasets, needs_linux
from tests.scripts import run

PROGRAM = """
import ctypes, json, resource, sys
import datasets
from dataset_num_proc import watch
datasets.disable_progress_bars()

def work(row):
    new = ctypes.CDLL("libstdc++.so.6")["_Znwm"]  # C++'s `operator new`, which throws, and nobody catches
    new.argtypes, new.restype = [ctypes.c_size_t], ctypes.c_void_p
    new(1 << 45)
    return row

rows = datasets.Dataset.from_dict({"x": list(range(4))})
if sys.argv[1] == "limited":
    resource.setrlimit(resource.RLIMIT_AS, (64 << 30, resource.RLIM_INFINITY))
try:
    with watch():
        rows.map(work, num_proc=2)
except RuntimeError as error:
    print(json.dumps([error.verdict.value, str(error)]))
"""

pytestmark = [needs_linux, needs_datasets]


@pytest.mark.parametrize("limit", ["limited", "unlimited"])
def test_an_allocation_that_is_refused(limit: str) -> None:
    """It is an abort, and memory is not blamed: the library says on stderr what it was, and nobody else knows.

    The limit of each process is told where there is one, as what was seen.
    """
    done = run("-c", PROGRAM, limit)
    assert "bad_alloc" in done.err
    verdict, text = done.json()
    assert verdict == "aborted"
    assert ("64.0 GiB (ulimit -v)" in text) == (limit == "limited")
    assert "what it wrote to stderr says why" in text
    assert "out of memory" not in text

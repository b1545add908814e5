"""Public trouble reports: Python 3.14, where `multiprocess` still forks by default, unlike the standard library."""

from __future__ import annotations

from typing import Any

import pytest

import dataset_num_proc as dnp
from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.facts import MainModule
from dataset_num_proc.report import facts_in_full
from tests import scripts
from tests.values import GIB, answer, machine, starts

OFFERED = ("forkserver", "spawn", "fork")
PY314 = machine(
    python="3.14.0",
    multiprocess=starts("fork"),
    multiprocessing=starts("forkserver", offered=OFFERED),
    main=MainModule.FILE,
    available=64 * GIB,
)


def test_c72_ms_swift_9941_maps_still_fork() -> None:
    """On 3.14 a map is forked and an export is not, and both methods are in the facts (modelscope/ms-swift#9941)."""
    assert answer(4, PY314).start_method == "fork"
    assert answer(4, PY314, site="to_json").start_method == "forkserver"
    lines = [line for line in facts_in_full(PY314).splitlines() if "offered" in line]
    assert ["multiprocess (" in lines[0], ": fork " in lines[0]] == [True, True]
    assert ["multiprocessing (" in lines[1], ": forkserver " in lines[1]] == [True, True]


def test_c72_ms_swift_9941_a_payload_as_large_as_the_model() -> None:
    """Workers that would each be sent 14 GB are none with 48 GiB free, whatever was asked.

    Reported as modelscope/ms-swift#9941.
    """
    tight = machine(python="3.14.0", multiprocessing=starts("forkserver", offered=OFFERED), available=48 * GIB)
    decision = answer(8, tight, workload="packing", site="axolotl.multipack", bytes_per_worker=14 * 10**9)
    assert (decision.workers, decision.binding.code) == (0, ReasonCode.MEMORY)


BOTH = """
import json
import dataset_num_proc as dnp
methods = dnp.take_snapshot().start_methods
import multiprocess, multiprocessing
print(json.dumps([[methods.multiprocess.method, methods.multiprocessing.method],
                  [multiprocess.get_start_method(), multiprocessing.get_start_method()]]))
"""


def test_c72_ms_swift_9941_on_the_running_python() -> None:
    """What the probe says of both modules before they are used is what they then use, on whatever Python this is."""
    said, used = scripts.run("-c", BOTH).json()
    assert said == used


def nested() -> Any:  # noqa: ANN401 - a function that no import finds
    """A function inside a function."""

    def local(row: object) -> object:
        return row

    return local


@pytest.mark.parametrize("site", ["axolotl.multipack", "dataloader", "to_json"])
def test_c73_cpython_126831_a_local_function(site: str) -> None:
    """A nested function cannot be sent to the standard library's fresh workers, and is refused.

    Reported as python/cpython#126831.
    """
    pytest.importorskip("dill")
    decision = dnp.plan(function=nested(), site=site, snapshot=PY314, settings=dnp.Settings())
    assert (decision.workers, decision.binding.code) == (0, ReasonCode.SPAWN_NOT_READY)
    assert "local" in decision.binding.seen["function"]


def test_c73_cpython_126831_where_a_local_function_is_no_matter() -> None:
    """`multiprocess` pickles nested functions by value, and a forked worker has them anyway."""
    pytest.importorskip("dill")
    options: dict[str, Any] = {"function": nested(), "settings": dnp.Settings()}
    spawned = machine("spawn", main=MainModule.FILE)
    assert dnp.num_proc(4, snapshot=spawned, **options) == 4
    assert dnp.num_proc(4, snapshot=machine("fork"), site="to_json", **options) == 4
    assert dnp.mp_context("fork", snapshot=PY314, settings=dnp.Settings()).get_start_method() == "fork"

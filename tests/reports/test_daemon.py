"""Public trouble reports: maps inside processes that may not have children."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.report import sentence
from tests import scripts
from tests.values import answer, machine


@pytest.mark.parametrize(
    ("daemon_of", "site", "workers"),
    [
        ("multiprocess", "map", 0),
        ("multiprocess", "to_json", 4),
        ("multiprocessing", "map", 4),
        ("multiprocessing", "to_json", 0),
        ("multiprocessing", "dataloader", 0),
        ("multiprocess", "load_dataset", 0),
        # Its download step is a pool of the standard library.
        ("multiprocessing", "load_dataset", 0),
    ],
)
def test_c79_datasets_6089_the_flag_is_the_modules_own(daemon_of: str, site: str, workers: int) -> None:
    """Workers are refused to a daemon of the module that would start them, with its name (huggingface/datasets#6089).

    The report would refuse a map to a daemon of `multiprocessing` too, for the orphans that it may leave; workers
    started inside a scope end with their parent, and frameworks train in such daemons, so those may map.
    """
    decision = answer(4, machine(daemonic={daemon_of: True}), site=site)
    assert decision.workers == workers
    if not workers:
        assert decision.binding.code is ReasonCode.DAEMONIC
        assert decision.reduced
        assert daemon_of in sentence(decision.binding)


IN_A_DAEMON = """
import json, sys
from importlib import import_module
import dataset_num_proc as dnp

def ask():
    settings = dnp.Settings(bytes_per_worker=1 << 20)
    plans = {site: dnp.plan(2, site=site, settings=settings) for site in ("map", "to_json")}
    flags = dnp.take_snapshot().process.daemonic
    answers = {site: [plan.workers, plan.binding.code.value] for site, plan in plans.items()}
    print(json.dumps([flags, answers]), flush=True)

if __name__ == "__main__":
    process = import_module(sys.argv[1]).Process(target=ask, daemon=True)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


@pytest.mark.parametrize("package", ["multiprocess", "multiprocessing"])
def test_c79_datasets_6089_inside_a_real_daemon(package: str, tmp_path: Path) -> None:
    """A process that was really started as a daemon sees it, of its module alone, and refuses that module's workers."""
    script = tmp_path / "daemon.py"
    script.write_text(IN_A_DAEMON, encoding="utf-8")
    flags, plans = scripts.run(script, package).json()
    assert flags == {"multiprocess": package == "multiprocess", "multiprocessing": package == "multiprocessing"}
    expected: dict[str, Any] = {"map": [2, "asked"], "to_json": [2, "asked"]}
    expected["map" if package == "multiprocess" else "to_json"] = [0, "daemonic"]
    assert plans == expected

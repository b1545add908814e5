"""Public trouble reports: workers that are fresh interpreters, and main modules that these cannot import."""

from __future__ import annotations

import ssl
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import dataset_num_proc as dnp
from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.encoding import SITES
from dataset_num_proc.policy.facts import MainModule
from dataset_num_proc.report import sentence
from tests import scripts
from tests.capabilities import needs_datasets
from tests.values import answer, machine

SETTINGS = "dnp.Settings(bytes_per_worker=1 << 20)"
SPEAKING = {"PYTHONWARNINGS": "default"}

PREPARE = """
import json
import multiprocess
from datasets import Dataset, disable_progress_bars
import dataset_num_proc as dnp

def identity(row):
    return row
"""
WORK = f"""
print("at work")
disable_progress_bars()
multiprocess.set_start_method("spawn")
rows = Dataset.from_dict({{"a": [1, 2, 3, 4]}})
count = dnp.num_proc(4, rows=len(rows), function=identity, settings={SETTINGS})
rows.map(identity, num_proc=count)
print(json.dumps(count))
"""


def guarded(work: str) -> str:
    """The same program with its work under a guard."""
    return 'if __name__ == "__main__":' + work.replace("\n", "\n    ").rstrip(" ")


@needs_datasets
def test_c20_unsloth_3211_an_unguarded_script(tmp_path: Path) -> None:
    """An unguarded script under spawn maps in its own process, once, and names the line to guard.

    Reported as unslothai/unsloth#3211.

    4 that are asked for are refused with that text: with 4 the script starts itself again without end.
    """
    script = tmp_path / "train.py"
    script.write_text(PREPARE + WORK, encoding="utf-8")
    finished = scripts.run(script, environ=SPEAKING)
    assert finished.json() is None
    assert finished.out.count("at work") == 1
    line = (PREPARE + WORK).splitlines().index('print("at work")') + 1
    assert f"line {line} of train.py" in finished.err
    assert 'if __name__ == "__main__":' in finished.err


@needs_datasets
def test_c20_unsloth_3211_its_guarded_twin(tmp_path: Path) -> None:
    """With the guard the same script is given its 4 spawned workers, and they work."""
    script = tmp_path / "train.py"
    script.write_text(PREPARE + guarded(WORK), encoding="utf-8")
    finished = scripts.run(script, environ=SPEAKING)
    assert finished.json() == 4
    assert finished.out.count("at work") == 1


def test_c21_unsloth_4490_a_module_that_was_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of a module that exists in this process alone gets `None`, and the module is named.

    Reported as unslothai/unsloth#4490.
    """
    module = types.ModuleType("generated_trainer")
    exec("def tokenize(row): return row", module.__dict__)  # noqa: S102 - how such modules are made
    monkeypatch.setitem(sys.modules, module.__name__, module)
    options: dict[str, Any] = {"snapshot": machine("spawn", main=MainModule.FILE), "settings": dnp.Settings()}
    with pytest.warns(dnp.WorkersReduced, match="generated_trainer"):
        assert dnp.num_proc(4, function=module.tokenize, **options) is None
    assert dnp.num_proc(4, function=module.tokenize, **{**options, "snapshot": machine("fork")}) == 4


INTERACTIVE = """
import json, multiprocess
import dataset_num_proc as dnp
settings = dnp.Settings(bytes_per_worker=1 << 20)
forked = dnp.num_proc(2, settings=settings)
multiprocess.set_start_method("spawn")
spawned = dnp.plan(2, settings=settings)
print(json.dumps([forked, spawned.workers, spawned.binding.code.value, spawned.binding.seen["main"]]))
"""


@pytest.mark.parametrize(
    ("arguments", "stdin", "main"), [(("-c", INTERACTIVE), "", "command"), (("-",), INTERACTIVE, "stdin")]
)
def test_c22_notebook_5951_nothing_to_import(arguments: tuple[str, ...], stdin: str, main: str) -> None:
    """A program from `-c` or a pipe may fork, and has no workers by spawn, which lack its names.

    Reported as jupyter/notebook#5951.
    """
    assert scripts.run(*arguments, stdin=stdin).json() == [2, 0, "spawn-not-ready", main]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_c22_notebook_5951_a_notebook(method: str) -> None:
    """A notebook's workers are forked while nothing is up, and refused as fresh interpreters, with the reason."""
    assert answer(4, machine("fork", main=MainModule.INTERACTIVE)).workers == 4
    refused = answer(4, machine(method, main=MainModule.INTERACTIVE))
    assert (refused.workers, refused.binding.code) == (0, ReasonCode.SPAWN_NOT_READY)
    assert "interactive" in sentence(refused.binding)
    cuda = machine("fork", main=MainModule.INTERACTIVE, accelerators=frozenset({"cuda"}))
    assert answer(4, cuda, start_method="auto").workers == 0


@pytest.mark.parametrize("main", [MainModule.FILE, MainModule.UNGUARDED])
def test_c24_auto_round_1980_macos(main: MainModule) -> None:
    """On macOS fork is refused though `multiprocess` defaults to it; a choice is a clean method.

    Reported as intel/auto-round#1980.

    The report's answer is spawn; forkserver, which macOS offers, is as clean.
    """
    mac = machine("fork", platform="darwin", main=main)
    assert answer(4, mac).binding.code is ReasonCode.MACOS_FORK
    chosen = answer(4, mac, start_method="auto")
    assert (chosen.workers, chosen.start_method) == (4 if main is MainModule.FILE else 0, "forkserver")
    assert answer(4, mac, start_method="spawn").workers == (4 if main is MainModule.FILE else 0)


MAP_AND_SAVE = f"""
print("at work")
disable_progress_bars()
rows = Dataset.from_dict({{"a": [1, 2, 3, 4]}})
maps = dnp.num_proc(2, settings={SETTINGS})
rows = rows.map(identity, num_proc=maps)
saves = dnp.num_proc(2, site="save_to_disk", settings={SETTINGS})
rows.save_to_disk(FOLDER, num_proc=saves)
print(json.dumps([maps, saves]))
"""


@needs_datasets
def test_c53_datasets_6186_a_save_is_judged_as_spawn(tmp_path: Path) -> None:
    """An unguarded script may map with 2 workers, and its save, which spawns, is `None` (huggingface/datasets#6186).

    On releases of `datasets` whose save uses the default method it is given 2 as well.
    """
    script = tmp_path / "train.py"
    script.write_text(PREPARE + MAP_AND_SAVE.replace("FOLDER", repr(str(tmp_path / "saved"))), encoding="utf-8")
    finished = scripts.run(script, environ=SPEAKING)
    spawns = SITES["save_to_disk"].forced_start_method(dnp.take_snapshot().libraries) == "spawn"
    assert finished.json() == [2, None if spawns else 2]
    assert finished.out.count("at work") == 1
    assert ("train.py" in finished.err) == spawns


class Client:
    """A callable that holds what no pickler takes."""

    def __init__(self) -> None:
        self.context = ssl.create_default_context()

    def __call__(self, row: object) -> object:
        """The row itself."""
        return row


def test_c42_lmms_eval_818_a_client_within_reach() -> None:
    """A function that holds an SSL context is refused for fresh interpreters, with its type.

    Reported as EvolvingLMMs-Lab/lmms-eval#818.
    """
    pytest.importorskip("dill")
    options: dict[str, Any] = {"snapshot": machine("spawn", main=MainModule.FILE), "settings": dnp.Settings()}
    with pytest.warns(dnp.WorkersReduced, match="SSLContext"):
        assert dnp.num_proc(4, function=Client(), **options) is None

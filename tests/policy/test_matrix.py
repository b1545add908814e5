"""The matrix script finds what it is for: one deliberate mutant for each law, and none in the rules as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc.policy import encoding, replay, rules
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.policy.facts import LibraryFacts, MainModule, Snapshot
from dataset_num_proc.policy.request import Request, Settings

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from matrix.axes import AXES
from matrix.cells import default_cell, snapshot_of
from matrix.plan import BLOCKS, missing_pairs
from matrix.walk import Policy
from matrix_policy import main

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(120)  # a hundred thousand cells take ten seconds, on a busy machine more


def always_ready(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Takes every main module and every function for importable."""
    process = replace(machine.process, main=MainModule.MODULE)
    return rules.decide(replace(request, spawn_ready=None), replace(machine, process=process), settings)


def pool_of_one(decision: Decision, site: str, libraries: LibraryFacts) -> int | None:
    """Says "in this process" by 1, as `datasets` up to 4.0 took it."""
    word = encoding.encode(decision, site, libraries=libraries)
    return 1 if word is None else word


def none_in_configs(decision: Decision, site: str, libraries: LibraryFacts) -> int | None:
    """Says "in this process" by `None` in every config, as most of them take it."""
    word = encoding.encode(decision, site, libraries=libraries)
    return None if word == 1 and site.endswith("config") else word


def every_rank_alone(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Lets each rank take the whole share of the memory."""
    return rules.decide(request, replace(machine, process=replace(machine.process, local_world_size=1)), settings)


def one_over_the_cap(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Miscounts the cap by one."""
    return rules.decide(request, machine, replace(settings, auto_cap=settings.auto_cap + 1))


def capped_override(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Holds the operator to the automatic cap."""
    override = settings.override
    return rules.decide(request, machine, replace(settings, override=override and min(override, settings.auto_cap)))


def each_rank_differs(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Finds less memory on the later ranks, as a reading of their own would."""
    rank = machine.process.local_rank or 0
    memory = replace(machine.memory, available=machine.memory.available and machine.memory.available // (1 + rank))
    return rules.decide(request, replace(machine, memory=memory), settings)


def big_hosts_get_less(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Grants half on hosts of more than 100 cpus."""
    big = (machine.cpu.host or 0) > 100
    return rules.decide(request, machine, replace(settings, auto_cap=settings.auto_cap // 2) if big else settings)


def one_less_than_asked(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Keeps one of the workers asked for to itself, each time it is asked."""
    workers = request.workers - 1 if request.workers and request.workers > 2 else request.workers
    return rules.decide(replace(request, workers=workers), machine, settings)


def none_is_choose(value: object, site: str) -> Request:
    """Reads `None` as "choose for me" everywhere."""
    return Request(site=site) if value is None else encoding.decode(value, site)


def shuffled_reasons(request: Request, machine: Snapshot, settings: Settings) -> Decision:
    """Puts the binding reason last."""
    decision = rules.decide(request, machine, settings)
    return replace(decision, reasons=decision.reasons[::-1])


def whole_cores(machine: Snapshot) -> dict[str, Any]:
    """Writes half a core of quota as none."""
    document = replay.to_json(machine)
    document["cpu"]["quota"] = document["cpu"]["quota"] and int(document["cpu"]["quota"])
    return document


MUTANTS = {
    1: Policy(decide=always_ready),
    2: Policy(encode=pool_of_one),
    3: Policy(encode=none_in_configs),
    4: Policy(decide=every_rank_alone),
    5: Policy(decide=one_over_the_cap),
    6: Policy(decide=capped_override),
    7: Policy(decide=each_rank_differs),
    8: Policy(decide=big_hosts_get_less),
    9: Policy(decide=one_less_than_asked),
    10: Policy(decode=none_is_choose),
    11: Policy(decide=shuffled_reasons),
    12: Policy(to_json=whole_cores),
}


@pytest.mark.parametrize("law", MUTANTS)
def test_each_law_catches_its_mutant(law: int, capsys: pytest.CaptureFixture[str]) -> None:
    """For each law, rules that break it make the script exit 1 and name it, with a cell of few unusual values."""
    assert main(["--quick"], MUTANTS[law]) == 1
    found = capsys.readouterr().err
    assert f"Law {law} is broken" in found
    cell = found.split(f"Law {law} is broken")[1].splitlines()[1]
    assert cell.startswith("  cell: ")
    assert cell.count("=") <= 6


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JSON of a quick run in a process of its own."""
    path = tmp_path_factory.mktemp("matrix") / "quick.json"
    command = [sys.executable, "scripts/matrix_policy.py", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    path.write_text(done.stdout, encoding="utf-8")
    return path


def test_the_rules_keep_every_law(recorded: Path) -> None:
    """A tenth of the matrix holds: 100,000 cells, each bound by a reason, each counted under every axis."""
    document = json.loads(recorded.read_text(encoding="utf-8"))
    assert document["cells"] > 100_000
    assert sum(document["bindings"].values()) == document["cells"]
    for axis in AXES:
        figures = [counts for label in document["axes"][axis].values() for counts in label.values()]
        assert sum(cells for cells, _ in figures) == document["cells"]


def test_diff_says_where_answers_moved(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--diff` against a run with other answers names the axis values and the reasons whose figures differ."""
    document = json.loads(recorded.read_text(encoding="utf-8"))
    document["digest"] = "of other rules"
    document["axes"]["quota"]["0.5"]["cpus"][0] += 1
    document["blocks"][3] = "another"
    older = tmp_path / "older.json"
    older.write_text(json.dumps(document), encoding="utf-8")
    assert main(["--quick", "--diff", str(older)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if "→" in line and line.startswith("quota=0.5: cpus ")] != []
    assert f"1 of {len(document['blocks'])} blocks differ; the machines of the first:" in said


def test_diff_of_the_same_rules_is_empty(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs of one policy give one digest, and `--diff` says so."""
    assert main(["--quick", "--diff", str(recorded)]) == 0
    assert "No answer differs." in capsys.readouterr().out


def test_the_plan_holds_every_pair() -> None:
    """Every value of every axis meets every value of every other axis in some cell of the whole matrix."""
    assert missing_pairs(BLOCKS) == set()


def test_a_default_cell_is_a_plain_machine() -> None:
    """What a failing cell leaves out is a machine and a process with nothing unusual about them."""
    plain = snapshot_of(default_cell())
    usual = Snapshot()
    assert plain.process == replace(usual.process, python=plain.process.python)
    assert plain.start_methods == usual.start_methods
    assert (plain.cpu.quota, plain.memory.headroom, plain.unreadable) == (None, None, ())

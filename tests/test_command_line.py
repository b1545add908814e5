"""The command line: what it prints, to the letter, and its exit statuses.

The texts are under `golden/`; a run with `--rewrite-golden` writes them anew, to be read before they are committed.
"""

from __future__ import annotations

import io
import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc import __main__ as command_line
from dataset_num_proc.policy.decision import ReasonCode
from tests.capabilities import DATASETS_4, needs_datasets, needs_datasets_4
from tests.machine.recorded import RecordedMachine, recorded_machine, recorded_machines
from tests.scripts import run

GOLDEN = Path(__file__).parent / "golden"
DOCTORED = ("docker-v2", "docker-v1-own-namespace", "slurm-v1", "gvisor-no-cgroup", "empty-and-odd-files")


class Said:
    """Runs a command and keeps what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.status = 0
        self.err = ""

    def __call__(self, *arguments: str) -> str:
        """What the command printed on stdout; its status and its remarks are kept."""
        try:
            self.status = command_line.main(arguments)
        except SystemExit as left:  # argparse's way out
            self.status = int(left.code or 0)
        out, self.err = self.capsys.readouterr()
        return out


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """The command line, called in this process."""
    return Said(capsys)


def golden(request: pytest.FixtureRequest, name: str, text: str) -> None:
    """`text` is what the file of that name holds."""
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--rewrite-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@needs_datasets_4
@pytest.mark.parametrize("name", DOCTORED)
def test_doctor_of_a_recorded_machine(name: str, said: Said, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The doctor's text about a recorded machine is the golden one, but for a first line of installed versions."""
    first, rest = said("doctor", "--root", str(recorded_machine(name).write(tmp_path))).split("\n", 1)
    assert first.startswith("dataset_num_proc ")
    assert f"Python {platform.python_version()}, linux; datasets " in first
    golden(request, f"doctor-{name}", rest)


@pytest.mark.parametrize("machine", recorded_machines(), ids=lambda machine: machine.name)
def test_doctor_finds_what_is_recorded(machine: RecordedMachine, said: Said, tmp_path: Path) -> None:
    """`doctor --root DIR --json` finds every value that is expected of the machine."""
    root = str(machine.write(tmp_path))
    document = json.loads(said("doctor", "--root", root, "--json"))
    assert said.status == (1 if document["findings"] else 0)
    cpu, memory = document["snapshot"]["cpu"], document["snapshot"]["memory"]
    found = {name: cpu[name] for name in ("host", "affinity", "quota")}
    found |= {name: memory[name] for name in ("limit", "headroom")}
    if "auto" in machine.expect and DATASETS_4.present:
        found["auto"] = document["decision"]["num_proc"]
        found["ask16"] = json.loads(said("explain", "16", "--root", root, "--json"))["decision"]["num_proc"]
    assert found == {name: machine.expect[name] for name in found}


@needs_datasets_4
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("explain-auto", ()),
        ("explain-16", ("16",)),
        ("explain-few-rows", ("--rows", "200")),
        ("explain-in-process", ("1",)),
        ("explain-filter", ("48", "--rows", "1000000", "--site", "filter")),
        ("explain-save", ("4", "--site", "save_to_disk")),
        ("explain-packing", ("--workload", "packing")),
    ],
)
def test_explain(
    name: str, arguments: tuple[str, ...], said: Said, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """An explanation shows every bound with its figures, the binding one first."""
    golden(request, name, said("explain", *arguments, "--root", str(recorded_machine("docker-v2").write(tmp_path))))
    assert said.status == 0


def test_codes(said: Said, request: pytest.FixtureRequest) -> None:
    """Every reason code is listed with its meaning, as text and as JSON."""
    golden(request, "codes", said("explain", "--codes"))
    assert json.loads(said("explain", "--codes", "--json")).keys() == {code.value for code in ReasonCode}


def test_a_snapshot_is_replayed(said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `doctor --json` wrote gives the same decision elsewhere, from a file and from stdin."""
    written = said("doctor", "--root", str(recorded_machine("slurm-v1").write(tmp_path)), "--json")
    decision = json.loads(written)["decision"]
    saved = tmp_path / "machine.json"
    saved.write_text(written, encoding="utf-8")
    assert json.loads(said("explain", "--snapshot", str(saved), "--json"))["decision"] == decision
    monkeypatch.setattr(sys, "stdin", io.StringIO(written))
    assert json.loads(said("explain", "--snapshot", "-", "--json"))["decision"] == decision


def test_an_override_is_replayed_with_its_machine(said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording holds the override that it was made under; one of this shell comes first, and that is said."""
    monkeypatch.setenv("DATASET_NUM_PROC", "12")
    saved = tmp_path / "machine.json"
    saved.write_text(said("doctor", "--json"), encoding="utf-8")
    monkeypatch.delenv("DATASET_NUM_PROC")
    assert json.loads(said("explain", "--snapshot", str(saved), "--json"))["decision"]["workers"] == 12
    monkeypatch.setenv("DATASET_NUM_PROC", "5")
    assert json.loads(said("explain", "--snapshot", str(saved), "--json"))["decision"]["workers"] == 5
    assert "this shell" in said.err


def test_a_folder_without_a_machine(said: Said, tmp_path: Path) -> None:
    """A folder in which no machine is recorded is said to be one."""
    said("explain", "--root", str(tmp_path))
    assert "no machine is recorded" in said.err


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"cpu": {"host": "many"}}, "CpuFacts.host is 'many'; accepted is int | null"),
        ({"cpu": {"declared": {"NSLOTS": "4"}}}, "CpuFacts.declared"),
        ({"cpu": {"cores": 4}}, "CpuFacts has no cores"),
        ({"schema": 9, "snapshot": {}}, "schema 9"),
        ({"snapshot": {}, "settings": {"override": -1}}, "Settings.override=-1"),
    ],
)
def test_a_snapshot_that_is_none(document: dict[str, Any], words: str, said: Said, tmp_path: Path) -> None:
    """A file that holds no snapshot is wrong usage, and the message names what is wrong in it."""
    (tmp_path / "machine.json").write_text(json.dumps(document), encoding="utf-8")
    assert said("explain", "--snapshot", str(tmp_path / "machine.json")) == ""
    assert said.status == 2
    assert words in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "COMMAND"),
        (("explain", "-3"), "-3 is not a worker count"),
        (("explain", "many"), "'many' is not a worker count"),
        (("explain", "--rows", "-1"), "rows=-1"),
        (("explain", "--site", "kitchen"), "kitchen"),
        (("explain", "--snapshot", "/nowhere/at-all.json"), "--snapshot /nowhere/at-all.json"),
        (("doctor", "--root", "/nowhere/at-all"), "there is no such folder"),
        (("demo", "--rows", "0"), "--rows 0"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], words: str, said: Said) -> None:
    """Wrong usage is exit status 2, says what was wrong on stderr, and prints no data."""
    assert said(*arguments) == ""
    assert said.status == 2
    assert words in said.err


def test_a_speechless_site(said: Said, tmp_path: Path) -> None:
    """Where a site has no word for the answer, the nearest value is printed and the remark goes to stderr."""
    out = said("explain", "1", "--site", "executor", "--root", str(recorded_machine("docker-v2").write(tmp_path)))
    assert "nearest value that it takes:\nnum_proc=1 for executor" in out
    assert "cannot say" in said.err


def test_an_ignored_variable(tmp_path: Path, said: Said) -> None:
    """A variable that says nothing usable is a remark of `explain` and a finding of `doctor`, with its text."""
    root = recorded_machine("docker-v2").write(tmp_path)
    (root / "environ").write_text("DATASET_NUM_PROC=banana\n", encoding="utf-8")
    said("explain", "--root", str(root))
    assert "DATASET_NUM_PROC='banana' is ignored" in said.err
    assert "variable-ignored" in said("doctor", "--root", str(root))
    assert said.status == 1


def test_no_name_of_user_or_host_is_printed(tmp_path: Path) -> None:
    """The doctor's output can be pasted: names of the user and of the host in a path are replaced."""
    home = tmp_path / "somebody"
    home.mkdir()
    script = """
from dataset_num_proc.__main__ import _without_names
import json, platform
host = platform.node()
paths = [f"/sys/fs/cgroup/{host}_slurmstepd.scope/memory.max", "/home/somebody/x", "somebody", {"host": 64}]
print(json.dumps(_without_names(paths)))
"""
    found: Any = run("-c", script, environ={"HOME": str(home)}).json()
    assert found == ["/sys/fs/cgroup/HOST_slurmstepd.scope/memory.max", "/home/USER/x", "somebody", {"host": 64}]


def test_doctor_of_this_machine() -> None:
    """On the machine at hand the JSON has every key of its contract, and the status says whether it found anything."""
    finished = run("-m", "dataset_num_proc", "doctor", "--json")
    document = json.loads(finished.out)
    assert document.keys() == {"schema", "snapshot", "settings", "decision", "findings"}
    assert document["schema"] == 1
    assert document["snapshot"].keys() == {"cpu", "memory", "process", "start_methods", "libraries", "unreadable"}
    assert document["decision"].keys() >= {"workers", "start_method", "binding", "site", "num_proc", "reasons"}
    assert finished.status == (1 if document["findings"] else 0)


@needs_datasets
def test_demo(tmp_path: Path) -> None:
    """The demo maps a real data set as decided, gets the rows of the plain map, names a death, and leaves nothing."""
    finished = run("-m", "dataset_num_proc", "demo", "--rows", "6000", "--json", environ={"TMPDIR": str(tmp_path)})
    assert finished.status == 0, finished
    document = json.loads(finished.out)
    assert document["demo"]["equal"] is True
    assert document["demo"]["rows"] == 6000
    assert document["demo"]["death"] in {None, "killed"}
    assert document["decision"]["num_proc"] in {None, *range(2, 9)}
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_that_knows_no_arrow() -> None:
    """Where stdout cannot show a character, the text is printed all the same, with an escape in its place."""
    finished = run("-m", "dataset_num_proc", "explain", "4", environ={"PYTHONIOENCODING": "ascii"})
    assert finished.status == 0, finished
    assert "\\u2192" in finished.out


def test_a_reader_who_has_seen_enough() -> None:
    """A pipe that is closed early is no failure, and no traceback."""
    script = """
import subprocess, sys
command = [sys.executable, "-u", "-m", "dataset_num_proc", "explain", "--codes"]
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
process.stdout.close()
print(process.stderr.read().decode() or "nothing", process.wait())
"""
    assert run("-c", script).out.split() == ["nothing", "0"]


def test_a_user_without_a_home() -> None:
    """In a container whose user has no entry and no home, the doctor still reports."""
    script = """
import os, platform
from dataset_num_proc.__main__ import _without_names
platform.node()
os.environ.pop("HOME", None)
if os.geteuid() == 0:
    os.setuid(54321)
print('"done"', _without_names(["/a/b"]) == ["/a/b"] or 1/0)
"""
    assert run("-c", script).out.split() == ['"done"', "True"]

"""Live state that makes a fork unsafe, each kind seen without waking it up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dataset_num_proc.machine import hazards
from dataset_num_proc.machine.files import Reader
from dataset_num_proc.machine.probe import take_snapshot
from tests.capabilities import needs_linux, needs_torch
from tests.machine.interpreter import python


def module(name: str, **functions: object) -> ModuleType:
    """A module with those functions, as a library would have them."""
    made = ModuleType(name)
    vars(made).update(functions)
    return made


def put(monkeypatch: pytest.MonkeyPatch, name: str, **functions: object) -> None:
    """Puts a module where an import would have put it."""
    monkeypatch.setitem(sys.modules, name, module(name, **functions))


def fails() -> bool:
    """A question that a library cannot answer."""
    message = "no driver"
    raise RuntimeError(message)


@pytest.mark.parametrize("device", ["cuda", "xpu", "npu", "mlu", "musa", "hpu"])
def test_torch_devices(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of torch that is up is named; one that is not, is not."""
    others = {name: module(name, is_initialized=bool) for name in ("cuda", "xpu") if name != device}
    put(monkeypatch, "torch", **others, **{device: module(device, is_initialized=lambda: True)})
    assert hazards.accelerators(Reader()) == {device}


def test_questions_that_touch_a_device_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `is_initialized` is asked, and torch's own `__getattr__`, which imports, is not reached."""
    put(
        monkeypatch,
        "torch",
        __getattr__=fails,
        cuda=module("cuda", is_initialized=bool, device_count=fails, is_available=fails),
    )
    reader = Reader()
    assert hazards.accelerators(reader) == frozenset()
    assert reader.unreadable == []


def test_a_failing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that fails its own question is no hazard, and is said."""
    put(monkeypatch, "torch", cuda=module("torch.cuda", is_initialized=fails))
    reader = Reader()
    assert hazards.accelerators(reader) == frozenset()
    assert [(entry.what, entry.why) for entry in reader.unreadable] == [("torch.cuda", "RuntimeError: no driver")]


def test_jax_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX counts once a backend is up, not when it is imported."""
    put(monkeypatch, "jax._src.xla_bridge", _backends={})
    assert hazards.accelerators(Reader()) == frozenset()
    put(monkeypatch, "jax._src.xla_bridge", _backends={"cuda": object()})
    assert hazards.accelerators(Reader()) == {"jax"}


def test_open_devices(tmp_path: Path) -> None:
    """Device nodes of every maker are found among the open files, other files are not."""
    folder = tmp_path / "proc/self/fd"
    folder.mkdir(parents=True)
    nodes = {"/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128", "/dev/davinci3", "/dev/hl0"}
    for number, target in enumerate([*sorted(nodes), "/dev/null", "/dev/dri/card0", "socket:[5]", "/home/dev/nvidia0"]):
        (folder / str(number)).symlink_to(target)
    assert hazards.open_devices(Reader(tmp_path)) == nodes


@pytest.mark.parametrize(
    ("environ", "nodes", "expected"),
    [
        ({}, [], None),
        ({}, ["nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm"], 3),
        ({"CUDA_VISIBLE_DEVICES": "0,2"}, ["nvidia0", "nvidia1", "nvidia2"], 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["nvidia0"], 0),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ["nvidia0"], 0),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, [], 1),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932f937, MIG-5c89"}, [], 2),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, [], 0),
    ],
)
def test_accelerator_count(environ: dict[str, str], nodes: list[str], expected: int | None, tmp_path: Path) -> None:
    """Accelerators are counted by the variable as CUDA reads it, else by their nodes, else not."""
    (tmp_path / "dev").mkdir()
    for node in nodes:
        (tmp_path / "dev" / node).touch()
    assert hazards.accelerator_count(environ, Reader(tmp_path)) == expected


@pytest.mark.parametrize(
    ("name", "functions", "up"),
    [
        ("torch.distributed", {"is_available": lambda: True, "is_initialized": lambda: True}, True),
        ("torch.distributed", {"is_available": lambda: True, "is_initialized": bool}, False),
        ("torch.distributed", {"is_available": bool}, False),
        ("deepspeed.comm", {"is_initialized": lambda: True}, True),
        ("deepspeed.comm", {}, False),
    ],
)
def test_distributed(
    name: str,
    functions: dict[str, object],
    up: bool,  # noqa: FBT001 - a column of the table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A collective runtime counts where it is up; a build of torch without any is asked no further."""
    put(monkeypatch, name, **functions)
    reader = Reader()
    assert hazards.distributed(reader) is up
    assert reader.unreadable == []


def test_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray counts where it is initialised here."""
    put(monkeypatch, "ray", is_initialized=lambda: True)
    assert hazards.runtimes(Reader()) == {"ray"}


@needs_torch
@pytest.mark.timeout(120)
def test_real_torch(tmp_path: Path) -> None:
    """A real torch: importing it is no hazard, a process group is, and no device is up on a machine without any."""
    (tmp_path / "group.py").write_text(
        "import json, sys\n"
        "import torch, torch.distributed as group\n"
        "from dataset_num_proc.machine.probe import take_snapshot\n"
        "before = take_snapshot().process\n"
        "group.init_process_group('gloo', init_method='file://' + sys.argv[1], rank=0, world_size=1)\n"
        "after = take_snapshot().process\n"
        "print(json.dumps([before.distributed, after.distributed, sorted(after.accelerators)]))\n"
    )
    found = python("group.py", str(tmp_path / "rendezvous"), folder=tmp_path)
    assert json.loads(found.splitlines()[-1]) == [False, True, []]


THREADS = """
import _thread, threading
from dataset_num_proc.machine.probe import take_snapshot
def counts():
    process = take_snapshot().process
    return process.threads, process.python_threads
before, end = counts(), threading.Lock()
end.acquire()
threading.Thread(target=end.acquire, daemon=True).start()
_thread.start_new_thread(end.acquire, ())
print(before, counts())
"""


@needs_linux
def test_threads(tmp_path: Path) -> None:
    """The kernel counts a thread that Python's own list does not have, as those of native libraries."""
    assert python("-c", THREADS, folder=tmp_path) == "(1, 1) (3, 2)"


PRINT_IMPORTING = "from dataset_num_proc.machine.probe import take_snapshot\nprint(take_snapshot().process.importing)\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-c", "import at_import"), "at_import"),
        (("-c", "import importlib; importlib.import_module('package.inner')"), "package.inner"),
        (("-c", "import outer"), "at_import"),
        (("-c", "import sys, types, quiet, importlib; importlib.reload(quiet)"), "quiet"),
        (("-m", "at_import"), "None"),
        (("at_import.py",), "None"),
        (("-c", "import runpy; runpy.run_path('at_import.py')"), "None"),
        (("-c", "import runpy; runpy.run_module('package.inner')"), "None"),
        (("-c", "import late; late.ask()"), "None"),
    ],
)
def test_importing(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    """The innermost import in progress is named; running a script, or a function of an imported module, is none."""
    (tmp_path / "at_import.py").write_text(PRINT_IMPORTING)
    (tmp_path / "outer.py").write_text("import at_import\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / "package/inner.py").write_text(PRINT_IMPORTING)
    again = PRINT_IMPORTING.replace("\n", "\n    ")
    (tmp_path / "quiet.py").write_text(f"if 'again' in globals():\n    {again}\nagain = 1\n")
    (tmp_path / "late.py").write_text("def ask():\n    " + PRINT_IMPORTING.strip().replace("\n", "\n    "))
    assert python(*arguments, folder=tmp_path) == expected


def test_importing_here() -> None:
    """A test that pytest runs is no import."""
    assert take_snapshot().process.importing is None

"""What a fresh interpreter would make of the main module, and of a function."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dataset_num_proc.machine.main_module import Main, describe, importable, pickles
from dataset_num_proc.policy.facts import MainModule
from tests.machine.interpreter import python

ASK = "from dataset_num_proc.machine.probe import take_snapshot\n"
SAY = "p = take_snapshot().process; print((p.main.value, p.main_file, p.main_line))"
GUARD = 'if __name__ == "__main__":\n'
FUNCTION = f"{ASK}def work():\n    {SAY}\n"  # three lines


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"{FUNCTION}{GUARD}    work()\n", ("file", "script.py", None)),
        (f"{FUNCTION}if '__main__' == __name__ and work:\n    x = 1\n    work(\n    )\n", ("file", "script.py", None)),
        (f"{FUNCTION}import sys\n{GUARD}    sys.exit(work())\n", ("file", "script.py", None)),
        (f"{FUNCTION}work()\n", ("unguarded", "script.py", 4)),
        (f"{FUNCTION}{GUARD}    pass\nwork()\n", ("unguarded", "script.py", 6)),
        (f"{FUNCTION}{GUARD}    pass\nelse:\n    pass\nx = [work() for _ in '1']\n", ("unguarded", "script.py", 8)),
        (f"{FUNCTION}if __name__ != '__mp_main__':\n    work()\n", ("unguarded", "script.py", 5)),
        # On another thread the main module's own line is not on the stack, and its text decides.
        (
            f"{FUNCTION}import threading\nt = threading.Thread(target=work)\n{GUARD}    t.start(); t.join()\n",
            ("file", "script.py", None),
        ),
        (
            f"{FUNCTION}import threading\nt = threading.Thread(target=work)\nt.start()\nt.join()\n",
            ("unguarded", "script.py", 5),
        ),
    ],
)
def test_script(source: str, expected: tuple[str, str, int | None], tmp_path: Path) -> None:
    """A script is a file where what runs now stands under the guard, and else unguarded at the line that runs now."""
    (tmp_path / "script.py").write_text(source)
    assert ast.literal_eval(python("script.py", folder=tmp_path)) == expected


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (("-c", f"{ASK}{SAY}"), "", ("command", None, None)),
        ((), f"{ASK}{SAY}\n", ("stdin", None, None)),
        (("-",), f"{ASK}{SAY}\n", ("stdin", None, None)),
        (("-i", "-q"), f"{ASK}{SAY}\n", ("interactive", None, None)),
        (("-m", "guarded"), "", ("module", "guarded.py", None)),
        # A child runs such a module again, as it would a script.
        (("-m", "unguarded"), "", ("unguarded", "unguarded.py", 4)),
        (("-m", "package"), "", ("module", "__main__.py", None)),
        (("archive.zip",), "", ("module", "__main__.py", None)),
        (("package",), "", ("module", "__main__.py", None)),
    ],
)
def test_ways_to_start(
    arguments: tuple[str, ...], stdin: str, expected: tuple[str, str | None, int | None], tmp_path: Path
) -> None:
    """Each way to start Python is told from the others."""
    (tmp_path / "guarded.py").write_text(f"{FUNCTION}{GUARD}    work()\n")
    (tmp_path / "unguarded.py").write_text(f"{FUNCTION}work()\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__main__.py").write_text(f"{FUNCTION}work()\n")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.write(tmp_path / "package/__main__.py", "__main__.py")
    printed = python(*arguments, folder=tmp_path, stdin=stdin)
    assert ast.literal_eval(printed.splitlines()[-1]) == expected


def main_module(path: Path, **names: object) -> ModuleType:
    """A main module of that file that is not running on this thread."""
    made = ModuleType("__main__")
    vars(made).update({"__file__": str(path), **names})
    return made


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Doc."""\nimport os\nX = 1\nY: int = 2\nZ: int\ndef f(): g()\nclass C: pass\n', None),
        ("try:\n    import a\nexcept ImportError:\n    a = None\n", None),
        ("if True:\n    import a\nelse:\n    def a(): pass\n", None),
        ("X = 1\nX = f()\n", 2),
        ("try:\n    import a\nfinally:\n    a.run()\n", 4),
        ("for x in []:\n    pass\n", 1),
        ("with a:\n    pass\n", 1),
        ("import a\na.run()\nif __name__ == '__main__':\n    pass\n", None),
    ],
)
def test_text_of_a_script(source: str, line: int | None, tmp_path: Path) -> None:
    """Off the thread that runs the script, its first statement that does work counts, unless there is a guard."""
    path = tmp_path / "script.py"
    path.write_text(source)
    expected = Main(MainModule.FILE if line is None else MainModule.UNGUARDED, "script.py", line)
    assert describe(main_module(path), None) == expected


def test_a_changed_script_is_read_again(tmp_path: Path) -> None:
    """The layout of a script is kept for as long as its file stays the same."""
    path = tmp_path / "script.py"
    path.write_text("run()\n")
    assert describe(main_module(path), None).line == 1
    path.write_text("import run\nrun()\n")
    assert describe(main_module(path), None).line == 2


@pytest.mark.parametrize("text", [b"def (", b"\x00", b"\xff\xfe"])
def test_source_that_cannot_be_read(text: bytes, tmp_path: Path) -> None:
    """A file that is no Python, or not there, is unknown."""
    path = tmp_path / "program"
    assert describe(main_module(path), None) == Main(MainModule.UNKNOWN, "program")
    path.write_bytes(text)
    assert describe(main_module(path), None) == Main(MainModule.UNKNOWN, "program")


def test_warnings_of_a_script_are_not_shown_again(tmp_path: Path) -> None:
    """Reading a script with an invalid escape warns of nothing: the interpreter has warned already."""
    path = tmp_path / "script.py"
    path.write_text('X = "\\d"\n')
    assert describe(main_module(path), None).kind is MainModule.FILE


def test_notebook() -> None:
    """A main module without a file in which IPython runs is interactive."""
    main = ModuleType("__main__")
    main.get_ipython = object()  # type: ignore[attr-defined]
    assert describe(main, None) == Main(MainModule.INTERACTIVE)


def load(path: Path, name: str) -> ModuleType:
    """The module in a file, under a name that the path need not lead to, as compiled caches are loaded."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Callers:
    """Callables of other kinds than plain functions."""

    def method(self) -> None:
        """To be bound."""

    def __call__(self) -> None:
        """To be called."""


@pytest.mark.parametrize(
    "function",
    [
        len,
        ast.parse,
        threading.Thread,
        functools.partial(functools.partial(ast.parse)),
        Callers().method,
        Callers(),
        Callers,
    ],
    ids=str,
)
def test_importable(function: Callable[..., object]) -> None:
    """Functions of modules on the path can be imported, whatever they are wrapped in."""
    assert importable(function) is None


def test_functions_of_the_main_module_are_judged_with_it() -> None:
    """A function of the main module is not judged here."""
    for name in ("__main__", "__mp_main__"):
        assert importable(type("work", (), {"__module__": name})) is None


def test_not_importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that was loaded from a file off the path cannot be imported again: module and file are named."""
    path = tmp_path / "compiled_cache_module.py"
    path.write_text("def work(): pass\n")
    loaded = load(path, "compiled_cache_module")
    monkeypatch.setitem(sys.modules, loaded.__name__, loaded)
    why = importable(loaded.work) or ""
    assert "module compiled_cache_module" in why
    assert str(path) in why
    monkeypatch.syspath_prepend(tmp_path)
    assert importable(loaded.work) is None


def test_other_module_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh interpreter that would find another module of that name is found out."""
    path = tmp_path / "decoder.py"
    path.write_text("def work(): pass\n")
    loaded = load(path, "json.decoder")
    monkeypatch.setitem(sys.modules, "json.decoder", loaded)
    why = importable(loaded.work) or ""
    assert str(path) in why
    assert "fresh interpreter" in why


def test_hooks_of_the_child_find_it(tmp_path: Path) -> None:
    """A module that only an import hook finds, as of an editable install, is looked for where the hook is."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/hooked.py").write_text("def work(): pass\n")
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        "class Finder:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        file = {str(tmp_path / 'elsewhere/hooked.py')!r}\n"
        "        return importlib.util.spec_from_file_location(name, file) if name == 'hooked' else None\n"
        "sys.meta_path.append(Finder)\n"
    )
    ask = "import hooked; from dataset_num_proc.machine.main_module import importable; print(importable(hooked.work))"
    assert python("-c", ask, folder=tmp_path) == "None"


def test_pickles() -> None:
    """A function that holds a lock is refused in the pickler's own words; one that holds a number is not."""
    number, lock = 3, threading.Lock()
    assert pickles(lambda: number) is None
    generator = (each for each in [lock])
    assert "generator" in (pickles(lambda: generator) or "")

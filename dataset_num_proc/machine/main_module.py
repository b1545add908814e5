"""What a freshly started interpreter could make of this program: its main module, and the function to be mapped.

One job: to tell what a child would run again, or could not import. It may not run or import any of it in this process.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

from dataset_num_proc.machine.script_layout import layout_of
from dataset_num_proc.policy.facts import MainModule

_TIMEOUT_S = 60  # a child interpreter that imports a package as large as torch on a cold disk
_FIND = """
import importlib.util, json, sys
sys.path[:] = json.loads(sys.argv[1])
sys.exit(0 if importlib.util.find_spec(sys.argv[2]) else "no such module")
"""


class Main(NamedTuple):
    """What `__main__` is, the base name of its file, and the line that a child would run again."""

    kind: MainModule
    file: str | None = None
    line: int | None = None


def describe(main: ModuleType | None, frame: FrameType | None) -> Main:
    """What `main` is.

    Args:
        main: the module `__main__`.
        frame: the innermost frame to look at for the line that `main` is at.
    """
    names = vars(main) if main is not None else {}
    path, spec = names.get("__file__"), names.get("__spec__")
    if spec is not None and spec.name.rpartition(".")[2] == "__main__":
        # `python -m package`, a directory or a zip file: children skip such a main module altogether.
        return Main(MainModule.MODULE, path and _base(path))
    # "<stdin>" stands for a file where the program is piped in; a child fails to open it.
    if path in {None, "<stdin>"} or "ps1" in vars(sys):
        return Main(_without_file(names))
    try:
        state = os.stat(path)  # noqa: PTH116 - on the way of every answer, where pathlib takes twice as long
        layout = layout_of(path, state.st_mtime_ns, state.st_size)
    except (OSError, SyntaxError, ValueError):
        return Main(MainModule.UNKNOWN if spec is None else MainModule.MODULE, _base(path))
    line = _current_line(names, frame)
    if line is None and not layout.guarded:
        line = layout.first_work
    if line is None or layout.is_guarded(line):
        return Main(MainModule.FILE if spec is None else MainModule.MODULE, layout.file)
    # A child would begin where the script's work begins, not where it has come to.
    return Main(MainModule.UNGUARDED, layout.file, min(line, layout.first_work or line))


def _base(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - as above


def _without_file(names: Mapping[str, object]) -> MainModule:
    """The kind of a main module that has no file, or that somebody types at."""
    if "ps1" in vars(sys) or sys.flags.interactive or "get_ipython" in names:
        return MainModule.INTERACTIVE
    first = sys.argv[0] if getattr(sys, "argv", None) else None
    return {"-c": MainModule.COMMAND, "": MainModule.STDIN, "-": MainModule.STDIN}.get(str(first), MainModule.UNKNOWN)


def _current_line(names: Mapping[str, object], frame: FrameType | None) -> int | None:
    """The line that the main module's own code is at on this thread; `None` where it is not running here."""
    while frame is not None:
        if frame.f_globals is names and frame.f_code.co_name == "<module>":
            return frame.f_lineno
        frame = frame.f_back
    return None


def importable(function: object) -> str | None:
    """Why a fresh interpreter could not import the function's module; `None` where it can.

    Functions of the main module are judged with the main module, not here. A module that the path does not lead to is
    looked for by a child interpreter, whose import hooks (those of editable installs, for example) are its own.
    """
    name = _module_of(function)
    if name in {"__main__", "__mp_main__"}:
        return None
    loaded = getattr(sys.modules.get(name), "__file__", None)
    origin = f", loaded from {loaded}," if loaded else ""
    spec = _spec_on_path(name)
    if spec is None:
        why = _child_cannot_find(name)
        return f"module {name}{origin} cannot be imported by a fresh interpreter: {why}" if why else None
    if loaded and spec.origin and not _same_file(loaded, spec.origin):
        return f"a fresh interpreter would import module {name} from {spec.origin}: here it was loaded from {loaded}"
    return None


def _module_of(function: object) -> str:
    """The name of the module that defines a function, a bound method's class, or a callable object's class."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    return getattr(function, "__module__", None) or type(function).__module__


def _spec_on_path(name: str) -> ModuleSpec | None:
    """The spec of a module by the names of its packages, found without importing any of them."""
    if BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name):
        return ModuleSpec(name, None)
    spec, places = None, None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        try:
            spec = PathFinder.find_spec(".".join(parts[:depth]), places)
            places = list(spec.submodule_search_locations or ()) if spec else None
        except Exception:  # noqa: BLE001 - path hooks are anybody's code; a child interpreter is asked next
            return None
        if spec is None:
            return None
    return spec


def _same_file(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:  # one of them is no file: a frozen module, a member of a zip archive
        return True


def _child_cannot_find(name: str) -> str | None:
    path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
    try:
        command = [sys.executable, "-c", _FIND, path, name]
        child = subprocess.run(  # noqa: S603 - this interpreter, on a module name of this process
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"it is not on the path, and no interpreter could be asked: {error}"
    return None if child.returncode == 0 else (child.stderr.strip().splitlines() or ["it is not found"])[-1]


def pickles(function: object, module: str = "multiprocess") -> str | None:
    """Why a function cannot be sent to a worker, in the words of the module's own pickler; `None` where it can.

    Args:
        function: anything that is called in the worker.
        module: the module that starts the workers: `multiprocess` pickles by dill, local functions too, and
            `multiprocessing` by name.
    """
    try:
        importlib.import_module(f"{module}.reduction").ForkingPickler.dumps(function)
    except Exception as error:  # noqa: BLE001 - picklers raise what the object's own methods raise
        return f"the function cannot be pickled ({type(error).__name__}: {error})"
    return None

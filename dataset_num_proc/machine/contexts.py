"""The start methods of `multiprocess` and `multiprocessing`, and whether this process may have children there.

One job: to read the state of both modules. It may not fix it: `get_start_method()` without `allow_none` pins the
default for the rest of the process, and a later `set_start_method` then fails in code that is not ours.

`multiprocess` is read only where something imported it already: importing it imports dill, which registers picklers of
its own. Before that nobody can have pinned it, and it starts its workers as all its releases do.
"""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from types import ModuleType

from dataset_num_proc.machine.files import Reader
from dataset_num_proc.policy.facts import FORK, FORKSERVER, SPAWN, StartMethodFacts, StartMethods

MODULES = ("multiprocess", "multiprocessing")


def start_methods(multiprocess_version: str | None, reader: Reader) -> StartMethods:
    """The start methods of both modules.

    Args:
        multiprocess_version: the installed release, `None` where there is none.
        reader: where it is noted what cannot be told.
    """
    import multiprocessing  # not at the top: importing this package is to cost next to nothing

    loaded = sys.modules.get("multiprocess")
    if loaded is not None:
        first = _facts(loaded)
    else:
        first = StartMethodFacts() if multiprocess_version is None else _unloaded(sys.platform)
        if multiprocess_version is None:
            reader.note("start_methods.multiprocess", "not installed")
    return StartMethods(multiprocess=first, multiprocessing=_facts(multiprocessing))


def next_method(name: str) -> str:
    """The start method that the next pool of a module would use. Asking the module plainly would fix it."""
    return str(_facts(importlib.import_module(name)).method)  # a module that is here always has one


def _facts(module: ModuleType) -> StartMethodFacts:
    return _described(module, module.get_start_method(allow_none=True))


@lru_cache(maxsize=8)
def _described(module: ModuleType, pinned: str | None) -> StartMethodFacts:
    """The facts of a module; only what is pinned can change while a program runs."""
    offered = tuple(module.get_all_start_methods())
    if pinned is not None:
        return StartMethodFacts(pinned, pinned=True, offered=offered)
    # The first one offered is documented as the default, but `multiprocess` on macOS lists spawn first and forks.
    context = getattr(getattr(module, "context", None), "_default_context", None)
    default = getattr(getattr(context, "_default_context", None), "_name", None)
    return StartMethodFacts(default if default in offered else offered[0], pinned=False, offered=offered)


@lru_cache(maxsize=1)
def _unloaded(platform: str) -> StartMethodFacts:
    """What `multiprocess` says once it is imported: it forks wherever it can, on Python 3.14 (release 0.70.19) too."""
    if platform == "win32":
        return StartMethodFacts(SPAWN, pinned=False, offered=(SPAWN,))
    offered = (SPAWN, FORK, FORKSERVER) if platform == "darwin" else (FORK, SPAWN, FORKSERVER)
    return StartMethodFacts(FORK, pinned=False, offered=offered)


def daemonic() -> dict[str, bool]:
    """Per module, whether this process was started by it as a daemon, which may not have children."""
    flags = {}
    for name in MODULES:
        process = sys.modules.get(f"{name}.process")
        flags[name] = process is not None and bool(process.current_process().daemon)
    return flags

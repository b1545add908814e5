"""Which part of a function keeps it from being pickled: `fn.tokenizer._lock`.

One job: to walk down what a pickler would walk, to the innermost object that it refuses. It may not change what it
walks, nor start anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from dataset_num_proc.machine.main_module import pickles

_DEEPEST = 20
_CHILDREN = 200  # of one object; a large container is not pickled piece by piece
_PLAIN_ERRORS = (TypeError, AttributeError)


def attribute_path(value: object, package: str = "multiprocess", name: str = "fn") -> str | None:
    """The path from `value` to the innermost part that does not pickle; `None` where all of it does.

    Args:
        value: a function, or anything that is to travel to a worker.
        package: the process module whose pickler decides.
        name: what stands for `value` in the path.
    """
    dumps = import_module(f"{package}.reduction").ForkingPickler.dumps

    def fails(part: object) -> bool:
        try:
            dumps(part)
        except Exception:  # noqa: BLE001 - whatever a reducer raises
            return True
        return False

    if not fails(value):
        return None
    seen: set[int] = set()
    for _ in range(_DEEPEST):
        seen.add(id(value))
        parts = ((step, part) for step, part in _parts(value) if id(part) not in seen)
        found = next(((step, part) for step, part in parts if fails(part)), None)
        if found is None:
            break
        name, value = name + found[0], found[1]
    return name


def does_not_pickle(function: object, package: str = "multiprocess") -> str | None:
    """Why a function cannot be sent to a worker, with the path to the part that it is about; `None` where it can."""
    problem = pickles(function, package)
    return f"{problem}; it is {attribute_path(function, package)}" if problem is not None else None


def name_the_path(error: BaseException, task: tuple[Any, ...], package: str) -> None:
    """Adds the path to an error of sending `task`, a pool's (job, place, function, arguments, keywords)."""
    if type(error) not in _PLAIN_ERRORS or len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    with suppress(Exception):  # to be told the path is a help, and no reason for another error
        path = _path_in(task, package)
        if path is not None:
            error.args = (f"{error.args[0]} — it is {path}, which would have to travel to the workers",)


def _path_in(task: tuple[Any, ...], package: str) -> str | None:
    function, args, keywords = task[2:5]
    values = args[2] if len(args) > 2 and isinstance(args[2], dict) else keywords  # noqa: PLR2004 - (queue, function, values)
    if callable(values.get("function")):
        function = values["function"]
        for name in ("fn_kwargs",):
            path = attribute_path(values.get(name), package, name)
            if path:
                return path
    return attribute_path(function, package)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a pickler would go on to, with the step in Python's own words."""
    if isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, type(import_module)) and hasattr(value, "__func__"):
        yield ".__self__", owner
    yield from _of_function(value)
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in list(value.items())[:_CHILDREN])
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{place}]", part) for place, part in enumerate(value[:_CHILDREN]))
    yield from ((f".{name}", part) for name, part in list(getattr(value, "__dict__", {}).items())[:_CHILDREN])


def _of_function(value: object) -> Iterator[tuple[str, object]]:
    code = getattr(value, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, getattr(value, "__closure__", None) or ()):  # noqa: B905 - 3.10
        with suppress(ValueError):  # a cell that is not filled yet
            yield f".{name}", cell.cell_contents
    names = getattr(value, "__globals__", {})
    yield from ((f".{name}", names[name]) for name in code.co_names if name in names)
    yield from ((f".{name}", part) for name, part in (getattr(value, "__kwdefaults__", None) or {}).items())
    for place, part in enumerate(getattr(value, "__defaults__", None) or ()):
        yield f".__defaults__[{place}]", part

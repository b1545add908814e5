"""Whether a function arrives in a freshly started worker.

One job: to send it to one, in a pool of one that the caller's scope prepares, and hear back. It may not call the
function, in either process.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Iterator
from importlib import import_module
from types import CodeType
from typing import Any

_TIMEOUT_S = 60.0  # a child interpreter that imports a package as large as torch on a cold disk


def problem(function: Callable[..., Any], package: str = "multiprocess") -> str | None:
    """Why `function` does not arrive in a worker, in the worker's words; `None` where it does.

    A worker that cannot even start is not answered for here: its death is for the scope to name.

    Args:
        function: what would be mapped.
        package: the module that starts the workers, by its start method.
    """
    # As bytes: a pool's worker that cannot have its task dies of it, and could not answer.
    data = bytes(import_module(f"{package}.reduction").ForkingPickler.dumps(function))
    names = sorted(set(_globals_used(function)))
    with import_module(package).Pool(1) as pool:
        try:
            answer: str | None = pool.apply_async(_try_it_on, (data, names, package)).get(_TIMEOUT_S)
        except import_module(package).TimeoutError:
            return f"a worker did not say within {_TIMEOUT_S:.0f} s whether it has the function"
        return answer


def _globals_used(function: Callable[..., Any]) -> Iterator[str]:
    """The global names that the function's own code reads and that are there in this process."""
    known = getattr(function, "__globals__", {})
    codes = [function.__code__] if hasattr(function, "__code__") else []
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for step in dis.get_instructions(code):
            if step.opname == "LOAD_GLOBAL" and step.argval in known:
                yield step.argval


def _try_it_on(data: bytes, names: list[str], package: str) -> str | None:
    """In the worker: takes the function, and looks for the globals that it reads."""
    try:
        function = import_module(f"{package}.reduction").ForkingPickler.loads(data)
    except BaseException as error:  # noqa: BLE001 - an import runs anybody's code, `sys.exit` too
        return f"{type(error).__name__}: {error}"
    there = {**vars(builtins), **getattr(function, "__globals__", {})}
    # A script's globals that are made under its guard exist in the parent alone.
    missing = [name for name in names if name not in there]
    return f"NameError: name {missing[0]!r} is not defined" if missing else None

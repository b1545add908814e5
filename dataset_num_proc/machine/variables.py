"""Environment variables by name: those that are set, read at little cost, and several set or taken away at once.

One job: names and values. `os.environ` decodes a name each time it is asked; its own table shows at once that most
processes have none of those that somebody asks for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache


def chosen(environ: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """The variables among `names` that are set."""
    table = getattr(environ, "_data", environ)
    if table.keys().isdisjoint(names) and table.keys().isdisjoint(_encoded(names)):
        return {}
    return {name: environ[name] for name in names if name in environ}


def put(variables: Mapping[str, str | None]) -> None:
    """Sets this process's variables; `None` takes one away."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@lru_cache(maxsize=8)
def _encoded(names: frozenset[str]) -> frozenset[bytes]:
    """The names as the table of a POSIX `os.environ` has them."""
    return frozenset(map(os.fsencode, names))

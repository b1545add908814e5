"""A script's source → which of its lines a fresh interpreter would run again.

One job: the guarded lines, and the first one outside of them that does any work. The source is parsed, never run.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HARMLESS = frozenset(
    {"Import", "ImportFrom", "FunctionDef", "AsyncFunctionDef", "ClassDef", "TypeAlias", "Pass", "Global", "Delete"}
)
_EXPRESSIONS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_WORK = (ast.Call, ast.Await)


class ScriptLayout(NamedTuple):
    """A script's base name, its guarded lines, as ranges, and the first line outside of them that does any work."""

    file: str
    guarded: tuple[tuple[int, int], ...]
    first_work: int | None

    def is_guarded(self, line: int) -> bool:
        """Whether a line stands under the guard."""
        return any(first <= line <= last for first, last in self.guarded)


@functools.lru_cache(maxsize=4)
def layout_of(path: str, _modified_ns: int, _size: int) -> ScriptLayout:
    """The layout of a script, parsed again when its time or size has changed.

    Raises:
        OSError, SyntaxError, ValueError: it cannot be read, or is no Python.
    """
    with warnings.catch_warnings():
        # The interpreter has shown the script's own warnings already, when it compiled it.
        warnings.simplefilter("ignore")
        tree = ast.parse(Path(path).read_bytes())
    return ScriptLayout(Path(path).name, tuple(_guarded(tree.body)), _first_work(tree.body))


def _guarded(statements: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    """First and last line of each block that only the main program runs, of those inside an `if` or a `try` too."""
    for statement in statements:
        if isinstance(statement, ast.If):
            alone = _of_main_alone(statement)
            if alone:
                yield alone[0].lineno, alone[-1].end_lineno or alone[-1].lineno
        if isinstance(statement, (ast.If, ast.Try)):
            handlers = [inner for handler in getattr(statement, "handlers", []) for inner in handler.body]
            final = getattr(statement, "finalbody", [])
            yield from _guarded([*statement.body, *handlers, *statement.orelse, *final])


def _of_main_alone(statement: ast.If) -> list[ast.stmt]:
    """The branch that only the main program runs; empty where the condition does not ask."""
    if _is_guard(statement.test):
        return statement.body
    return statement.orelse if _is_guard_against(statement.test) else []


def _is_guard_against(test: ast.expr) -> bool:
    """Whether a condition is `__name__ != "__main__"`, whose `else` is the main program."""
    return _compares_name(test, ast.NotEq)


def _is_guard(test: ast.expr) -> bool:
    """Whether a condition is `__name__ == "__main__"`, either way round, perhaps with more conditions to it."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_is_guard, test.values))
    return _compares_name(test, ast.Eq, ast.In)


def _compares_name(test: ast.expr, *operators: type[ast.cmpop]) -> bool:
    """Whether a condition compares `__name__` with "__main__", or a tuple that holds it, by one of the operators."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], operators):
        return False
    sides = [test.left, test.comparators[0]]
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(part, ast.Constant) and part.value == "__main__" for side in sides for part in ast.walk(side)
    )


def _first_work(statements: list[ast.stmt]) -> int | None:
    """The line of the first statement that does more than import, define, or name a plain value."""
    for statement in statements:
        line: int | None = None
        if isinstance(statement, (ast.If, ast.Try)):
            handlers = [inner for handler in getattr(statement, "handlers", []) for inner in handler.body]
            final = getattr(statement, "finalbody", [])
            alone = _of_main_alone(statement) if isinstance(statement, ast.If) else []
            branches = [branch for branch in (statement.body, statement.orelse) if branch is not alone]
            line = _first_work([inner for branch in (*branches, handlers, final) for inner in branch])
        elif isinstance(statement, _EXPRESSIONS):
            works = statement.value is not None and any(isinstance(n, _WORK) for n in ast.walk(statement.value))
            line = statement.lineno if works else None
        elif type(statement).__name__ not in _HARMLESS:
            line = statement.lineno
        if line is not None:
            return line
    return None

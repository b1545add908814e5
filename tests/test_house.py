"""The house rules that no linter knows: size budgets, a policy that sees values alone, text that names no machine."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataset_num_proc.policy.rules import CEILINGS, VETOES

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings the same parser under its first name
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dataset_num_proc"
ROOMS = ("dataset_num_proc", "scripts", "tests", ".ci")
TEXTS = {".cfg", ".json", ".md", ".py", ".sh", ".toml", ".txt", ""}

MODULE_LINES, FUNCTION_LINES, RULE_LINES = 250, 30, 12

modules = pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
policy_modules = pytest.mark.parametrize("module", sorted(PACKAGE.glob("policy/*.py")), ids=lambda path: path.name)


def functions_of(source: str) -> Iterator[tuple[str, int]]:
    """Each function with the number of its lines: with its decorators, without its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            documented = ast.get_docstring(node) is not None
            docstring = (node.body[0].end_lineno or 0) - node.body[0].lineno + 1 if documented else 0
            yield node.name, (node.end_lineno or 0) - first + 1 - docstring


def imports_of(module: Path) -> Iterator[str]:
    """The top-level name of everything that a module imports by absolute name, inside functions too."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def texts() -> Iterator[Path]:
    """The project's own text files."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXTS - {""})
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if path.is_file() and path.suffix in TEXTS:
                yield path


@modules
def test_module_budget(module: Path) -> None:
    """A module has at most 250 lines; one that would outgrow this is two."""
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines <= MODULE_LINES


@modules
def test_function_budget(module: Path) -> None:
    """A function has at most 30 lines, its docstring not counted."""
    functions = functions_of(module.read_text(encoding="utf-8"))
    assert {name: lines for name, lines in functions if lines > FUNCTION_LINES} == {}


@pytest.mark.parametrize("rule", [*VETOES, *CEILINGS], ids=lambda rule: rule.__name__)
def test_rule_budget(rule: Callable[..., object]) -> None:
    """A veto or a ceiling of the policy has at most 12 lines: it is one thought."""
    ((_, lines),) = functions_of(inspect.getsource(rule))
    assert lines <= RULE_LINES


@policy_modules
def test_policy_sees_values_alone(module: Path) -> None:
    """No module of the policy imports, even inside a function, what the import contract forbids it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (forbidden,) = (contract["forbidden_modules"] for contract in contracts if contract["type"] == "forbidden")
    assert set(imports_of(module)) & set(forbidden) == set()


def test_text_names_no_machine() -> None:
    """No text of the project holds a path of the machine that it was written on."""
    home = re.compile(r"(?<![\w.])/(?:work|root)/")
    found = [str(path.relative_to(ROOT)) for path in texts() if home.search(path.read_text(encoding="utf-8"))]
    assert found == []

"""The README says what is so: its examples run, its tables are the code's, and its length is kept."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dataset_num_proc as dnp
from tests.capabilities import needs_datasets
from tests.scripts import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def tokenize(row: dict[str, Any]) -> dict[str, Any]:
    """The function that the examples map."""
    return {"tokens": row["text"].split()}


def test_there_are_examples() -> None:
    """The README has examples to run: a change of its layout does not turn this file off."""
    assert len(EXAMPLES) >= 6


@needs_datasets
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.strip().splitlines()[-1][:40])
def test_an_example_runs(example: str) -> None:
    """Each Python example of the README runs as it stands, given a data set, a function and a configuration."""
    import datasets

    names = {"dnp": dnp, "ds": datasets.Dataset.from_dict({"text": ["a b", "c"]}), "tokenize": tokenize}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dnp.WorkersReduced)  # sixteen workers for two rows
        exec(example, {**names, "args": SimpleNamespace()})  # noqa: S102 - our own README


def test_the_tables_are_the_codes_own() -> None:
    """The tables of rules and of sites are what the code says."""
    assert run(ROOT / "scripts" / "readme_tables.py", "--check").status == 0


def test_the_doctor_is_quoted_as_it_speaks() -> None:
    """The doctor's output in the README is what it prints about a recorded container."""
    golden = ROOT / "tests" / "golden" / "doctor-docker-v2.txt"
    assert golden.read_text(encoding="utf-8").rstrip() in README


def test_it_is_short() -> None:
    """The README stays within its 250 lines."""
    assert len(README.splitlines()) <= 250


def test_every_name_in_it_exists() -> None:
    """Every `dnp.name` that the README mentions is a public name."""
    assert set(re.findall(r"\bdnp\.(\w+)", README)) <= set(dnp.__all__)

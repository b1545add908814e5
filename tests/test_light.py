"""Importing and asking cost little: what a fresh interpreter loads for each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "datasets", "numpy", "dill", "pyarrow", "tokenizers")


def loaded_by(statements: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `statements`, beyond those that it starts with."""
    program = f"import sys; before = set(sys.modules); {statements}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("statements", ["import dataset_num_proc", "import dataset_num_proc as dnp; dnp.num_proc(16)"])
def test_no_heavy_library_is_loaded(statements: str) -> None:
    """Neither the import nor a whole question loads torch, datasets, numpy or dill."""
    assert loaded_by(statements) & set(HEAVY) == set()


def test_the_import_loads_the_standard_library_alone() -> None:
    """The import loads nothing but the package and the standard library: no psutil, no multiprocess."""
    assert loaded_by("import dataset_num_proc") - sys.stdlib_module_names == {"dataset_num_proc"}

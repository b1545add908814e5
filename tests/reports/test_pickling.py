"""Public trouble reports: functions that do not pickle, and so cannot travel to a worker; on real data sets.

C42, which is not about sizing by measurement.
"""

from __future__ import annotations

import ssl
from importlib import import_module
from typing import Any

import pytest

import dataset_num_proc as dnp
from tests.capabilities import needs_datasets, needs_linux
from tests.values import machine

pytestmark = [needs_linux, needs_datasets]

ROWS = 4


class Task:
    """A task with an HTTP client in its reach."""

    def __init__(self) -> None:
        self.c = ssl.create_default_context()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The work, which has nothing to do with the client."""
        return {"twice": 2 * row["n"]}


def mapped(num_proc: int | None) -> list[int]:
    """The rows, mapped on a machine that forks."""
    datasets = import_module("datasets")
    datasets.disable_progress_bars()
    rows = datasets.Dataset.from_dict({"n": list(range(ROWS))})
    # A name of its own: `datasets` cannot hash such a function, and warns that it takes a random one.
    options: dict[str, Any] = {
        "new_fingerprint": "c42",
        "snapshot": machine("fork"),
        "settings": dnp.Settings(min_rows=0),
    }
    return list(dnp.map(rows, Task(), num_proc=num_proc, **options)["twice"])


def test_c42_lmms_eval_818_a_client_in_reach() -> None:
    """Left to choose, the map is done in this process, and the part that does not pickle is named, path and class.

    Reported as EvolvingLMMs-Lab/lmms-eval#818.
    """
    with pytest.warns(dnp.WorkersReduced, match=r"in this process instead of . workers.*SSLContext.*it is fn\.c"):
        assert mapped(None) == [2 * row for row in range(ROWS)]
    assert mapped(0) == [2 * row for row in range(ROWS)]


def test_c42_lmms_eval_818_a_count_that_was_asked_for() -> None:
    """It is the pickler's own error, with the path (EvolvingLMMs-Lab/lmms-eval#818)."""
    with pytest.raises(TypeError, match=r"SSLContext.* it is fn\.c"):
        mapped(2)

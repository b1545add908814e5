"""The scope around real maps of `datasets`: what workers see, and what is left in the parent."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc.policy.worker_environment import THREAD_LIMITS, WORKER_VARIABLES
from tests.capabilities import needs_datasets, needs_linux, needs_tokenizers
from tests.scripts import run

pytestmark = [needs_linux, needs_datasets]

TOKENIZERS = "TOKENIZERS_PARALLELISM"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs start with none of the worker variables, but for what a test gives them."""
    for name in WORKER_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def program(name: str, method: str, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """What the program of that name says."""
    return run(Path(__file__).with_name("scope_program.py"), name, method, environ=variables).json()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_and_parent_in_a_scope(method: str) -> None:
    """C48, C71: workers have limits and default signals; the parent has its own state back, after an error too."""
    saw = program("observe", method, OMP_NUM_THREADS="3")
    limits: dict[str, str] = {**dict.fromkeys(THREAD_LIMITS, "8"), "OMP_NUM_THREADS": "3", TOKENIZERS: "false"}
    workers = {worker["pid"]: worker for worker in saw["workers"]}
    assert workers  # a spawned worker that is up first may do both shards
    assert saw["here"] not in workers
    for worker in workers.values():
        assert worker["environment"] == {name: [value, value] for name, value in limits.items()}
        assert worker["handlers"] == [str(signal.SIG_DFL), str(signal.default_int_handler)]
    assert saw["error"] is not None
    assert saw["before"]["methods"] == [None, None]
    assert saw["inside"]["methods"][0] == method
    assert saw["inside"]["mapping"] != saw["before"]["mapping"]
    assert saw["after"] == saw["before"]
    assert saw["after_error"] == saw["before"]


def test_a_death_under_a_sigterm_handler_is_reported() -> None:
    """C49: with a handler that only logs in the parent, a killed worker is an error at once, and nothing is left."""
    saw = program("death", "fork")
    assert "abruptly died" in saw["error"]
    assert saw["children"] == 0


@needs_tokenizers
@pytest.mark.parametrize("value", [None, "true", "false"])
def test_the_parents_tokenizer_is_as_before(value: str | None) -> None:
    """C11: a tokenizer used in the parent works in forked workers; the user's value is back afterwards, in C too."""
    saw = program("tokenize", "fork", **({TOKENIZERS: value} if value else {}))
    assert saw["same"]
    assert saw["after"] == saw["before"]
    assert saw["after"]["environment"][TOKENIZERS] == [value, value]

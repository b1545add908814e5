"""Which part of a function does not pickle."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from dataset_num_proc.machine.attribute_path import attribute_path, name_the_path
from tests.capabilities import needs_datasets


def bad() -> Any:  # noqa: ANN401 - what no pickler takes
    """A generator."""
    yield from ()


class Tokenizer:
    """Holds what does not pickle, two steps down."""

    def __init__(self) -> None:
        self.backend = SimpleNamespace(good=1, state=bad())

    def encode(self, row: object) -> object:
        """A method that would take all of it along."""
        return row


def closure() -> Any:  # noqa: ANN401 - a function
    """A function over a tokenizer."""
    tokenizer = Tokenizer()
    return lambda row: tokenizer.encode(row)  # noqa: PLW0108 - it is the closure that is asked for


@needs_datasets
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (closure(), "fn.tokenizer.backend.state"),
        (Tokenizer().encode, "fn.__self__.backend.state"),
        (partial(print, bad()), "fn.args[0]"),
        ({"a": [1, bad()]}, "fn['a'][1]"),
        (bad(), "fn"),
        (print, None),
    ],
)
def test_the_innermost_part_is_named(value: object, path: str | None) -> None:
    """By the steps that Python itself would write; `None` where all of it pickles."""
    assert attribute_path(value) == path


@needs_datasets
def test_the_error_says_so() -> None:
    """The text of a pickler's error gains the path; an error of another kind stays as it is."""
    task: tuple[Any, ...] = (1, 0, closure(), (), {})
    error = TypeError("cannot pickle 'generator' object")
    name_the_path(error, task, "multiprocess")
    assert "fn.tokenizer.backend.state" in str(error)
    other = ValueError("no room")
    name_the_path(other, task, "multiprocess")
    assert str(other) == "no room"


@needs_datasets
def test_arguments_of_a_mapped_function_are_named() -> None:
    """What `fn_kwargs` holds is named as such."""
    values = {"function": print, "fn_kwargs": {"tokenizer": bad()}}
    error = TypeError("cannot pickle 'generator' object")
    name_the_path(error, (1, 0, print, (None, print, values), {}), "multiprocess")
    assert "fn_kwargs['tokenizer']" in str(error)

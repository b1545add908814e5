"""What the operator says: environment variables and ranges."""

from __future__ import annotations

from typing import Any

import pytest

from dataset_num_proc.errors import DatasetNumProcError, SettingsError
from dataset_num_proc.policy.request import OVERRIDE_FORMS, Ignored, Settings, parse_override


def test_defaults() -> None:
    """Without a word from anybody: at most 8 workers, half the memory, 1 GiB a worker, and 5,000 rows to start any."""
    assert Settings() == Settings(auto_cap=8, memory_share=0.5, bytes_per_worker=1 << 30, min_rows=5000)
    assert Settings.from_environ({}) == Settings()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *((word, 0) for word in ("", "   ", "0", "-0", "1", "none", "NULL", " False ")),
        *(("2", 2), (" 8 ", 8), ("+4", 4), ("1_0", 10), ("٣", 3), ("999999999999", 999_999_999_999)),
        *((word, None) for word in ("-1", "-8", "true", "yes", "auto", "off", "no", "8.0", "1e1", "0x8", "banana")),
        ("9" * 5000, None),
    ],
)
def test_override_texts(text: str, count: int | None) -> None:
    """Empty, 0, 1, none, null and false are "in this process", a whole number is that count, the rest says nothing."""
    assert parse_override(text) == count


def test_our_variable_is_read_first() -> None:
    """`DATASET_NUM_PROC` beats `UNSLOTH_DATASET_NUM_PROC`, read where ours is not set; the source is recorded."""
    both = Settings.from_environ({"DATASET_NUM_PROC": "4", "UNSLOTH_DATASET_NUM_PROC": "6"})
    assert (both.override, both.override_source, both.ignored) == (4, "DATASET_NUM_PROC", ())
    theirs = Settings.from_environ({"UNSLOTH_DATASET_NUM_PROC": "6"})
    assert (theirs.override, theirs.override_source) == (6, "UNSLOTH_DATASET_NUM_PROC")


def test_in_process_counts_as_set() -> None:
    """An empty variable is the operator's word: in this process."""
    settings = Settings.from_environ({"DATASET_NUM_PROC": "", "UNSLOTH_DATASET_NUM_PROC": "6"})
    assert (settings.override, settings.override_source) == (0, "DATASET_NUM_PROC")


def test_an_unusable_text_never_counts_as_set() -> None:
    """What cannot be used is listed with its variable, its text and the accepted forms; the next variable is asked."""
    settings = Settings.from_environ({"DATASET_NUM_PROC": "banana", "UNSLOTH_DATASET_NUM_PROC": "6"})
    assert (settings.override, settings.override_source) == (6, "UNSLOTH_DATASET_NUM_PROC")
    assert settings.ignored == (Ignored("DATASET_NUM_PROC", "banana", OVERRIDE_FORMS),)
    alone = Settings.from_environ({"DATASET_NUM_PROC": "-1"})
    assert (alone.override, alone.override_source) == (None, None)
    assert [item.text for item in alone.ignored] == ["-1"]


@pytest.mark.parametrize(
    ("text", "method", "ignored"),
    [
        (" Spawn ", "spawn", []),
        ("forkserver", "forkserver", []),
        ("fork", "fork", []),
        ("", None, []),
        ("  ", None, []),
        ("thread", None, ["thread"]),
        ("auto", None, ["auto"]),
    ],
)
def test_start_method_variable(text: str, method: str | None, ignored: list[str]) -> None:
    """`DATASET_NUM_PROC_START_METHOD` is one of three methods, or is listed as ignored."""
    settings = Settings.from_environ({"DATASET_NUM_PROC_START_METHOD": text})
    assert settings.start_method == method
    assert [item.text for item in settings.ignored] == ignored
    assert all(item.variable == "DATASET_NUM_PROC_START_METHOD" for item in settings.ignored)


@pytest.mark.parametrize(
    "field",
    [
        {"auto_cap": -1},
        *({"memory_share": share} for share in (0.0, -0.5, 1.01, float("nan"))),
        {"bytes_per_worker": 0},
        {"min_rows": -1},
        {"override": -1},
        {"start_method": "auto"},
    ],
)
def test_out_of_range(field: dict[str, Any]) -> None:
    """A setting that no decision could be made with is refused, by name, with its value and what is accepted."""
    ((name, value),) = field.items()
    with pytest.raises(SettingsError, match=f"Settings.{name}={value!r}: accepted is ") as caught:
        Settings(**field)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DatasetNumProcError)


def test_the_ends_of_the_ranges() -> None:
    """The ends themselves are accepted."""
    settings = Settings(auto_cap=0, memory_share=1, bytes_per_worker=1, min_rows=0, override=0, start_method="fork")
    assert settings.memory_share == 1

"""The calls that people write, on given machines: answers, warnings, log lines, errors."""

from __future__ import annotations

import logging
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dataset_num_proc as dnp
from dataset_num_proc.policy.facts import MainModule
from tests.capabilities import needs_datasets
from tests.values import GIB, machine, starts

LARGE = machine()
TIGHT = machine(available=8 * GIB)
SPAWNING = machine("spawn", main=MainModule.FILE)
DEFAULTS: dict[str, Any] = {"snapshot": LARGE, "settings": dnp.Settings()}
ON_TIGHT: dict[str, Any] = {**DEFAULTS, "snapshot": TIGHT}


def entered(*arguments: Any, **options: Any) -> object:  # noqa: ANN401 - those of `workers`
    """What a scope hands to the site."""
    with dnp.workers(*arguments, **options) as count:
        return count


ENTRIES: list[Callable[..., object]] = [dnp.num_proc, dnp.plan, entered]


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        (None, {}, 8),
        ("auto", {}, 8),
        (16, {}, 16),
        ("16", {}, 16),
        (1, {}, None),
        (0, {"site": "unsloth.sft_config"}, 1),
        (None, {"rows": 100}, None),
        (None, {"side_effects": True}, None),
        (16, {"rows": 3}, 3),
        (None, {"site": "dataloader", "rows": 100}, 0),
        (None, {"workload": "packing", "site": "axolotl.multipack"}, 8),
        (None, {"profile": dnp.Profile(2e-3, 2e-3), "rows": 10**6}, 32),
        (64, {"bytes_per_worker": 1}, 64),
        (None, {"settings": dnp.Settings(auto_cap=3)}, 3),
        (16, {"settings": dnp.Settings(override=5)}, 5),
    ],
)
def test_num_proc(value: object, options: dict[str, Any], expected: int | None) -> None:
    """The count in the site's own words; what was given in place of the machine and the environment is what counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dnp.WorkersReduced)
        assert dnp.num_proc(value, **{**DEFAULTS, **options}) == expected
        assert entered(value, **{**DEFAULTS, **options}) == expected


def test_plan_is_the_decision_behind_it() -> None:
    """`plan` gives every reason, `decide` the same for the same values, and `encode` the word."""
    decision = dnp.plan(16, site="unsloth.sft_config", rows=10**6, **DEFAULTS)
    assert decision == dnp.decide(dnp.Request.of(16, site="unsloth.sft_config", rows=10**6), LARGE, dnp.Settings())
    assert dnp.encode(decision, "unsloth.sft_config", snapshot=LARGE) == 16
    nothing = dnp.plan(0, **DEFAULTS)
    assert [dnp.encode(nothing, site, snapshot=LARGE) for site in ("map", "unsloth.sft_config")] == [None, 1]
    assert dnp.encode(nothing) is None


def test_a_request_is_taken_as_it_is() -> None:
    """A value that was read back at a site keeps that site, unless another one is named."""
    read_back = dnp.decode(None, "unsloth.sft_config")
    assert dnp.num_proc(read_back, rows=10, **DEFAULTS) == 1
    assert dnp.num_proc(read_back, rows=10, site="map", **DEFAULTS) is None


def test_this_machine_and_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a snapshot and settings the machine and the environment are read, at every call."""
    monkeypatch.setenv("DATASET_NUM_PROC", "3")
    assert dnp.num_proc() == dnp.plan(0).workers == 3
    monkeypatch.setenv("DATASET_NUM_PROC", "none")
    assert dnp.num_proc(5) is None
    monkeypatch.delenv("DATASET_NUM_PROC")
    answer = dnp.num_proc()
    assert answer is None or answer >= 2


# --- warnings and the log -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_reduction_is_a_warning(entry: Callable[..., object]) -> None:
    """Fewer than asked for is one warning, which names the count, the answer, the bound, and points at the caller."""
    with pytest.warns(dnp.WorkersReduced) as caught:
        entry(16, **ON_TIGHT)
    (warning,) = caught
    assert "16 asked, 4 workers" in str(warning.message)
    assert "memory" in str(warning.message)
    assert "DATASET_NUM_PROC" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("rank", [None, 0, 1, 7])
def test_one_rank_speaks_for_all(rank: int | None) -> None:
    """Of the ranks of a node the first warns; without ranks the process does."""
    snapshot = machine(available=8 * GIB, local_rank=rank)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert dnp.num_proc(16, snapshot=snapshot, settings=dnp.Settings()) == 4
    assert len(caught) == (0 if rank else 1)


@pytest.mark.parametrize("value", [None, 0, 1, 2, 4])
def test_what_was_granted_is_no_warning(value: int | None) -> None:
    """A free choice is never a reduction, nor is a count that was granted."""
    for entry in ENTRIES:
        entry(value, **ON_TIGHT)


@pytest.mark.parametrize("entry", [*ENTRIES, dnp.mp_context])
def test_an_ignored_variable_is_a_warning(entry: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that cannot be used is one warning with its name, its text and what is accepted, at the caller."""
    monkeypatch.setenv("DATASET_NUM_PROC", "banana")
    with pytest.warns(dnp.SettingsWarning) as caught:
        entry(snapshot=LARGE)
    (warning,) = caught
    assert "DATASET_NUM_PROC='banana'" in str(warning.message)
    assert "whole number" in str(warning.message)
    assert warning.filename == __file__


def test_each_ignored_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two variables are two warnings."""
    monkeypatch.setenv("DATASET_NUM_PROC", "-1")
    monkeypatch.setenv("DATASET_NUM_PROC_START_METHOD", "thread")
    with pytest.warns(dnp.SettingsWarning) as caught:
        assert dnp.num_proc(snapshot=LARGE) == 8
    assert [str(item.message).partition("=")[0] for item in caught] == [
        "DATASET_NUM_PROC",
        "DATASET_NUM_PROC_START_METHOD",
    ]


def test_settings_in_code_are_not_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that are given take the environment's place whole."""
    monkeypatch.setenv("DATASET_NUM_PROC", "banana")
    assert dnp.num_proc(**DEFAULTS) == 8


@pytest.mark.parametrize("entry", ENTRIES)
def test_one_line_a_decision(entry: Callable[..., object], caplog: pytest.LogCaptureFixture) -> None:
    """Each decision is one INFO line on the package's logger, with the site, the answer and its reason."""
    with caplog.at_level(logging.INFO, logger="dataset_num_proc"):
        entry(4, site="filter", **DEFAULTS)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("dataset_num_proc", logging.INFO)
    assert record.getMessage().startswith("filter: 4 workers by fork (asked")


def test_the_other_ranks_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """What one rank warns about, the others only log."""
    with caplog.at_level(logging.INFO, logger="dataset_num_proc"):
        dnp.num_proc(16, snapshot=machine(available=8 * GIB, local_rank=3), settings=dnp.Settings())
    assert "16 asked, 4 workers" in caplog.text


def test_nothing_is_said_without_a_logger(capfd: pytest.CaptureFixture[str]) -> None:
    """Without logging set up a decision prints nothing."""
    dnp.num_proc(4, **DEFAULTS)
    assert capfd.readouterr() == ("", "")


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [*ENTRIES, dnp.decode])
def test_values_that_are_no_counts(entry: Callable[..., object]) -> None:
    """Every way in refuses the same values with the same words."""
    options = {} if entry is dnp.decode else DEFAULTS
    with pytest.raises(TypeError, match="True is not a worker count"):
        entry(True, **options)  # noqa: FBT003 - the value under test
    with pytest.raises(ValueError, match="-1 is not a worker count"):
        entry(-1, **options)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"site": "kitchen"}, dnp.SiteError, "kitchen"),
        ({"rows": -1}, ValueError, "rows=-1"),
        ({"workload": "cooking"}, ValueError, "cooking"),
        ({"colour": "red"}, TypeError, "colour"),
    ],
)
def test_options_that_are_none(
    entry: Callable[..., object], options: dict[str, Any], error: type[Exception], match: str
) -> None:
    """An unknown site, a field out of range and an unknown option are errors that name them."""
    with pytest.raises(error, match=match):
        entry(4, **{**DEFAULTS, **options})


def test_a_site_without_the_word() -> None:
    """An answer that a site cannot express is an error with the nearest value, and a plan all the same."""
    assert dnp.plan(0, site="executor", **DEFAULTS).workers == 0
    for entry in (dnp.num_proc, entered):
        with pytest.raises(dnp.SiteError, match="executor cannot say") as caught:
            entry(0, site="executor", **DEFAULTS)
        assert caught.value.nearest == 1


# --- the data set and the function ----------------------------------------------------------------------------------


def rows_of_a_stream() -> Iterator[int]:
    """Rows that nobody can count."""
    yield 1


@pytest.mark.parametrize(
    ("dataset", "options", "expected"),
    [
        (range(10**6), {}, 8),
        (range(100), {}, None),
        ([], {}, None),
        ({"train": range(10**6), "test": range(10)}, {}, 8),
        ({"train": range(100), "test": range(10)}, {}, None),
        ({}, {}, 8),
        (rows_of_a_stream(), {}, None),
        ({"train": rows_of_a_stream()}, {}, None),
        ({"train": rows_of_a_stream(), "test": range(10**6)}, {}, 8),
        (range(100), {"rows": 10**6}, 8),
    ],
)
def test_dataset(dataset: object, options: dict[str, Any], expected: int | None) -> None:
    """A data set is measured by its longest split, one without a length is streamed, and `rows` overrules it."""
    assert dnp.num_proc(dataset=dataset, **DEFAULTS, **options) == expected


@needs_datasets
def test_real_datasets() -> None:
    """A data set, a dict of them, and streams of either are measured as what they are."""
    from datasets import Dataset, DatasetDict, IterableDatasetDict

    rows = Dataset.from_dict({"a": range(6000)})
    few = rows.select(range(10))
    assert dnp.num_proc(dataset=rows, **DEFAULTS) == 8
    assert dnp.num_proc(dataset=few, **DEFAULTS) is None
    assert dnp.num_proc(dataset=DatasetDict({"train": rows, "test": few}), **DEFAULTS) == 8
    assert dnp.num_proc(dataset=DatasetDict({"train": few, "test": few}), **DEFAULTS) is None
    stream = rows.to_iterable_dataset()
    for dataset in (stream, IterableDatasetDict({"train": stream})):
        decision = dnp.plan(dataset=dataset, **DEFAULTS)
        assert (decision.workers, decision.binding.code) == (0, dnp.ReasonCode.STREAMING)


class Pickles:
    """A function that any interpreter can have."""

    def __call__(self, row: object) -> object:
        """The row itself."""
        return row


class Refuses(Pickles):
    """A function that holds what cannot be sent."""

    def __reduce__(self) -> str:
        message = "this holds an open connection"
        raise TypeError(message)


def test_a_function_for_fresh_interpreters() -> None:
    """Where workers would be fresh interpreters, a function that does not pickle is refused, with the reason."""
    pytest.importorskip("dill")
    options: dict[str, Any] = {**DEFAULTS, "snapshot": SPAWNING}
    assert dnp.num_proc(4, function=Pickles(), **options) == 4
    with pytest.warns(dnp.WorkersReduced, match="open connection"):
        assert dnp.num_proc(4, function=Refuses(), **options) is None
    decision = dnp.plan(function=Refuses(), **options)
    assert decision.binding.code is dnp.ReasonCode.SPAWN_NOT_READY
    assert "open connection" in decision.binding.seen["function"]


def test_a_function_that_is_not_looked_at() -> None:
    """A forked worker has the function anyway, and a caller who knows is believed."""
    assert dnp.num_proc(4, function=Refuses(), **DEFAULTS) == 4
    options: dict[str, Any] = {**DEFAULTS, "snapshot": SPAWNING}
    assert dnp.num_proc(4, function=Refuses(), spawn_ready=True, **options) == 4
    assert dnp.num_proc(function=Refuses(), rows=10, **options) is None


# --- scopes and contexts --------------------------------------------------------------------------------------------


def test_a_scope_restores() -> None:
    """After a scope, on an error too, start methods and environment are what they were."""
    before = (multiprocessing.get_start_method(allow_none=True), dict(os.environ))

    def fails() -> None:
        with dnp.workers(2, start_method="spawn", **ON_FILE):
            assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
            raise own

    own = KeyError("mine")
    with pytest.raises(KeyError, match="mine") as caught:
        fails()
    assert caught.value is own
    assert (multiprocessing.get_start_method(allow_none=True), dict(os.environ)) == before


ON_FILE: dict[str, Any] = {**DEFAULTS, "snapshot": machine("fork", main=MainModule.FILE)}
UP = machine("fork", main=MainModule.FILE, accelerators=frozenset({"cuda"}))


def test_a_scope_without_workers_changes_nothing() -> None:
    """In this process there is nothing to prepare."""
    before = dict(os.environ)
    with dnp.workers(0, start_method="spawn", **DEFAULTS) as count:
        assert count is None
        assert dict(os.environ) == before


@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"])
def test_a_context_that_was_named(start_method: str) -> None:
    """A named method gives a context of it, of the module that the site starts from, and fixes no default."""
    before = multiprocessing.get_start_method(allow_none=True)
    assert dnp.mp_context(start_method, **DEFAULTS).get_start_method() == start_method
    maps = dnp.mp_context(start_method, site="map", **DEFAULTS)
    assert type(maps).__module__ == "multiprocess.context"
    assert multiprocessing.get_start_method(allow_none=True) == before


def test_a_context_that_was_chosen() -> None:
    """Without a word fork where nothing forbids it, forkserver where something does, and the operator's before both."""
    assert dnp.mp_context(**DEFAULTS).get_start_method() == "fork"
    assert dnp.mp_context(snapshot=UP, settings=dnp.Settings()).get_start_method() == "forkserver"
    assert dnp.mp_context(snapshot=UP, settings=dnp.Settings(start_method="spawn")).get_start_method() == "spawn"


def test_a_fork_against_hazards_is_obeyed_and_warned_about() -> None:
    """An explicit fork in an unsafe state is obeyed, by a context and a scope, with a warning that says what is up."""
    options: dict[str, Any] = {"snapshot": UP, "settings": dnp.Settings()}
    with pytest.warns(dnp.UnsafeStartMethod, match="cuda is initialised") as caught:
        assert dnp.mp_context("fork", **options).get_start_method() == "fork"
    assert [item.filename for item in caught] == [__file__]
    with pytest.warns(dnp.UnsafeStartMethod, match="cuda is initialised") as caught:
        assert entered(2, start_method="fork", **options) == 2
    assert [item.filename for item in caught] == [__file__]


def test_a_context_that_is_not_offered() -> None:
    """A method that is not there is an error that says what is."""
    windows = machine(multiprocessing=starts("spawn", offered=("spawn",)))
    with pytest.raises(ValueError, match="start_method='fork': multiprocessing offers spawn here"):
        dnp.mp_context("fork", snapshot=windows, settings=dnp.Settings())
    with pytest.raises(ValueError, match="start_method='fork'"):
        dnp.mp_context(snapshot=windows, settings=dnp.Settings(start_method="fork"))
    none = machine(multiprocessing=starts(None, offered=()))
    with pytest.raises(ValueError, match="offers nothing"):
        dnp.mp_context("spawn", snapshot=none, settings=dnp.Settings())


# --- the package ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", dnp.__all__)
def test_every_name_is_there(name: str) -> None:
    """Each public name can be had, and is listed."""
    assert getattr(dnp, name) is not None
    assert name in dir(dnp)


def test_an_unknown_name() -> None:
    """A name that is not there is the usual error."""
    with pytest.raises(AttributeError, match="has no attribute 'kitchen'"):
        dnp.kitchen  # type: ignore[attr-defined] # noqa: B018 - the access is what is tested


def test_an_override_against_a_veto_is_obeyed_and_warned_about() -> None:
    """An override that a veto would have refused is obeyed, and a warning says what speaks against it."""
    unguarded = machine("spawn", main=MainModule.UNGUARDED, main_file="train.py", main_line=3)
    settings = dnp.Settings(override=2, override_source="DATASET_NUM_PROC")
    words = r"2 workers, as DATASET_NUM_PROC says, although .*line 3 of train\.py"
    with pytest.warns(dnp.SettingsWarning, match=words):
        assert dnp.num_proc(snapshot=unguarded, settings=settings) == 2


@pytest.mark.parametrize("options", [{"row": 5}, {"snapshot": {}}, {"snapshot": "machine.json"}])
def test_what_is_no_option(options: dict[str, Any]) -> None:
    """A misspelled option and a snapshot that is none are type errors that say what is accepted."""
    with pytest.raises(TypeError, match="accepted"):
        dnp.num_proc(8, **options)


def test_a_scope_for_workers_that_start_themselves() -> None:
    """Joblib's workers come from loky: the scope prepares the environment, and leaves both modules as they are."""
    before = multiprocessing.get_start_method(allow_none=True)
    options: dict[str, Any] = {"site": "joblib", "snapshot": machine("fork"), "settings": dnp.Settings()}
    with dnp.workers(2, start_method="spawn", **options) as count:
        assert count == 2
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
        assert multiprocessing.get_start_method(allow_none=True) == before
    assert dnp.num_proc(2, function=lambda: None, **options) == 2
    with pytest.raises(dnp.SiteError, match="joblib"):
        dnp.mp_context(**options)


def test_a_context_goes_by_the_facts_of_its_own_module() -> None:
    """At a map site the context is one of `multiprocess`, and so is the method that it starts by."""
    apart = machine(multiprocess="fork", multiprocessing=starts("forkserver", offered=("forkserver", "spawn", "fork")))
    options: dict[str, Any] = {"snapshot": apart, "settings": dnp.Settings()}
    assert dnp.mp_context(site="map", **options).get_start_method() == "fork"
    assert dnp.mp_context(**options).get_start_method() == "forkserver"


def test_a_packing_scope_sets_the_module_that_packs() -> None:
    """A start method for packing workers is the standard library's, whose workers they are, for the scope's length."""
    pytest.importorskip("multiprocess")
    before = multiprocessing.get_start_method(allow_none=True)
    with dnp.workers(2, workload="packing", start_method="spawn", snapshot=machine("fork"), settings=dnp.Settings()):
        assert multiprocessing.get_start_method(allow_none=True) == "spawn"
    assert multiprocessing.get_start_method(allow_none=True) == before

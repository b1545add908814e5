"""`dnp.map` and `dnp.filter` on real data sets: what `datasets` gives, whatever happens to the workers on the way."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dataset_num_proc as dnp
from dataset_num_proc.policy.autopsy import Verdict
from tests.capabilities import memory_controller_v1, needs_datasets, needs_linux, needs_memory_v1, needs_root
from tests.scripts import run
from tests.values import GIB, machine

pytestmark = [needs_linux, needs_datasets, pytest.mark.timeout(60)]

ROWS = 8
GIVEN: dict[str, Any] = {"snapshot": machine("fork"), "settings": dnp.Settings()}


@pytest.fixture(autouse=True, scope="module")
def _no_bars() -> None:
    import_module("datasets").disable_progress_bars()


@pytest.fixture
def rows(tmp_path: Path) -> Any:  # noqa: ANN401 - `datasets` is untyped here
    """Rows on disk, with a temporary file of somebody else's beside them."""
    datasets = import_module("datasets")
    data = {"n": list(range(ROWS)), "text": [str(n) for n in range(ROWS)]}
    datasets.Dataset.from_dict(data).save_to_disk(tmp_path / "rows")
    (tmp_path / "rows" / "tmp_of_another_process").touch()
    return datasets.load_from_disk(tmp_path / "rows")


@pytest.fixture
def twin(rows: Any, tmp_path: Path) -> Any:  # noqa: ANN401 - as above
    """The same rows in another folder: the same fingerprint and no common cache."""
    del rows
    shutil.copytree(tmp_path / "rows", tmp_path / "twin")
    return import_module("datasets").load_from_disk(tmp_path / "twin")


def folder_of(dataset: Any) -> Path:  # noqa: ANN401 - as above
    """Where a data set lies."""
    return Path(dataset.cache_files[0]["filename"]).parent


def files(dataset: Any) -> list[str]:  # noqa: ANN401 - as above
    """What lies in a data set's folder."""
    return sorted(path.name for path in folder_of(dataset).iterdir())


def temporary(dataset: Any) -> list[str]:  # noqa: ANN401 - as above
    """The temporary files beside a data set."""
    return [name for name in files(dataset) if name.startswith("tmp")]


def children() -> int:
    """Workers and managers that are alive."""
    return len(import_module("multiprocess").active_children())


# --- the same as `datasets` -----------------------------------------------------------------------------------------


def one(row: dict[str, Any]) -> dict[str, Any]:
    """Work on a row."""
    return {"more": row["n"] + 1}


def one_and_where(row: dict[str, Any], *where: int | None, by: int = 1) -> dict[str, Any]:
    """Work on a row that is told where it is."""
    return {"more": row["n"] * by + sum(number or 0 for number in where)}


def one_text(text: str) -> dict[str, Any]:
    """Work on one column."""
    return {"more": int(text) + 1}


def many(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Work on a batch."""
    return {"more": [n + len(batch["n"]) for n in batch["n"]]}


def halves(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Work that leaves another number of rows."""
    return {"half": [n // 2 for n in batch["n"] for _ in range(n % 3)]}


def is_even(row: dict[str, Any], *_where: int) -> bool:
    """What a filter asks."""
    return bool(row["n"] % 2 == 0)


def features() -> Any:  # noqa: ANN401 - as above
    """Types other than those that would be found."""
    datasets = import_module("datasets")
    return datasets.Features(
        {"n": datasets.Value("int32"), "text": datasets.Value("string"), "more": datasets.Value("float32")}
    )


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
MAPS: tuple[Call, ...] = (
    (one, (), {}),
    (one, (), {"desc": "Adding", "writer_batch_size": 3}),
    (one, (), {"remove_columns": ["n"]}),
    (one, (), {"remove_columns": "text"}),
    (one, (), {"keep_in_memory": True}),
    (one, (), {"new_fingerprint": "0123456789abcdef"}),
    (one, (), {"load_from_cache_file": False}),
    (one, (), {"suffix_template": "-{rank:05d}-{num_proc:05d}"}),
    (one_and_where, (), {"with_indices": True}),
    (one_and_where, (), {"with_rank": True}),
    (one_and_where, (True, True), {}),
    (one_and_where, (), {"fn_kwargs": {"by": 3}}),
    (one_text, (), {"input_columns": "text"}),
    (one_text, (False, False, ["text"]), {"desc": "Adding"}),
    (many, (), {"batched": True}),
    (many, (), {"batched": True, "batch_size": 3, "drop_last_batch": True}),
    (halves, (), {"batched": True, "remove_columns": ["n", "text"]}),
)


def fingerprint(dataset: Any) -> str:  # noqa: ANN401 - as above
    """What the caches of a data set's transforms go by."""
    return str(dataset._fingerprint)  # noqa: SLF001 - no public name has it


def same(ours: Any, theirs: Any) -> None:  # noqa: ANN401 - as above
    """Asserts that two data sets are one in rows, types, fingerprint and names of files."""
    assert ours[:] == theirs[:]
    assert ours.features == theirs.features
    assert fingerprint(ours) == fingerprint(theirs)
    names = [[Path(file["filename"]).name for file in each.cache_files] for each in (ours, theirs)]
    assert names[0] == names[1]


@pytest.mark.parametrize("num_proc", [0, 2])
@pytest.mark.parametrize("call", MAPS)
def test_a_map_is_the_same(rows: Any, twin: Any, call: Call, num_proc: int) -> None:  # noqa: ANN401 - as above
    """Rows, order, types, fingerprint and cache files are those of `Dataset.map` with the same arguments."""
    function, args, kwargs = call
    ours = dnp.map(rows, function, *args, num_proc=num_proc, **kwargs, **GIVEN)
    same(ours, twin.map(function, *args, num_proc=num_proc or None, **kwargs))
    assert files(rows) == files(twin)


def test_types_are_the_same(rows: Any, twin: Any) -> None:  # noqa: ANN401 - as above
    """Types that are asked for are those of the result."""
    ours = dnp.map(rows, one, features=features(), num_proc=2, **GIVEN)
    same(ours, twin.map(one, features=features(), num_proc=2))
    assert ours.features == features()


@pytest.mark.parametrize("num_proc", [0, 2])
@pytest.mark.parametrize("kwargs", [{}, {"with_indices": True}, {"keep_in_memory": True}, {"batch_size": 3}])
def test_a_filter_is_the_same(rows: Any, twin: Any, kwargs: dict[str, Any], num_proc: int) -> None:  # noqa: ANN401
    """A filter keeps the same rows, under the same fingerprint, in the same files."""
    ours = dnp.filter(rows, is_even, num_proc=num_proc, **kwargs, **GIVEN)
    same(ours, twin.filter(is_even, num_proc=num_proc or None, **kwargs))
    assert ours["n"][:] == [0, 2, 4, 6]
    assert files(rows) == files(twin)


def test_a_count_among_positional_arguments(rows: Any, twin: Any) -> None:  # noqa: ANN401 - as above
    """A count that stands where `Dataset.map` has it is the request."""
    before = (False, False, None, False, 1000, False, None, False, None, None, 1000, None, False, None)
    with pytest.warns(dnp.WorkersReduced, match="3 asked, 2 workers"):
        ours = dnp.map(rows, one, *before, 3, settings=GIVEN["settings"], snapshot=machine("fork", available=4 * GIB))
    same(ours, twin.map(one, num_proc=2))


def test_in_memory_rows_with_a_named_file(tmp_path: Path) -> None:
    """Rows that have no file are mapped into the file that is named."""
    data = import_module("datasets").Dataset.from_dict({"n": list(range(ROWS))})
    ours = dnp.map(data, one, num_proc=2, cache_file_name=str(tmp_path / "ours.arrow"), **GIVEN)
    theirs = data.map(one, num_proc=2, cache_file_name=str(tmp_path / "theirs.arrow"))
    assert ours[:] == theirs[:]
    assert fingerprint(ours) == fingerprint(theirs)
    assert len(list(tmp_path.glob("ours*"))) == len(list(tmp_path.glob("theirs*"))) == 2


def test_a_dict_of_splits(rows: Any, twin: Any, tmp_path: Path) -> None:  # noqa: ANN401 - as above
    """Every split is mapped, into the files that are named for them, and filtered."""
    kind = import_module("datasets").DatasetDict
    ours, theirs = kind(a=rows, b=rows.select([5, 1])), kind(a=twin, b=twin.select([5, 1]))
    named = {"a": str(tmp_path / "a.arrow"), "b": None}
    mapped = dnp.map(ours, one, num_proc=2, cache_file_names=named, **GIVEN)
    expected = theirs.map(one, num_proc=2)
    kept = dnp.filter(ours, is_even, num_proc=2, **GIVEN)
    for split in ("a", "b"):
        assert mapped[split][:] == expected[split][:]
        assert fingerprint(mapped[split]) == fingerprint(expected[split])
        same(kept[split], theirs.filter(is_even, num_proc=2)[split])
    assert len(list(tmp_path.glob("a_*.arrow"))) == 2


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_caches_are_found_both_ways(rows: Any, first: str, tmp_path: Path) -> None:  # noqa: ANN401 - as above
    """What `dnp.map` has cached `Dataset.map` finds, and the other way round: nothing is computed twice."""
    log = tmp_path / "log"

    def logged(row: dict[str, Any]) -> dict[str, Any]:
        with log.open("a") as file:
            file.write(".")
        return one(row)

    def ours() -> Any:  # noqa: ANN401 - as above
        return dnp.map(rows, logged, num_proc=2, **GIVEN)

    def theirs() -> Any:  # noqa: ANN401 - as above
        return rows.map(logged, num_proc=2)

    before, after = (ours, theirs) if first == "ours" else (theirs, ours)
    same(before(), after())
    assert log.read_text() == "." * ROWS


def test_streams_pass_through(rows: Any) -> None:  # noqa: ANN401 - as above
    """A streamed data set is mapped and filtered as it always is; a count that was asked for is said to be dropped."""
    datasets = import_module("datasets")
    stream = rows.to_iterable_dataset()
    for data in (stream, datasets.IterableDatasetDict({"train": stream})):
        mapped = dnp.map(data, one, remove_columns=["text"], **GIVEN)
        with pytest.warns(dnp.WorkersReduced, match="streamed"):
            kept = dnp.filter(mapped, is_even, num_proc=4, **GIVEN)
        assert type(kept) is type(data)
        split = kept["train"] if isinstance(kept, dict) else kept
        assert list(split) == [{"n": n, "more": n + 1} for n in range(0, ROWS, 2)]


def test_a_wrong_argument_is_the_usual_error(rows: Any) -> None:  # noqa: ANN401 - as above
    """What `Dataset.map` does not take is a TypeError, and so is what is no count; another `on_death` is refused."""
    with pytest.raises(TypeError, match="kitchen"):
        dnp.map(rows, one, kitchen=True, **GIVEN)
    with pytest.raises(TypeError, match="not a worker count"):
        dnp.map(rows, one, num_proc="many", **GIVEN)
    with pytest.raises(ValueError, match="on_death='again'"):
        dnp.map(rows, one, on_death="again", **GIVEN)  # type: ignore[arg-type] # what is tested


def test_an_error_of_the_function_is_its_own(rows: Any) -> None:  # noqa: ANN401 - as above
    """An exception of the function is no death: it comes as it is, and the other worker's file goes too."""
    log = folder_of(rows).parent

    def fails(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 1:
            wait_for_files(rows, log)
            raise KeyError(row["n"])
        return slowly(row, {0, ROWS // 2})

    with pytest.raises(KeyError, match="1"):
        dnp.map(rows, fails, num_proc=2, **GIVEN)
    assert int((log / "seen").read_text()) == 3
    assert temporary(rows) == ["tmp_of_another_process"]
    assert children() == 0


# --- deaths ---------------------------------------------------------------------------------------------------------


def wait_for_files(dataset: Any, log: Path) -> None:  # noqa: ANN401 - as above
    """In a worker: until both have begun to write, and says what is there, one line a time."""
    deadline = time.monotonic() + 5
    while len(temporary(dataset)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    with (log / "seen").open("a") as file:
        file.write(f"{len(temporary(dataset))}\n")


def slowly(row: dict[str, Any], quick: set[int]) -> dict[str, Any]:
    """Work that is still going on when another worker dies."""
    if row["n"] not in quick:
        time.sleep(10)
    return one(row)


@pytest.mark.parametrize("kind", ["map", "filter"])
@pytest.mark.parametrize(("number", "verdict"), [(signal.SIGSEGV, Verdict.SEGFAULT), (signal.SIGKILL, Verdict.KILLED)])
def test_a_crash_is_reported_and_not_retried(rows: Any, number: int, verdict: Verdict, kind: str) -> None:  # noqa: ANN401
    """A worker that crashes is one error after one try; its file is gone, its sibling's too, and nobody else's."""
    log = folder_of(rows).parent

    def crashes(row: dict[str, Any]) -> Any:  # noqa: ANN401 - what either site wants
        if row["n"] == 1:
            wait_for_files(rows, log)
            os.kill(os.getpid(), number)
        more = slowly(row, {0, ROWS // 2})
        return more if kind == "map" else True

    # A filter asks for a batch before anything is written: batches of one row make it write as a map does.
    batches = {} if kind == "map" else {"batch_size": 1}
    with pytest.raises(dnp.WorkerDied) as caught:
        getattr(dnp, kind)(rows, crashes, num_proc=2, **batches, **GIVEN)
    assert caught.value.verdict is verdict
    assert (log / "seen").read_text() == "3\n"
    assert temporary(rows) == ["tmp_of_another_process"]
    assert children() == 0


@pytest.mark.parametrize(
    ("method", "asked", "then"),
    [("fork", 4, "with 2 workers"), ("fork", 2, "in this process"), ("spawn", 3, "with 2 workers")],
)
def test_a_kill_is_retried_where_that_is_asked(rows: Any, method: str, asked: int, then: str) -> None:  # noqa: ANN401
    """With `retry_killed` the rows come out right, and a warning says what was done, below an override too."""
    marker = folder_of(rows).parent / "killed"

    def killed_once(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return one(row)

    settings = dnp.Settings(override=asked, override_source="DATASET_NUM_PROC")
    options: dict[str, Any] = {"settings": settings, "snapshot": machine(method), "start_method": method}
    said = f"1 of {asked} workers was killed .*: going on {then}, fewer than the {asked} of DATASET_NUM_PROC"
    with pytest.warns(dnp.WorkersReduced, match=said) as caught:
        ours = dnp.map(rows, killed_once, retry_killed=True, **options)
    ours_alone = [item for item in caught if item.category is dnp.WorkersReduced]  # Python 3.12 warns of the fork too
    assert [item.filename for item in ours_alone] == [__file__]
    assert ours["more"][:] == list(range(1, ROWS + 1))
    assert temporary(rows) == ["tmp_of_another_process"]


def test_finished_shards_are_kept(rows: Any) -> None:  # noqa: ANN401 - as above
    """What a failed try has finished is not computed again, where `datasets` can use it (4.0 and later)."""
    log = folder_of(rows).parent / "log"

    def killed_late(row: dict[str, Any]) -> dict[str, Any]:
        with log.open("a") as file:
            file.write(f"{row['n']} ")
        if row["n"] == 7 and log.read_text().split().count("7") == 1:
            while len([name for name in files(rows) if "_of_00004" in name]) < 3:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return one(row)

    with pytest.warns(dnp.WorkersReduced, match="with 2 workers"):
        ours = dnp.map(rows, killed_late, num_proc=4, retry_killed=True, **GIVEN)
    assert ours["more"][:] == list(range(1, ROWS + 1))
    again = [6, 7] if GIVEN_RELEASE >= (4, 0) else list(range(ROWS))
    assert sorted(map(int, log.read_text().split())) == sorted([*range(ROWS), *again])


GIVEN_RELEASE = dnp.take_snapshot(scan=False).libraries.datasets_version


def program(name: str, folder: Path, *group: Path) -> dict[str, Any]:
    """What the program of that name says."""
    said = run(Path(__file__).with_name("map_program.py"), name, folder, *group, seconds=50).json()
    assert isinstance(said, dict)
    assert said["left"] == ["tmp_of_another_process"]
    assert said["children"] == 0
    return said


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C is a KeyboardInterrupt, with no process and no file left."""
    said = program("interrupts", tmp_path)
    assert (said["error"], said["seen"]) == ("KeyboardInterrupt", 3)


# --- real kills for memory ------------------------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with 600 MiB, which is removed when its last process has ended."""
    memory = memory_controller_v1()
    assert memory is not None
    made = memory / f"dnp-test-map-{os.getpid()}"
    made.mkdir()
    (made / "memory.limit_in_bytes").write_text(str(600 << 20))
    try:
        yield made
    finally:
        deadline = time.monotonic() + 5
        while made.exists() and time.monotonic() < deadline:
            with suppress(OSError):  # a process that was killed takes a moment to leave
                made.rmdir()


@needs_root
@needs_memory_v1
def test_out_of_memory_steps_down(group: Path, tmp_path: Path) -> None:
    """Four workers that do not fit become two that do; the rows are right, and a warning says what was done."""
    said = program("steps_down", tmp_path, group)
    assert said["error"] is None
    assert said["rows"] == [2 * row for row in range(ROWS)]
    (warning,) = said["warnings"]
    assert "killed for memory (peak " in warning
    assert warning.endswith("going on with 2 workers")


@needs_root
@needs_memory_v1
def test_out_of_memory_raises_where_that_is_asked(group: Path, tmp_path: Path) -> None:
    """With `on_death="raise"` the first death is the error."""
    said = program("raises_at_once", tmp_path, group)
    assert (said["kind"], said["verdict"], said["warnings"]) == ("WorkerDied", "out-of-memory", [])


@needs_root
@needs_memory_v1
def test_what_does_not_fit_stays_out_of_the_parent(group: Path, tmp_path: Path) -> None:
    """A row that takes more than there is kills workers and not the run, and the error says why it ends there."""
    said = program("never_fits", tmp_path, group)
    assert said["verdict"] == "out-of-memory"
    assert "not in this process: a worker's peak was" in said["error"]
    assert (
        said["error"].splitlines()[-1].endswith("have one worker hold less: a smaller batch_size and writer_batch_size")
    )


# --- fresh interpreters ---------------------------------------------------------------------------------------------


def test_a_function_that_arrives(tmp_path: Path) -> None:
    """A spawned worker that can have the function says so, and the map is done by workers."""
    assert program("arrives", tmp_path)["rows"] == [2 * row for row in range(ROWS)]


def test_a_function_that_lacks_a_global(tmp_path: Path) -> None:
    """Where we chose the workers, a function that misses something there is run here, with the worker's words."""
    said = program("guarded_global", tmp_path)
    assert said["rows"] == [2 * row for row in range(ROWS)]
    (warning,) = said["warnings"]
    assert warning.startswith("map: in this process instead of 2 workers: a worker started by spawn")
    assert "NameError: name 'FACTOR' is not defined" in warning


def test_a_function_that_does_not_arrive(tmp_path: Path) -> None:
    """Where the count was asked for, it is an error with the worker's words."""
    said = program("does_not_arrive", tmp_path)
    assert (said["kind"], said["verdict"]) == ("WorkerStartFailed", "import-failed")
    assert "OSError: the vocabulary is not here" in said["error"]

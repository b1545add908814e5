"""What a caller writes as a worker count becomes a checked `Request`, or an error that says what is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from dataset_num_proc.policy.cost import Profile
from dataset_num_proc.policy.counts import ACCEPTED_COUNTS
from dataset_num_proc.policy.request import Request, Workload


class WholeNumber:
    """An integer type of somebody else's."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class IntSubclass(int):
    """A subclass of `int`."""


@pytest.mark.parametrize(
    ("value", "workers"),
    [
        (None, None),
        ("auto", None),
        (" AUTO ", None),
        (0, 0),
        (1, 0),
        ("0", 0),
        ("1", 0),
        (1.0, 0),
        (2, 2),
        (" 8 ", 8),
        ("٣", 3),
        (8.0, 8),
        (WholeNumber(4), 4),
        (IntSubclass(4), 4),
        (WholeNumber(1), 0),
        (10**12, 10**12),
    ],
)
def test_counts(value: object, workers: int | None) -> None:
    """`None` and "auto" are a free choice, any whole number is that count, and 0 and 1 are "in this process"."""
    assert Request.of(value) == Request(workers=workers)
    assert type(Request.of(value).workers) in (int, type(None))


def test_numpy_counts() -> None:
    """Numpy's integers and whole floats are counts, its bools and other floats are not."""
    numpy = pytest.importorskip("numpy")
    for value in (numpy.int64(4), numpy.uint8(4), numpy.float64(4.0)):
        assert Request.of(value).workers == 4
    for value in (numpy.bool_(True), numpy.float64(4.5), numpy.array([1, 2])):  # noqa: FBT003 - the value under test
        with pytest.raises(TypeError, match="is not a worker count"):
            Request.of(value)


@pytest.mark.parametrize("value", [-1, "-1", " -4 ", -2.0, WholeNumber(-3)])
def test_negative_counts(value: object) -> None:
    """A negative count is a value error that names the value and what is accepted."""
    with pytest.raises(ValueError, match="is not a worker count") as caught:
        Request.of(value)
    assert ACCEPTED_COUNTS in str(caught.value)
    assert str(value).strip() in str(caught.value) or repr(value) in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        *(True, False),
        *("", "eight", "8.0", "1e1", "0x8", "+4", "1_0", "--4", "-", "none", "off"),
        *(4.5, float("nan"), float("inf")),
        *([], (2,), {}, object(), b"4", 4j, float, "9" * 5000),
    ],
)
def test_no_counts(value: object) -> None:
    """Bools, other strings, broken floats and other types are a type error with the value and what is accepted."""
    with pytest.raises(TypeError) as caught:
        Request.of(value)
    assert repr(value) in str(caught.value)
    assert ACCEPTED_COUNTS in str(caught.value)


def test_a_request_is_taken_as_it_is() -> None:
    """The normaliser is idempotent, and replaces the fields that are named, checked like any other."""
    request = Request.of(16, rows=10, site="filter")
    assert Request.of(request) is request
    assert Request.of(request, rows=20) == Request(workers=16, rows=20, site="filter")
    assert Request.of(request, workload="packing").workload is Workload.PACKING
    with pytest.raises(ValueError, match="rows=-1"):
        Request.of(request, rows=-1)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"rows": -1}, "rows=-1"),
        ({"rows": WholeNumber(-1)}, "rows="),
        ({"bytes_per_worker": 0}, "bytes_per_worker=0"),
        ({"threads_per_worker": -1}, "threads_per_worker=-1"),
        ({"start_method": "thread"}, "start_method='thread'"),
        ({"workload": "cooking"}, "cooking"),
    ],
)
def test_fields_out_of_range(fields: dict[str, Any], named: str) -> None:
    """A field that no decision could be made with is a value error that names it."""
    with pytest.raises(ValueError, match=named):
        Request.of(4, **fields)


@pytest.mark.parametrize("name", ["rows", "bytes_per_worker", "threads_per_worker"])
@pytest.mark.parametrize("value", [True, "5", 5.5, [5], float])
def test_fields_of_the_wrong_type(name: str, value: object) -> None:
    """A field that is no whole number is a type error that names it, its value and what is accepted."""
    with pytest.raises(TypeError) as caught:
        Request.of(4, **{name: value})
    assert f"{name}={value!r}: accepted is a whole number" in str(caught.value)


def test_fields_become_plain_integers() -> None:
    """Rows and bytes of any integer type, and whole floats, are kept as plain integers."""
    request = Request.of(4, rows=WholeNumber(10), bytes_per_worker=2.5e9)
    assert (request.rows, request.bytes_per_worker) == (10, 2_500_000_000)
    assert type(request.rows) is type(request.bytes_per_worker) is int


@pytest.mark.parametrize(
    "fields",
    [
        {"rows": 0},
        {"rows": None},
        {"bytes_per_worker": 1},
        {"threads_per_worker": 0},
        {"profile": Profile(1.0, 1.0)},
        *({"start_method": method} for method in (None, "auto", "fork", "spawn", "forkserver")),
    ],
)
def test_fields_in_range(fields: dict[str, Any]) -> None:
    """Everything else is kept as given."""
    assert Request.of(4, **fields) == Request(workers=4, **fields)


@pytest.mark.parametrize("workload", ["map", "packing", Workload.MAP, Workload.PACKING])
def test_workload_by_name(workload: str | Workload) -> None:
    """A workload may be given by its name."""
    assert Request.of(None, workload=workload).workload is Workload(workload)

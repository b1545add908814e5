"""Whatever happens to a worker, an encoder or a row: the right error or the right rows, and nothing left running."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import psutil
import pytest

from dataset_num_proc.errors import RowsLost, WorkerDied, WorkersReduced, WorkerStalled, WorkerStartFailed
from dataset_num_proc.packing import EncoderPool, Kind, RemoteTraceback
from dataset_num_proc.packing.start import Starter
from dataset_num_proc.policy.autopsy import Verdict
from tests.packing import encoders
from tests.packing.encoders import BAD
from tests.packing.pools import pool, until_it_fails, values
from tests.values import machine


@pytest.mark.parametrize(
    ("encoder", "verdict", "code"),
    [
        (encoders.killed, Verdict.KILLED, -signal.SIGKILL),
        (encoders.leaving, Verdict.EXITED, 0),
        (encoders.killed_in_a_write, Verdict.KILLED, -signal.SIGKILL),
    ],
    ids=["killed", "os._exit(0)", "killed in a write"],
)
def test_a_death_names_its_row(encoder: Callable[[int], object], verdict: Verdict, code: int) -> None:
    """A worker that dies in the middle of a row, or of a write, is one error with its status, its pid and the row."""
    with pool(encoder) as made:
        _, error = until_it_fails(made.encode(range(60)))
    assert isinstance(error, WorkerDied)
    death = error.evidence.deaths[0]
    assert (error.verdict, death.exit_code, death.pid in error.exit_codes) == (verdict, code, True)
    if encoder is not encoders.killed_in_a_write:
        assert death.rows == (BAD, BAD + 1)
        assert f"row {BAD}" in str(error)
    assert error.decision.workers == 2


def test_an_idle_worker_that_is_killed_is_noticed() -> None:
    """A worker that dies with nothing to do is one error too, for every iteration that goes on."""
    with pool(encoders.pid_of) as made:
        outcomes = made.encode(_slowly(200))
        _, pid = next(outcomes).value
        os.kill(pid, signal.SIGKILL)
        _, error = until_it_fails(outcomes)
        assert isinstance(error, WorkerDied)
        assert error.exit_codes[pid] == -signal.SIGKILL
        assert len(values(made.encode(range(20)))) == 20  # with new workers


def _slowly(count: int) -> Iterator[int]:
    for row in range(count):
        time.sleep(0.01)
        yield row


def test_a_death_that_a_grandchild_hides() -> None:
    """A dead worker whose own child holds its socket open is noticed all the same."""
    made = EncoderPool(encoders.killed_with_a_child, workers=2, start_method="fork", snapshot=machine())
    begun = time.monotonic()
    _, error = until_it_fails(made.encode(range(60)))
    made.close()
    assert isinstance(error, WorkerDied)
    assert error.evidence.deaths[0].rows == (BAD, BAD + 1)
    assert time.monotonic() - begun < 3  # before the child ends


def test_death_in_a_fresh_interpreter() -> None:
    """Forkserver's children are as well looked after as this process's own."""
    with pool(encoders.killed, "forkserver") as made:
        _, error = until_it_fails(made.encode(range(60)))
    assert isinstance(error, WorkerDied)
    assert (error.verdict, error.evidence.deaths[0].rows) == (Verdict.KILLED, (BAD, BAD + 1))


@pytest.mark.parametrize("encoder", [encoders.stuck, encoders.stopped])
def test_a_stuck_row_is_named(encoder: Callable[[int], int]) -> None:
    """A row that takes longer than it may is one error with the row, and the stack where there is one to be had."""
    with pool(encoder, item_timeout=0.5) as made:
        _, error = until_it_fails(made.encode(range(60)))
    assert isinstance(error, WorkerStalled)
    (one,) = error.evidence.stalled
    assert one.rows == (BAD, BAD + 1)
    assert f"has had row {BAD}" in str(error)
    assert ("in stuck" in str(error)) is (encoder is encoders.stuck)


def test_large_results_both_ways() -> None:
    """Rows and results that fill the sockets in both directions at once hold nobody up."""
    rows = [bytes([place]) * (8 << 20) for place in range(6)]
    with pool(bytes.upper, max_bytes_in_flight=1 << 40) as made:
        assert values(made.encode(rows)) == rows
    with pool(encoders.large) as made:
        assert [len(value) for value in values(made.encode(range(3)))] == [encoders.LARGE] * 3


@pytest.mark.parametrize("workers", [0, 2])
def test_strict_raises_at_the_row(workers: int) -> None:
    """The encoder's exception comes at its row's place, with the worker's traceback as its cause; then nothing runs."""
    with pool(encoders.choosy, workers=workers, strict=True, skip=(encoders.TooLong,)) as made:
        got, error = until_it_fails(made.encode(range(100)))
        assert got == [0, 1, 2, 4]
        assert isinstance(error, ValueError)
        assert str(error) == "bad row 5"
        if workers:
            assert isinstance(error.__cause__, RemoteTraceback)
            assert "in choosy" in str(error.__cause__)


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        (encoders.odd_error, "TwoArguments"),
        (encoders.unprintable, "Unprintable"),
        (encoders.odd_result, "AttributeError" if sys.version_info < (3, 14) else "PicklingError"),
        (encoders.bomb, "KeyError"),
    ],
    ids=["exception", "exception without text", "result", "result that does not unpickle"],
)
def test_what_cannot_travel_costs_its_row_alone(encoder: Callable[[int], object], name: str) -> None:
    """An exception or a result that does not pickle, or not unpickle, drops its row with its words kept; no other."""
    with pool(encoder) as made:
        got = values(made.encode(range(60)))
        assert got == [row for row in range(60) if row != BAD]
        assert dict(made.stats.dropped) == {name: 1}
    with pool(encoder, strict=True) as made:
        got, error = until_it_fails(made.encode(range(60)))
    assert len(got) == BAD
    assert isinstance(error, Exception)


def test_a_row_that_does_not_pickle_costs_itself_alone() -> None:
    """A row of the source that cannot travel is dropped at its place."""
    rows: list[Any] = [1, 2, threading.Lock(), 4]
    with pool(encoders.pid_of) as made:
        outcomes = list(made.encode(rows))
    assert [one.kind for one in outcomes] == [Kind.ENCODED, Kind.ENCODED, Kind.DROPPED, Kind.ENCODED]
    assert dict(made.stats.dropped) == {"TypeError": 1}


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exit_is_no_bad_row(workers: int) -> None:
    """What is no `Exception` is raised, strict or not, as it is in process."""
    with pool(encoders.exiting, workers=workers) as made, pytest.raises(SystemExit, match="3"):
        list(made.encode(range(60)))
    assert made.stats.encoded == BAD


@pytest.mark.parametrize("workers", [0, 2])
def test_losses_are_counted_logged_and_bounded(workers: int, caplog: pytest.LogCaptureFixture) -> None:
    """A whole window lost is an error that counts, at the same row for any number of workers; three are logged."""
    with (
        caplog.at_level(logging.WARNING, "dataset_num_proc"),
        pool(encoders.failing, workers=workers, window=40) as made,
    ):
        outcomes = made.encode(range(1000))
        for _ in range(39):
            next(outcomes)
        with pytest.raises(RowsLost, match=r"the last 40 rows were all dropped: KeyError 40×") as caught:
            next(outcomes)
        assert caught.value.stats.dropped["KeyError"] == 40
        assert len([record for record in caplog.records if "is dropped" in record.message]) == 3
        with pytest.raises(RowsLost, match="all 5 rows were dropped"):
            list(made.encode(range(5)))


def test_share_of_losses_is_bounded() -> None:
    """More than the share that may be lost is an error once there was a window of rows."""
    with pool(encoders.choosy, skip=(encoders.TooLong,), window=50, max_drop_ratio=0.05) as made:
        with pytest.raises(RowsLost, match=r"max_drop_ratio"):
            list(made.encode(range(200)))
        assert made.stats.rows == 55


def test_third_start_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one worker cannot be started those before it are ended, and the reason is the error's cause."""
    stock, starts = Starter.start, []

    def start(self: Starter, *args: Any) -> Any:  # noqa: ANN401 - passes on
        starts.append(args)
        if len(starts) == 3:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return stock(self, *args)

    monkeypatch.setattr(Starter, "start", start)
    with pool(encoders.encode, workers=4) as made:
        with pytest.raises(WorkerStartFailed) as caught:
            list(made.encode(range(10)))
        assert isinstance(caught.value.__cause__, BlockingIOError)
        assert set(caught.value.exit_codes.values()) == {-signal.SIGTERM}
        assert len(caught.value.exit_codes) == 2


def test_encoder_that_does_not_arrive_is_named() -> None:
    """An encoder that fails where it is unpickled is one error, with the worker's exception and its words."""
    with pool(encoders.Unimportable(), "forkserver") as made, pytest.raises(WorkerStartFailed) as caught:
        list(made.encode(range(10)))
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    assert "No module named 'my_plugin'" in str(caught.value)
    assert caught.value.verdict is Verdict.IMPORT_FAILED


def test_encoder_that_does_not_pickle_is_refused_with_its_path() -> None:
    """The part that neither pickle nor dill takes is named, before anything starts."""
    holding = pool(encoders.Holding(sys._getframe()), "spawn")  # noqa: SLF001 - what nothing pickles
    with holding as made, pytest.raises(WorkerStartFailed, match=r"encode\.held\[1\]\['inner'\] does not") as caught:
        list(made.encode(range(10)))
    assert caught.value.exit_codes == {}


def test_local_encoders_travel_and_what_is_missing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Lambdas and local classes reach a fresh interpreter; so does a template, without the model that it leaves out."""
    factor = 3

    class Local:
        def __init__(self) -> None:
            self.times: Callable[[int], int] = lambda row: row * factor

        def __call__(self, row: int) -> int:
            return self.times(row)

    with pool(Local(), "forkserver", workers=1) as made:
        assert values(made.encode(range(5))) == [0, 3, 6, 9, 12]
    with (
        caplog.at_level(logging.WARNING, "dataset_num_proc"),
        pool(encoders.Template().encode, "forkserver", workers=1) as made,
    ):
        assert values(made.encode([1])) == [(1, False)]
        assert "encode.__self__.model" in caplog.text


def test_what_is_needed_and_arrives_empty_is_encoded_here() -> None:
    """An attribute that is needed and does not arrive keeps the rows in this process, and says so."""
    with pool(encoders.Template().encode, "spawn", needs=("model",)) as made:
        with pytest.warns(WorkersReduced, match=r"encode\.__self__\.model arrives empty"):
            assert values(made.encode([1, 2])) == [(1, True), (2, True)]
        assert values(made.encode([3])) == [(3, True)]  # without a second try
        copy = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    with pytest.raises(ValueError, match=r"encode\.__self__\.model is needed, and empty here"):
        next(copy.encode([1]))


def test_init_comes_before_the_encoder() -> None:
    """A worker calls `init` before it reads the encoder, as plugins need; one that fails is the error."""
    options = {"init": encoders.set_mark, "init_args": ("loaded",), "workers": 1}
    with pool(encoders.Marked(), "forkserver", **options) as made:
        assert values(made.encode([1])) == ["loaded 1"]
    failing = pool(encoders.encode, init=encoders.failing, init_args=(1,))
    with failing as made, pytest.raises(WorkerStartFailed, match="KeyError: 'bad row 1'"):
        list(made.encode([1]))


def test_a_worker_that_does_not_get_ready() -> None:
    """A worker that is silent for longer than its start may take is one error."""
    silent = pool(encoders.encode, init=time.sleep, init_args=(100,), start_timeout=0.5)
    with silent as made, pytest.raises(WorkerStartFailed, match="did not say within"):
        list(made.encode([1]))


def test_a_daemon_encodes_in_process() -> None:
    """Where this process may not have children, rows are encoded here, with one notice, and come out the same."""
    snapshot = machine(daemonic={"multiprocess": False, "multiprocessing": True})
    with pool(encoders.pid_of, snapshot=snapshot) as made:
        with pytest.warns(WorkersReduced, match="daemon"):
            assert values(made.encode([1])) == [(1, os.getpid())]
        assert values(made.encode([2])) == [(2, os.getpid())]


def test_a_daemon_may_have_workers_that_end_by_themselves() -> None:
    """Where the caller wants it a daemon has workers too, and they end with it when it is killed."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    daemon = multiprocessing.get_context("fork").Process(target=_iterate, args=(writer,), daemon=True)
    daemon.start()
    assert reader.poll(10)
    worker = psutil.Process(reader.recv())
    assert worker.ppid() == daemon.pid
    daemon.kill()
    daemon.join()
    worker.wait(2)


def _iterate(writer: Connection) -> None:
    with pool(encoders.pid_of, in_daemon=True) as made:
        for one in made.encode(_slowly(10_000)):
            if one.index == 0:
                writer.send(one.value[1])


def test_worker_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has thread limits and default handlers, ignores Ctrl-C, and keeps the user's search path."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    for method in ("fork", "forkserver"):
        with pool(encoders.seen_in_worker, method) as made:
            (seen,) = values(made.encode([1]))
        assert (seen["threads"], seen["tokenizers"], seen["interrupt"], seen["terminate"]) == (
            "32",
            "false",
            True,
            True,
        )
        assert seen["path"] == os.environ.get("PYTHONPATH")

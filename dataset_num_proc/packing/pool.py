"""Encodes rows in workers: in order, within bounds, and without ever hanging.

One job: `EncoderPool`, in the words of the one who uses it. How many workers and by which method is the policy's, what
they do is the crew's, the order is the session's.
"""

from __future__ import annotations

import itertools
import logging
import os
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from dataset_num_proc.errors import WorkersReduced
from dataset_num_proc.notices import warn
from dataset_num_proc.packing.crew import Crew
from dataset_num_proc.packing.hiring import Order, decided_for, hire
from dataset_num_proc.packing.outcome import Failure, Kind, Outcome, encoded_here
from dataset_num_proc.packing.payload import empty_here, missing
from dataset_num_proc.packing.session import Session
from dataset_num_proc.packing.stats import EncodeStats, Ledger
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.request import Settings

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger("dataset_num_proc")
MIB = 1 << 20


@dataclass(eq=False)
class EncoderPool:
    """Workers that encode rows: one outcome for each row, in the rows' order, the same for any number of workers.

    Nothing starts before the first row is asked for. A process that was forked with a pool in it has a pool of its own;
    one that may not have children, as a worker of a DataLoader, encodes in process unless `in_daemon`. A pool pickles
    as its arguments. Use it from one thread at a time; iterations may be interleaved.

    Attributes:
        encoder: called with a row, and with `encode_kwargs`. A function, a bound method, a lambda or a local object.
        workers: `None` to have the policy choose, 0 for "in this process", else a ceiling. 1 is one worker, beside this
            process.
        start_method: a method that you insist on; `None` takes `DATASET_NUM_PROC_START_METHOD`, else a clean one where
            live state makes a fork unsafe, else the platform's.
        strict: raise what the encoder raises, at the row's place, in place of dropping the row.
        skip: exceptions by which the encoder says that it does not want a row; counted apart, never raised.
        init: called once in each worker before the encoder is unpickled there: for plugins and search paths.
        init_args: its arguments.
        needs: attributes of the encoder that have to arrive in the workers. Where one does not, as a model that
            `__getstate__` leaves out, rows are encoded in this process, with a warning.
        encode_kwargs: keywords for each call.
        start_timeout: seconds that a worker has to start, import and take the encoder.
        item_timeout: seconds that one row may take; `None` for as long as it likes.
        max_rows_in_flight: rows read from the source and not yet handed out, at most; `None` for about two
            seconds' work of each worker, 64 to 1024 rows.
        max_bytes_in_flight: their bytes, pickled, with their results'; one row always may be under way.
        window: rows that may not all be dropped in a row.
        max_drop_ratio: share of the rows that may be dropped, once there were `window` of them. Half: a data set with
            more bad rows than good ones is a wrong encoder.
        consumers: processes on this node that iterate such a pool; `None` for every local rank.
        in_daemon: start workers in a daemon too, such as a DataLoader's worker, in place of encoding in process there.
            `multiprocessing` forbids it, because nobody would end them with the daemon; these end by themselves.
        snapshot: the machine, in place of a fresh reading.
        settings: the operator's word, in place of the environment.
        stats: rows so far, over all iterations.
        decision: how many workers there are and by which method, with every reason; `None` before the first row.
    """

    encoder: Callable[..., Any]
    _: KW_ONLY
    workers: int | None = None
    start_method: str | None = None
    strict: bool = False
    skip: tuple[type[BaseException], ...] = ()
    init: Callable[..., object] | None = None
    init_args: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()
    encode_kwargs: Mapping[str, Any] | None = None
    start_timeout: float = 60.0
    item_timeout: float | None = None
    max_rows_in_flight: int | None = None
    max_bytes_in_flight: int = 64 * MIB
    window: int = 128
    max_drop_ratio: float = 0.5
    consumers: int | None = None
    in_daemon: bool = False
    snapshot: Snapshot | None = None
    settings: Settings | None = None
    stats: EncodeStats = field(default_factory=EncodeStats, init=False)
    decision: Decision | None = field(default=None, init=False)
    _crew: Crew | None = field(default=None, init=False)
    _end: Callable[[], object] | None = field(default=None, init=False)
    _owner: int | None = field(default=None, init=False)
    _here: bool = field(default=False, init=False)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), init=False)
    _live: set[int] = field(default_factory=set, init=False)

    def encode(self, rows: Iterable[object]) -> Generator[Outcome, None, None]:
        """One iteration: exactly one outcome for each row, in order.

        Rows are read ahead while workers have room. Closing the iterator early loses what was read ahead, and nothing
        else: the workers stay for the next one.

        Raises:
            WorkerDied: a worker ended; also `WorkerStartFailed` and `WorkerStalled`.
            RowsLost: too many rows were dropped.
            ValueError: what the encoder needs is not here: it came to this process by pickle, which left it out.
            Exception: what the encoder raises where `strict`, with the worker's traceback as its cause; what `rows`
                raises. Each comes after the outcomes of all rows before it, and with any error the workers are ended.
        """
        ledger = Ledger(self.stats, self.window, self.max_drop_ratio)
        try:
            for index, kind, value in self._results(iter(rows)):
                if kind is Kind.ENCODED:
                    ledger.encoded()
                elif kind is Kind.SKIPPED:
                    ledger.skipped()
                else:
                    ledger.dropped(index, *self._let_go(value))
                yield Outcome(index, value if kind is Kind.ENCODED else None, kind)
            ledger.ended()
        except GeneratorExit:
            raise
        except BaseException:
            self.close()
            raise

    def _let_go(self, value: BaseException | Failure) -> tuple[str, str]:
        """Name and traceback of a failure that is not to be raised; raises it where it is."""
        failure = value if isinstance(value, Failure) else Failure.of(value)
        if self.strict or not failure.ordinary:
            raise failure.error() if isinstance(value, Failure) else value
        return failure.name, failure.trace

    def _results(self, source: Iterator[object]) -> Iterator[tuple[int, Kind, Any]]:
        crew = self._hired()
        if crew is None:
            kwargs = dict(self.encode_kwargs or {})
            for index, row in enumerate(source):
                yield index, *encoded_here(self.encoder, row, kwargs, self.skip)
            return
        number = next(self._numbers)
        self._live.add(number)
        try:
            yield from Session(crew, number, source, self.max_rows_in_flight, self.max_bytes_in_flight).results()
        finally:
            self._live.discard(number)
            crew.forget_before(min(self._live, default=number + 1))

    # --- workers ------------------------------------------------------------------------------------------------------

    def _hired(self) -> Crew | None:
        """The workers, started where they are not; `None` for "in this process"."""
        if self._owner != os.getpid():
            # This process was forked with the pool in it: the workers are its parent's.
            self.close()
            self._here, self._owner = False, os.getpid()
        empty = empty_here(self.encoder, self.needs)
        if empty:
            message = f"{', '.join(empty)} is needed, and empty here: encode in the process that has it"
            raise ValueError(message)
        if self._crew is None and not self._here:
            self.decision, crew = hire(self._order())
            self._here = crew is None
            if crew is not None:
                self._crew = crew
                self._end = weakref.finalize(self, crew.close)
                self._wait_for_the_first(crew)
        return self._crew

    def _wait_for_the_first(self, crew: Crew) -> None:
        """Until a worker has the encoder, with all that it needs; without, the crew is let go."""
        while not crew.ready:
            crew.pump(wait=True)
        needed = missing(crew.lost, self.needs)
        if needed:
            self.close()
            self._here = True
            message = f"{', '.join(needed)} arrives empty in workers, and is needed: rows are encoded in this process"
            warn(message, WorkersReduced)
        elif crew.lost:
            lost = ", ".join(crew.lost)
            _log.warning("set here, and empty in workers: %s. Say needs=… where the encoder reads it", lost)

    def _order(self) -> Order:
        return Order(
            workers=self.workers,
            start_method=self.start_method,
            snapshot=self.snapshot,
            settings=self.settings,
            consumers=self.consumers,
            in_daemon=self.in_daemon,
            first={"init": self.init, "init_args": self.init_args},
            work={"encode": self.encoder, "skip": self.skip, "encode_kwargs": dict(self.encode_kwargs or {})},
            start_timeout=self.start_timeout,
            item_timeout=self.item_timeout,
        )

    def plan(self) -> Decision:
        """How many workers an iteration that began now would have and by which method; starts nothing."""
        return decided_for(self._order())[0]

    def close(self) -> None:
        """Ends the workers, within about a second. A later iteration starts new ones."""
        self._crew = None
        self._live.clear()
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        # What another process has of a pool is its arguments: no worker, no count.
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc] # the arguments are all that there is

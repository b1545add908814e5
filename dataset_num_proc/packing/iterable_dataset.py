"""Packs of a stream of rows, with the arguments and the packs of ms-swift's class of that name, for any encoder.

One job: to put arguments, pool, stream and state together. Nothing starts, and no row is read, before the first pack is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dataset_num_proc.packing.lengths import token_count
from dataset_num_proc.packing.stats import EncodeStats
from dataset_num_proc.packing.strategy import OWN_PACK, oversize_rule, positive, strategy_of
from dataset_num_proc.packing.stream import PackStream, Plan, checked_state
from dataset_num_proc.packing.template import encoder_pool, told
from dataset_num_proc.packing.torch_bases import Plain

if TYPE_CHECKING:
    from typing_extensions import Self


class IterablePackingDataset(Plain):
    """Packs of a stream of rows, which are encoded by workers: each pack is a list of encoded rows.

    The packs depend on the rows alone, not on the number of workers. A row for which the encoder returns a list is
    several that are packed one by one; one for which it returns nothing is left out.

    Attributes:
        template: encodes rows unless `encode` does, gives `packing_length` where that is not said, and is told that its
            rows are packed; or `None`.
        dataset: the rows; it may be iterated once for each pass. Its `set_epoch`, `state_dict` and `load_state_dict`
            are used where it has them.
        num_proc: workers, at most; `None` has the policy choose, 0 is for in this process.
        packing_interval: rows of the source that are packed together; ms-swift's default, 128, costs up to 4 % of the
            room against a few thousand.
        packing_length: most tokens of a pack.
        strict: raise what the encoder raises, other than ms-swift's `MaxLengthError`, in place of dropping the row.
        cyclic: begin again at the end of the source, for ever, each time with the next epoch set.
        packing_strategy: as in `pack_lengths`.
        multiprocessing_context: the start method, where you insist on one.
        pool: encodes the rows, and counts those that it could not.

    Besides these there are `encode`, called with a row; `length_of`, the tokens of what it returns, where that has
    neither `input_ids` nor `lengths`; `oversize`, as in `pack_lengths`; and `pool_options`, further arguments of
    `EncoderPool`. `packing_num_proc` and `load_from_cache_file` change nothing, as in ms-swift.

    Raises:
        PackingError: an argument is out of range.
    """

    torch_name = "IterableDataset"

    _stream: PackStream | None = None
    _start: Mapping[str, Any] | None = None
    _beginning: Any = None

    def __init__(  # noqa: PLR0913 - ms-swift's arguments, and four more
        self,
        template: Any,  # noqa: ANN401 - whatever encodes
        dataset: Iterable[Any],
        num_proc: int | None = 1,
        *,
        packing_interval: int = 128,
        packing_length: int | None = None,
        strict: bool = False,
        cyclic: bool = False,
        packing_strategy: str = "binpack",
        multiprocessing_context: str | None = None,
        packing_num_proc: int | None = None,  # noqa: ARG002 - ms-swift takes it here too, and leaves it
        load_from_cache_file: bool | None = None,  # noqa: ARG002 - likewise
        encode: Callable[..., Any] | None = None,
        length_of: Callable[[Any], int] = token_count,
        oversize: str = OWN_PACK,
        pool_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.template, self.dataset, self.num_proc = template, dataset, num_proc
        self.strict, self.cyclic, self.packing_strategy = strict, cyclic, packing_strategy
        self.multiprocessing_context, self.epoch = multiprocessing_context, 0
        self.packing_length = told(template, packing_length)
        self.packing_interval = positive("packing_interval", packing_interval)
        strategy, rule = strategy_of(packing_strategy), oversize_rule(oversize)
        self._plan = Plan(strategy, self.packing_length, self.packing_interval, cyclic, rule, length_of)
        workers = {"workers": num_proc, "start_method": multiprocessing_context, "strict": strict}
        self.pool = encoder_pool(template, encode, {**workers, **(pool_options or {})})

    @property
    def stats(self) -> EncodeStats:
        """How many rows were encoded, skipped and dropped."""
        return self.pool.stats

    @property
    def left_out(self) -> int:
        """How many encoded rows the latest iteration has left out, since they were too long and `oversize` says so."""
        return self._stream.left_out if self._stream else 0

    def set_epoch(self, epoch: int) -> None:
        """Passes the epoch on to the source, if it takes one; it holds from the next iteration on."""
        self.epoch = epoch
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[Any]]:
        start, self._start = self._start, None
        self._stream = PackStream(self.dataset, self._plan, self.epoch, start, self._beginning)
        return self._stream.packs(self.pool)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration stands: it holds the encoded rows that are still to be given out."""
        if self._start is not None:
            return dict(self._start)
        stream = self._stream or PackStream(self.dataset, self._plan, self.epoch, None, self._beginning)
        return stream.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next iteration go on from there. No row is encoded again.

        Raises:
            PackingError: the state is of another strategy, capacity or window.
        """
        self._start = checked_state(state, self._plan)
        if self._beginning is None and state["place"]["source"] is not None:
            # A stream of `datasets` that was given a state begins there each time within an epoch: later iterations
            # would be silently short of all that is before it.
            self._beginning = self.dataset.state_dict()  # type: ignore[attr-defined] # it has given this state
        self.set_epoch(state["epoch"])

    def close(self) -> None:
        """Ends the workers."""
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}  # an iteration is this process's own

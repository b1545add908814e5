"""The ways to pack, by name and version; and what their arguments may be.

One job: to say what a name means, for ever. Values alone, never the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import NamedTuple

from dataset_num_proc.errors import OversizeRow, PackingError
from dataset_num_proc.packing import bins

ERROR, DROP, OWN_PACK = "error", "drop", "own_pack"
OVERSIZE = (ERROR, DROP, OWN_PACK)


class Strategy(NamedTuple):
    """A way to pack, whose meaning never changes under its name and version.

    Attributes:
        name: what callers write.
        version: raised with every change that moves a row to another pack.
        algorithm: packs one window.
        window: rows of a data set that are packed together unless the caller says otherwise; `None` for all of them.
    """

    name: str
    version: int
    algorithm: bins.Algorithm
    window: int | None = None

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"

    def pack_window(self, lengths: Sequence[int], capacity: int, *, last: bool) -> tuple[bins.Packs, list[int]]:
        """The packs of one window, and the positions that are carried into the next: those of the last pack.

        That one is the pack with most room to spare, or near it. There is no next window after the last.
        """
        packs = self.algorithm(lengths, capacity)
        carried = packs.pop() if packs and not last else []
        return packs, carried


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy("bfd", 1, bins.best_fit_decreasing),
        Strategy("ffd", 1, bins.first_fit_decreasing),
        Strategy("wfd", 1, bins.worst_fit_decreasing),
        Strategy("sequential", 1, bins.next_fit),
        # What ms-swift 4.6.0 gives: windows of 1000 rows through `binpacking.to_constant_volume`, which is best fit in
        # binpacking 1.5.2, as ms-swift's documentation says, and has been worst fit since 2.0.0.
        Strategy("binpack", 1, bins.best_fit_decreasing, window=1000),
        Strategy("binpack-2", 1, bins.worst_fit_decreasing, window=1000),
    )
}


def strategy_of(name: str) -> Strategy:
    """The strategy of a name, "bfd", or of a name with its version, "bfd/1".

    Raises:
        PackingError: it is not known. ms-swift takes a name that is mistyped for its default, in silence.
    """
    strategy = STRATEGIES.get(name.partition("/")[0]) if isinstance(name, str) else None
    if strategy is None or name not in (strategy.name, str(strategy)):
        known = ", ".join(map(str, STRATEGIES.values()))
        message = f"strategy {name!r} is not known; there are {known}, each with or without its version"
        raise PackingError(message)
    return strategy


def positive(name: str, value: object) -> int:
    """A whole number of at least 1.

    Raises:
        PackingError: it is none.
    """
    number = _whole(value)
    if number is None or number < 1:
        message = f"{name} is {value!r}; it must be a whole number of at least 1"
        raise PackingError(message)
    return number


def tokens_of(row: int, length: object) -> int:
    """The tokens of a row: its length, or the sum of a list of them, which are parts of a row that stay together.

    Raises:
        PackingError: it is no whole number of at least 0.
    """
    if isinstance(length, (list, tuple)):
        return sum(tokens_of(row, part) for part in length)
    number = _whole(length)
    if number is None or number < 0:
        message = f"the length of row {row} is {length!r}; it must be a whole number of at least 0, or a list of them"
        raise PackingError(message)
    return number


def _whole(value: object) -> int | None:
    try:
        return index(value)  # type: ignore[arg-type] # it is what tells: numpy's integers have it, floats and text do not
    except TypeError:
        return None


def oversize_rule(value: str) -> str:
    """What becomes of a row longer than the capacity, checked.

    Raises:
        PackingError: it is none of the known rules.
    """
    if value not in OVERSIZE:
        message = f"oversize is {value!r}; it accepts {', '.join(map(repr, OVERSIZE))}"
        raise PackingError(message)
    return value


def admits(rule: str, row: int, tokens: int, capacity: int) -> bool:
    """Whether a row is packed, in a pack of its own where it is too long.

    Raises:
        OversizeRow: it is too long, and the rule is "error".
    """
    if tokens <= capacity or rule == OWN_PACK:
        return True
    if rule == ERROR:
        message = (
            f"row {row} has {tokens} tokens, and a pack holds {capacity}; "
            'oversize="drop" leaves such rows out, oversize="own_pack" gives each a longer pack of its own'
        )
        raise OversizeRow(message)
    return False

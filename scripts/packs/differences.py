"""Where our packing data sets differ from ms-swift's on purpose: each shown on both sides.

One job: the list, with a case of each that can be run. What ms-swift would never return from is told, not run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

from packs.configurations import end
from packs.templates import Row, Shuffled, Table, Template

Sides = tuple[str, str]


class Difference(NamedTuple):
    """One difference.

    Attributes:
        case: what is done.
        why: why ours is otherwise.
        run: what a module's classes make of it, in a few words; `None` where ms-swift's would not return.
    """

    case: str
    why: str
    run: Callable[[Any], str] | None


def _row(number: int, length: int = 5, how: str = "dict") -> Row:
    return {"id": number, "how": how, "length": length, "parts": [length]}


def _ids(module: Any, source: Any, most: int | None = None, **options: Any) -> str:  # noqa: ANN401 - of either side
    dataset = module.IterablePackingDataset(Template(16), source, num_proc=_workers(module), **options)
    try:
        with closing(iter(dataset)) as packs:
            found = [item["input_ids"][0] for pack in islice(packs, most) for item in pack]
    except Exception as error:  # noqa: BLE001 - of either side
        return f"{type(error).__name__}: {error}".partition("\n")[0][:90]
    finally:
        end(dataset)
    return f"{len(found)} rows, of which {found[:4]} are the first"


def _workers(module: Any) -> int:  # noqa: ANN401 - a module with both classes
    """In process where that can be said, which is ours: a fresh worker would first import all of ms-swift."""
    return 1 if module.__name__.startswith("swift.") else 0


def _one_shot(module: Any) -> str:  # noqa: ANN401 - a module with both classes
    return _ids(module, iter([_row(number) for number in range(40)]))


def _all_bad(module: Any) -> str:  # noqa: ANN401 - likewise
    return _ids(module, [_row(number, how="raise") for number in range(40)])


def _strict(module: Any) -> str:  # noqa: ANN401 - likewise
    return _ids(module, [_row(0, how="raise")], strict=True)


def _mistyped(module: Any) -> str:  # noqa: ANN401 - likewise
    try:
        dataset = module.PackingDataset(Template(16), Table([_row(0), _row(1)]), packing_strategy="sequentail")
    except Exception as error:  # noqa: BLE001 - of either side
        return f"{type(error).__name__}: {error}"[:90]
    return f"{len(dataset)} packs"


def _second_pass(module: Any) -> str:  # noqa: ANN401 - likewise
    source = Shuffled([_row(number, 16) for number in range(8)])
    workers = _workers(module)
    dataset = module.IterablePackingDataset(Template(16), source, num_proc=workers, cyclic=True, packing_interval=8)
    try:
        with closing(iter(dataset)) as packs:
            first, second = ([pack[0]["input_ids"][0] for pack in islice(packs, 7)] for _ in range(2))
            return f"{first}, then {second}"
    finally:
        end(dataset)


DIFFERENCES = (
    Difference(
        "a source that can be iterated once", "ms-swift looks whether it is empty, and loses that row", _one_shot
    ),
    Difference("every row fails, not strict", "ms-swift gives nothing, without a word", _all_bad),
    Difference("a row fails, strict", "ms-swift's worker dies of it, and its error stays in the worker's log", _strict),
    Difference("a strategy that is mistyped", "ms-swift takes anything for its default", _mistyped),
    Difference("cyclic, from a source that has epochs", "ms-swift repeats the first epoch's order", _second_pass),
    Difference("cyclic, and a whole pass gives nothing", "ms-swift goes round for ever; ours raises RowsLost", None),
    Difference("cyclic, and the source ends for good", "ms-swift goes round for ever; ours raises PackingError", None),
    Difference(
        "packing_interval=0", "ms-swift raises UnboundLocalError when iterated; ours PackingError when made", None
    ),
    Difference(
        "num_proc=0", "ms-swift waits for ever for workers that it has not started; ours encodes in process", None
    ),
    Difference("encoded rows without input_ids", "ms-swift raises KeyError; ours counts by `lengths`", None),
)

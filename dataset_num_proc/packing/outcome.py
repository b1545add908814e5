"""What became of one row: encoded, skipped or dropped; and an encoder's exception on its way between processes.

One job: these values, and their bytes. A value or an exception that cannot travel becomes one that can, with the same
words in it. Nothing here counts, logs or decides.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

PROTOCOL = 5
"""Fixed, so that both sides speak it whatever their default is. Plain pickle, not the one of `multiprocessing`: that
shares a tensor's storage by a descriptor, which needs its worker alive when it is read."""


class Kind(str, Enum):
    """What became of a row."""

    ENCODED = "encoded"
    """`Outcome.value` is what the encoder returned."""
    SKIPPED = "skipped"
    """The encoder raised one of the exceptions by which it says that it does not want the row."""
    DROPPED = "dropped"
    """The encoder failed on it, and failures are not to be raised."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one row.

    Attributes:
        index: place of the row in its source, from 0.
        value: what the encoder returned; `None` where the row was not encoded.
        kind: what became of it.
    """

    index: int
    value: Any
    kind: Kind


class RemoteTraceback(Exception):  # noqa: N818 - it is the text of an error, and never raised
    """Stands as the cause of an exception that comes from a worker, and shows where in the worker it was raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Failure(NamedTuple):
    """An exception as it travels.

    Attributes:
        name: of its type.
        text: its type and message in one line.
        trace: where it was raised.
        data: itself, pickled; `None` where it does not pickle.
        ordinary: an `Exception`, not one that is to end a program, such as SystemExit.
    """

    name: str
    text: str
    trace: str
    data: bytes | None
    ordinary: bool

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """An exception that was just caught."""
        try:
            data: bytes | None = pickle.dumps(error, PROTOCOL)
        except Exception:  # noqa: BLE001 - whatever a reducer raises
            data = None
        kind = type(error)
        text = "".join(traceback.format_exception_only(kind, error)).strip()  # also where its `__str__` fails
        trace = "".join(traceback.format_exception(kind, error, error.__traceback__))
        return cls(kind.__name__, text, trace, data, isinstance(error, Exception))

    def error(self) -> BaseException:
        """The exception with its traceback as its cause; a RuntimeError with its words where it does not unpickle."""
        error: object = None
        if self.data is not None:
            try:
                error = pickle.loads(self.data)  # noqa: S301 - our own worker's
            except Exception:  # noqa: BLE001 - whatever an `__init__` raises
                error = None
        found = error if isinstance(error, BaseException) else RuntimeError(self.text)
        found.__cause__ = RemoteTraceback(self.trace)
        return found


def encoded_here(
    encode: Callable[..., object], row: object, kwargs: dict[str, Any], skip: tuple[type[BaseException], ...]
) -> tuple[Kind, Any]:
    """What becomes of a row in this process: its kind, with the encoder's value, or the exception that it raised."""
    try:
        return Kind.ENCODED, encode(row, **kwargs)
    except skip:
        return Kind.SKIPPED, None
    except BaseException as error:  # noqa: BLE001 - what is no Exception is raised again by the caller
        return Kind.DROPPED, error

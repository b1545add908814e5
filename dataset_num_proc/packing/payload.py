"""The encoder on its way to the workers: pickled before any of them starts, or refused with the part that does not.

One job: the encoder → its bytes, the modules that they name, and what has to arrive with them. It may not start
anything, nor call the encoder.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from dataset_num_proc.packing.outcome import PROTOCOL
from dataset_num_proc.policy.facts import MainModule

_MAIN = "__main__"
_NAMED = (type, FunctionType, BuiltinFunctionType)


class CannotTravel(Exception):  # noqa: N818 - named for the state; the pool makes an error of it
    """The encoder, or what goes with it, cannot be had by a worker; the text says why and what to do."""


class Parcel(NamedTuple):
    """Something pickled.

    Attributes:
        data: the bytes.
        by_dill: whether it takes dill to read them.
        modules: that the bytes name, and that a worker imports as it reads them.
    """

    data: bytes
    by_dill: bool
    modules: frozenset[str]

    @property
    def needs_main(self) -> bool:
        """Whether a worker must import the main module for it."""
        return _MAIN in self.modules


def parcel(values: Mapping[str, object]) -> Parcel:
    """Named values, pickled together; by dill where plain pickle refuses them, as it does lambdas and local classes.

    Together, because a class that travels by value arrives as another class each time.

    Raises:
        CannotTravel: they pickle in neither way, or live in a main module that a worker would run again.
    """
    try:
        packed = _pickled(dict(values), pickle.Pickler, by_dill=False)
    except Exception as error:  # noqa: BLE001 - whatever a reducer raises
        return _by_dill(values, error)
    if packed.needs_main:
        from dataset_num_proc.machine.main_module import describe  # not at the top: workers import this module too

        main = describe(sys.modules.get(_MAIN), sys._getframe())  # noqa: SLF001 - `inspect` imports a great deal for it
        if main.kind is MainModule.UNGUARDED:
            message = (
                f"{next(iter(values))} lives in the main script, which each worker would have to import, and with it "
                f"run its work again: put {main.file}, line {main.line} and what follows, under "
                '`if __name__ == "__main__":`, or move it to a module of its own'
            )
            raise CannotTravel(message)
        if main.kind not in {MainModule.FILE, MainModule.MODULE}:  # a prompt or a pipe: nothing that could be imported
            return _by_dill(values, None)
    return packed


def _by_dill(values: Mapping[str, object], error: Exception | None) -> Parcel:
    try:
        dill = import_module("dill")
        return _pickled(dict(values), dill.Pickler, by_dill=True, recurse=True)
    except Exception as refused:  # noqa: BLE001 - whatever a reducer raises
        first = error or refused
        message = (
            f"{_refused_part(values)} does not pickle ({type(first).__name__}: {first}), nor does dill take it "
            f"({type(refused).__name__}: {refused}): leave it out in `__getstate__`, or encode in this process, "
            "with workers=0"
        )
        raise CannotTravel(message) from first


def _refused_part(values: Mapping[str, object]) -> str:
    from dataset_num_proc.machine.attribute_path import attribute_path  # as above

    with suppress(Exception):  # to be told the path is a help, and no reason for another error
        for name, value in values.items():
            path = attribute_path(value, "multiprocessing", name)
            if path is not None:
                return path
    return next(iter(values))


def _pickled(value: object, base: Any, *, by_dill: bool, **options: object) -> Parcel:  # noqa: ANN401 - a pickler's class
    modules: set[str] = set()

    class Recorder(base):  # type: ignore[misc] # the class is a value here
        """A pickler that notes the home of each class and function that it names."""

        def persistent_id(self, part: object) -> None:
            # Called with everything that is pickled. Nothing is persistent: it is only looked at.
            if isinstance(part, _NAMED):
                modules.add(getattr(part, "__module__", None) or "")

    file = io.BytesIO()
    Recorder(file, PROTOCOL, **options).dump(value)
    if by_dill:  # its own classes and functions of the main module travel by value
        modules.discard(_MAIN)
    return Parcel(file.getvalue(), by_dill, frozenset(modules - {"", "builtins"}))


def unpacked(data: bytes | memoryview, *, by_dill: bool) -> Any:  # noqa: ANN401 - whatever was packed
    """What `parcel` packed."""
    return (import_module("dill") if by_dill else pickle).loads(bytes(data))


def _owners(encode: object) -> Iterator[tuple[str, object]]:
    """The objects whose attributes an encoder works with, each with its name in Python's own words."""
    name = "encode"
    while isinstance(encode, partial):
        encode, name = encode.func, f"{name}.func"
    owner = getattr(encode, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        yield f"{name}.__self__", owner
    elif not isinstance(encode, _NAMED):
        yield name, encode


def attributes(encode: Callable[..., object]) -> dict[str, list[str]]:
    """The attributes that hold something here, by the name of the object that has them."""
    found = {}
    for name, owner in _owners(encode):
        held: Mapping[str, object] = getattr(owner, "__dict__", {})
        found[name] = [attribute for attribute, value in held.items() if value is not None]
    return found


def arrived_empty(encode: Callable[..., object], before: Mapping[str, list[str]]) -> list[str]:
    """Those of `before` that hold nothing in this process: what a `__getstate__` leaves out pickles all the same."""
    return [
        f"{name}.{attribute}"
        for name, owner in _owners(encode)
        for attribute in before.get(name, ())
        if getattr(owner, "__dict__", {}).get(attribute) is None
    ]


def empty_here(encode: Callable[..., object], needs: tuple[str, ...]) -> list[str]:
    """Those of the needed attributes that hold nothing in this process."""
    return [f"{name}.{need}" for name, owner in _owners(encode) for need in needs if getattr(owner, need, None) is None]


def missing(lost: list[str], needs: tuple[str, ...]) -> list[str]:
    """Those of the lost attributes that the caller says are needed."""
    return [path for path in lost if path.rpartition(".")[2] in needs]

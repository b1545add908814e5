"""A snapshot → JSON values, and back without loss, so that a decision can be replayed on another machine.

One job: `from_json(to_json(snapshot)) == snapshot`. Reading and writing the text is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from dataset_num_proc.policy.facts import (
    CpuFacts,
    LibraryFacts,
    MainModule,
    MemoryFacts,
    ProcessFacts,
    Snapshot,
    StartMethodFacts,
    StartMethods,
    Unreadable,
)

Part = TypeVar("Part")
SCHEMA = 1
"""Of the documents that hold a snapshot; a key may be added within it, none taken away."""


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as plain JSON values; `from_json` gives an equal snapshot back."""
    document: dict[str, Any] = _plain(snapshot)
    return document


def from_json(document: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `to_json` wrote. Parts and keys that are missing take their defaults.

    Args:
        document: the mapping, or a whole `doctor --json` document that holds it under "snapshot".

    Raises:
        ValueError: a key that no snapshot has, or a part of the wrong type; the message names it.
    """
    document = _mapping({"document": document}, "document")
    if "snapshot" in document:
        if document.get("schema", SCHEMA) != SCHEMA:
            message = f"a document of schema {document['schema']!r:.80}; this version reads schema {SCHEMA}"
            raise ValueError(message)
        document = _mapping(document, "snapshot")
    process, methods = _mapping(document, "process"), _mapping(document, "start_methods")
    return _part(
        Snapshot,
        document,
        cpu=_part(CpuFacts, _mapping(document, "cpu")),
        memory=_part(MemoryFacts, _mapping(document, "memory")),
        process=_part(
            ProcessFacts,
            process,
            main=MainModule(process.get("main", MainModule.MODULE)),
            accelerators=frozenset(_list(process, "accelerators")),
            runtimes=frozenset(_list(process, "runtimes")),
        ),
        start_methods=_part(StartMethods, methods, **{name: _methods(methods, name) for name in methods}),
        libraries=_part(LibraryFacts, _mapping(document, "libraries")),
        unreadable=tuple(_unreadable(item) for item in _list(document, "unreadable")),
    )


def _methods(document: Mapping[str, Any], module: str) -> StartMethodFacts:
    facts = _mapping(document, module)
    return _part(StartMethodFacts, facts, offered=tuple(_list(facts, "offered")))


def _unreadable(item: object) -> Unreadable:
    entry = _mapping({"entry of unreadable": item}, "entry of unreadable")
    return _part(Unreadable, entry, what=entry.get("what", ""), why=entry.get("why", ""))


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON values are of any type
    """`value` in JSON's types, in a stable order."""
    if value is not None and type(value) not in _LEAVES:
        return _plain_container(value)
    return value


def _plain_container(value: Any) -> Any:  # noqa: ANN401 - as above
    """A part, a mapping, a set, a sequence or a member of an enum in JSON's types; anything else as it is."""
    if is_dataclass(value):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _mapping(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name, {})
    if not isinstance(part, Mapping):
        message = f"a snapshot's {name} is a mapping, not {part!r:.80}"
        raise ValueError(message)  # noqa: TRY004 - a malformed document is a value error, whichever part is malformed
    return part


def _list(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    part = document.get(name, [])
    if not isinstance(part, (list, tuple)):
        message = f"a snapshot's {name} is a list, not {part!r:.80}"
        raise ValueError(message)  # noqa: TRY004 - as above
    return part


def _part(kind: type[Part], document: Mapping[str, Any], **converted: object) -> Part:
    """One part of a snapshot from its mapping, with `converted` in place of what JSON cannot hold."""
    types: dict[str, str] = kind.__annotations__
    for name, value in document.items():
        if name not in types:
            message = f"{kind.__name__} has no {name}; it has {', '.join(types)}"
            raise ValueError(message)
        if name not in converted and not _fits(value, types[name]):
            message = f"{kind.__name__}.{name} is {value!r:.80}; accepted is {types[name].replace('None', 'null')}"
            raise ValueError(message)
    return kind(**{**document, **converted})


_LEAVES = frozenset({str, int, float, bool})
_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "None": (type(None),),
}
_MAPPING = "Mapping[str, "


def _fits(value: object, annotation: str) -> bool:
    """Whether a JSON value is of a field's type: one of the plain ones, or a mapping to one."""
    kinds = _accepted(annotation)
    if annotation.startswith(_MAPPING):
        return isinstance(value, Mapping) and all(_is(item, kinds) for item in value.values())
    return _is(value, kinds)


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)


@lru_cache(maxsize=64)
def _accepted(annotation: str) -> tuple[type, ...]:
    """The types that an annotation names, for a value or for each value of a mapping."""
    words = annotation.removeprefix(_MAPPING).removesuffix("]").split(" | ")
    return tuple(kind for word in words for kind in _PLAIN[word])

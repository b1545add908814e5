"""A snapshot → JSON values, and back without loss, so that a decision can be replayed on another machine.

One job: `from_json(to_json(snapshot)) == snapshot`. Reading and writing the text is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from enum import Enum
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


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as plain JSON values; `from_json` gives an equal snapshot back."""
    document: dict[str, Any] = _plain(asdict(snapshot))
    return document


def from_json(document: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `to_json` wrote. Parts and keys that are missing take their defaults.

    Args:
        document: the mapping, or a whole `doctor --json` document that holds it under "snapshot".

    Raises:
        ValueError: a key that no snapshot has, or a part of the wrong type; the message names it.
    """
    document = _mapping({"document": document}, "document")
    document = _mapping(document, "snapshot") if "snapshot" in document else document
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
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _mapping(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name, {})
    if not isinstance(part, Mapping):
        message = f"a snapshot's {name} is a mapping, not {part!r}"
        raise ValueError(message)  # noqa: TRY004 - a malformed document is a value error, whichever part is malformed
    return part


def _list(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    part = document.get(name, [])
    if not isinstance(part, (list, tuple)):
        message = f"a snapshot's {name} is a list, not {part!r}"
        raise ValueError(message)  # noqa: TRY004 - as above
    return part


def _part(kind: type[Part], document: Mapping[str, Any], **converted: object) -> Part:
    """One part of a snapshot from its mapping, with `converted` in place of what JSON cannot hold."""
    unknown = set(document) - {part.name for part in fields(kind)}  # type: ignore[arg-type] # every part is a dataclass
    if unknown:
        message = f"{kind.__name__} has no {', '.join(sorted(map(str, unknown)))}"
        raise ValueError(message)
    return kind(**{**document, **converted})

"""Packing: rows are encoded by workers that cannot hang, and put together to packs.

    from dataset_num_proc.packing import EncoderPool

    with EncoderPool(template.encode, workers=4) as pool:
        for outcome in pool.encode(rows):
            ...

Every name is imported when it is first used: a worker imports its own entry from here, and nothing else. Type checkers
read the names in `__init__.pyi`.
"""

from __future__ import annotations

_HOMES = {
    "dataset": ("PackingDataset",),
    "iterable_dataset": ("IterablePackingDataset",),
    "layout": ("PackLayout", "pack_lengths"),
    "outcome": ("Kind", "Outcome", "RemoteTraceback"),
    "pool": ("EncoderPool",),
    "stats": ("EncodeStats",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - strings, all of them


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""What a cell stands for: its labels → `Snapshot`, `Request` and `Settings`.

One job: to build the values. It knows nothing of the rules and of the laws.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from dataset_num_proc.policy.facts import (
    FORK,
    FORKSERVER,
    SPAWN,
    CpuFacts,
    LibraryFacts,
    MemoryFacts,
    ProcessFacts,
    Snapshot,
    StartMethodFacts,
    StartMethods,
    Unreadable,
)
from dataset_num_proc.policy.request import Request, Settings
from matrix.axes import AXES, CPU_AXES, MACHINE_AXES, QUESTION_AXES, Axis, Labels


def default_cell() -> Labels:
    """The cell that has the default on every axis."""
    return {name: axis.default for name, axis in AXES.items()}


def _values(cell: Mapping[str, str], axes: Mapping[str, Axis]) -> dict[str, Any]:
    return {name: axis.values[cell[name]] for name, axis in axes.items()}


def snapshot_of(cell: Mapping[str, str], *, last_rank: bool = False) -> Snapshot:
    """The machine of a cell, as its first local rank sees it, or its last."""
    at = _values(cell, MACHINE_AXES)
    ranks, own_cpus = at["ranks"]
    unknown = [name for name in ("host cpus", "host memory") if at[name] is None]
    return Snapshot(
        cpu=CpuFacts(at["host cpus"], at["affinity"], at["quota"], at["quota"] and "cpu.max", at["declared cpus"]),
        memory=_memory(at),
        process=ProcessFacts(
            platform=at["platform"],
            python=at["python"],
            daemonic=at["daemonic"],
            main=at["main"],
            local_rank=ranks - 1 if last_rank else 0 if ranks > 1 else None,
            local_world_size=ranks,
            cpus_per_rank=own_cpus,
            pids_free=at["pids"],
            importing=at["importing"],
            **at["hazards"],
        ),
        start_methods=StartMethods(
            *(_start_method(at["platform"], at[module]) for module in ("multiprocess", "multiprocessing"))
        ),
        libraries=LibraryFacts(datasets=at["datasets"]),
        unreadable=tuple(Unreadable(name, "not there") for name in unknown),
    )


def _memory(at: Mapping[str, Any]) -> MemoryFacts:
    limit = at["group memory"]
    # Three quarters of the group are in use, and some of that is cache.
    headroom = None if limit is None else limit // 4 + int(limit * 3 // 4 * at["cache in the group"])
    return MemoryFacts(at["host memory"], headroom, limit, limit and "memory.max", at["declared memory"])


def _start_method(platform: str, method: str | None) -> StartMethodFacts:
    if platform == "win32":  # offers nothing else, whatever was asked for
        return StartMethodFacts(method and SPAWN, pinned=False, offered=(SPAWN,))
    return StartMethodFacts(method, pinned=method == FORKSERVER, offered=(FORK, SPAWN, FORKSERVER))


def question_of(cell: Mapping[str, str]) -> tuple[Request, Settings]:
    """What the caller and the operator of a cell say."""
    request = _request(cell["request"], cell["site"], cell["rows"], cell["work"])
    return request, _settings(cell["override"], cell["settings"])


@cache
def _request(workers: str, site: str, rows: str, work: str) -> Request:
    value = {name: axis.values for name, axis in QUESTION_AXES.items()}
    return Request.of(value["request"][workers], site=site, rows=value["rows"][rows], **value["work"][work])


@cache
def _settings(override: str, settings: str) -> Settings:
    return Settings(override=QUESTION_AXES["override"].values[override], **QUESTION_AXES["settings"].values[settings])


def tighter(cell: Mapping[str, str], axis: str) -> list[str]:
    """The labels of `axis` that give no more than the one of `cell`, the nearest first; none where nobody knows."""
    order = AXES[axis].descending
    label = cell[axis]
    if label not in order or (axis in CPU_AXES and cell["host cpus"] == "unknown"):
        return []  # unknown cpus are taken for one, not for unlimited
    if axis == "rows" and label == "none" and AXES["work"].values[cell["work"]].get("profile"):
        return []  # without rows a measurement says nothing
    return list(order[order.index(label) + 1 :])

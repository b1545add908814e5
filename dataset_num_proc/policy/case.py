"""One question with all that bears on it, and the figures that several rules share.

One job: to gather what a rule needs, so that a rule is one line of sense.
"""

from __future__ import annotations

from typing import Any

from dataset_num_proc.policy.encoding import Site, site_named
from dataset_num_proc.policy.facts import FORK, Snapshot
from dataset_num_proc.policy.request import Request, Settings
from dataset_num_proc.policy.start_method import StartMethodChoice, choose_start_method, starting_module


class Case:
    """One question with all that bears on it, so that a rule is one line of sense.

    A site may start workers by two modules: `forks` says whether any of them are forked, and `fresh` is the method of
    those that are fresh interpreters, `None` where there are none.
    """

    __slots__ = (
        "auto",
        "choice",
        "forks",
        "fresh",
        "measured",
        "method",
        "module",
        "other_method",
        "process",
        "request",
        "settings",
        "site",
        "snapshot",
    )

    def __init__(self, request: Request, snapshot: Snapshot, settings: Settings) -> None:
        """Resolve the site and the start method, which most rules ask for."""
        self.request, self.snapshot, self.settings = request, snapshot, settings
        self.process = snapshot.process
        self.site: Site = site_named(request.site)
        self.module = starting_module(request, self.site)
        self.choice: StartMethodChoice = choose_start_method(request, snapshot, settings, self.site, self.module)
        self.method = self.choice.method
        other = self.site.also_module
        self.other_method = self.method if other is None else snapshot.start_methods.of(other).method
        self.forks = FORK in (self.method, self.other_method)
        fresh = self.method if self.method != FORK else self.other_method
        self.fresh = fresh if fresh != FORK else None
        self.auto = request.workers is None
        self.measured = request.profile is not None and request.rows is not None


def usable_cpus(snapshot: Snapshot) -> tuple[int | None, dict[str, Any]]:
    """Cpus that this rank may use, and the figures they come from; `None` where nothing is known.

    `min(host, affinity, floor(quota) but at least 1, declared)`, divided by the ranks of this node, unless the
    launcher has given each rank its own: then affinity and the per-task variable are this rank's share already.
    """
    cpu, process = snapshot.cpu, snapshot.process
    ranks, own = process.local_world_size, process.cpus_per_rank
    seen: dict[str, Any] = {"host": cpu.host, "affinity": cpu.affinity, "quota": cpu.quota, **cpu.declared}
    usable = None
    for name, figure in seen.items():
        if figure is None:
            continue
        share = int(figure) or 1
        if not (own and name in _OWN):
            share //= ranks
        if usable is None or share < usable:
            usable = share
    seen["local_ranks"] = ranks
    return usable, seen


_OWN = frozenset({"affinity", "SLURM_CPUS_PER_TASK"})
"""Figures that are one rank's already where the launcher gave each rank cpus of its own."""


def available_memory(snapshot: Snapshot) -> tuple[int | None, str]:
    """Bytes that all ranks of this node may take together, and what says so."""
    memory = snapshot.memory
    least, source = memory.available, "MemAvailable"
    if memory.headroom is not None and (least is None or memory.headroom < least):
        least, source = memory.headroom, memory.headroom_source or "control group"
    for name, value in memory.declared.items():
        if least is None or value < least:
            least, source = value, name
    return least, source if least is not None else "not known"


def bytes_per_worker(request: Request, settings: Settings) -> int:
    """Bytes that one worker is taken to need: the caller's word, else what was measured, else the setting."""
    measured = request.profile.bytes_per_worker if request.profile is not None else None
    return request.bytes_per_worker or measured or settings.bytes_per_worker

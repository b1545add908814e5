"""Which start method, and the hazards that forbid fork.

One job: a snapshot → the method that a site's workers will start by, with the reason. It neither reads nor sets a
method.

For `map` that is the method that the module will really use, unless the caller lets us choose. For packing: explicit
argument, else the operator's variable, else forkserver (spawn where it is not offered) if anything makes fork unsafe,
else the platform's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dataset_num_proc.policy.counts import AUTO
from dataset_num_proc.policy.encoding import LOKY, MULTIPROCESS, MULTIPROCESSING, Site
from dataset_num_proc.policy.facts import FORK, FORKSERVER, SPAWN, ProcessFacts, Snapshot
from dataset_num_proc.policy.request import Request, Settings, Workload


@dataclass(frozen=True, slots=True)
class StartMethodChoice:
    """A start method and where it comes from.

    Attributes:
        method: the method, `None` where none is known.
        source: "site", "argument", "environment", "hazards" or "default".
        hazards: what makes fork unsafe here; empty where nothing does.
    """

    method: str | None
    source: str
    hazards: tuple[str, ...] = ()

    @property
    def obeyed_against_hazards(self) -> bool:
        """An explicit fork in a state that cannot be forked: obeyed, and warned about."""
        return self.method == FORK and bool(self.hazards) and self.source in {"argument", "environment"}


def fork_hazards(process: ProcessFacts) -> tuple[str, ...]:
    """What makes a fork of this process unsafe, each in a few words; empty where nothing does.

    A forked child has only the forking thread: a lock that another thread held stays locked for ever, a thread pool
    has no threads, and a device driver's state belongs to another process.
    """
    found = [
        f"{name} is initialised" if not name.startswith("/") else f"{name} is open"
        for name in sorted(process.accelerators)
    ]
    if process.distributed:
        found.append("a collective runtime (torch.distributed, DeepSpeed or NCCL) is up")
    found.extend(f"{name} is running" for name in sorted(process.runtimes))
    threads, pythons = process.threads, process.python_threads
    if threads is not None and pythons is not None and threads > pythons:
        found.append(f"native threads: {threads - pythons}")
    if process.platform == "darwin":
        found.append("macOS kills forked children of threaded processes")
    return tuple(found)


def starting_module(request: Request, site: Site) -> str:
    """The module that starts the workers: packing workers are started by the standard library's, whatever the site."""
    return MULTIPROCESSING if request.workload is Workload.PACKING and site.module == MULTIPROCESS else site.module


@lru_cache(maxsize=8)
def _by_default(method: str | None) -> StartMethodChoice:
    return StartMethodChoice(method, "default")


def choose_start_method(
    request: Request, snapshot: Snapshot, settings: Settings, site: Site, module: str | None = None
) -> StartMethodChoice:
    """The start method of the workers that `request` would get at `site`; `module` where another one starts them."""
    packing = request.workload is Workload.PACKING
    module = module or starting_module(request, site)
    # A save's own pool is spawned; packing workers for its rows are not its pool. Loky's workers are always its own.
    forced = None if packing and module != LOKY else site.forced_start_method(snapshot.libraries)
    if forced is not None:
        return StartMethodChoice(forced, "site")
    facts = snapshot.start_methods.of(module)
    default = facts.method if facts.method in facts.offered else None
    explicit, source = request.start_method, "argument"
    if packing and explicit in (None, AUTO) and settings.start_method is not None:
        explicit, source = settings.start_method, "environment"
    if explicit is None and not packing:
        return _by_default(default)
    hazards = fork_hazards(snapshot.process)
    if explicit not in (None, AUTO):
        return StartMethodChoice(explicit if explicit in facts.offered else None, source, hazards)
    if default != FORK or not (hazards or request.touches_accelerator):
        return StartMethodChoice(default, "default", hazards)
    clean = next((method for method in (FORKSERVER, SPAWN) if method in facts.offered), None)
    return StartMethodChoice(clean, "hazards", hazards)

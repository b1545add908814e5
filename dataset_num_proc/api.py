"""The steps composed: what people call at a map site.

One job: snapshot, settings and request in, answer out, with the warning or the log line that belongs to it. Rules are
in `policy`, the machine is in `machine`; nothing here decides or reads by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dataset_num_proc.errors import SettingsWarning, SiteError, UnsafeStartMethod
from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.machine.variables import chosen
from dataset_num_proc.notices import tell, warn
from dataset_num_proc.options import Options, known, measures
from dataset_num_proc.policy import encoding
from dataset_num_proc.policy.case import usable_cpus
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.policy.facts import FORK, Snapshot
from dataset_num_proc.policy.request import SETTINGS_VARIABLES, Request, Settings, Workload
from dataset_num_proc.policy.rules import decide
from dataset_num_proc.policy.start_method import StartMethodChoice, choose_start_method, starting_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import BaseContext

    from typing_extensions import Unpack


__all__ = ["decode", "encode", "mp_context", "num_proc", "plan", "take_snapshot", "workers"]


def num_proc(value: object = None, *, site: str | None = None, **options: Unpack[Options]) -> int | None:
    """The worker count for one call site, in that site's own words.

    Args:
        value: `None` or "auto" to choose, 0 or 1 for "in this process", else the count asked for (a ceiling, not a
            promise).
        site: where the answer goes, "map" unless said; see `dataset_num_proc.policy.encoding.SITES`.
        **options: see `Options`.

    Returns:
        What to hand to the site: `None` or at least 2 at a map site.

    Raises:
        TypeError, ValueError: `value` or an option is not what it should be; the message says what is accepted.
        SiteError: there is no such site, or it has no word for "in this process".

    Warns:
        WorkersReduced: fewer than asked for; the message names the bound (from local rank 0 only).
        SettingsWarning: an environment variable was ignored.
    """
    decision, snapshot, request = decided(value, site, options)
    return encoding.encode(decision, request.site, libraries=snapshot.libraries)


def plan(value: object = None, *, site: str | None = None, **options: Unpack[Options]) -> Decision:
    """The whole decision behind `num_proc`, with every reason. Same arguments, errors and warnings."""
    return decided(value, site, options)[0]


@contextmanager
def workers(
    value: object = None, *, site: str | None = None, start_method: str | None = None, **options: Unpack[Options]
) -> Iterator[int | None]:
    """A scope that decides, prepares for the workers, watches them, and puts everything back, on errors too.

    Inside it the children get their share of threads (where the user has set no limit); workers of pools also get
    default SIGTERM and SIGINT handlers, end with their parent, and are watched. Afterwards contexts and environment are
    as before, the C environment too.

    Args:
        value: as in `num_proc`.
        site: as in `num_proc`.
        start_method: a method to use inside the scope, or "auto" to take a clean one where a fork would be unsafe.
            `None` is `DATASET_NUM_PROC_START_METHOD`, else what is there.
        **options: see `Options`.

    Yields:
        What to hand to the site.

    Raises:
        ScopeBusy: another thread holds a scope with another start method.
        WorkerDied: a worker ended before its work did, or could not start; see `dataset_num_proc.watch`.
        TypeError, ValueError, SiteError: as in `num_proc`.

    Warns:
        StuckInTeardown: as in `dataset_num_proc.watch`.
    """
    from dataset_num_proc.machine.apply import applied
    from dataset_num_proc.watching import watch

    decision, snapshot, request = decided(value, site, options, start_method=start_method, scope=True)
    module = _process_module(request)
    chosen = decision.start_method if module and request.start_method is not None else None
    with (
        applied(
            workers=decision.workers,
            cpus=usable_cpus(snapshot)[0],
            start_method=chosen,
            module=module or encoding.MULTIPROCESSING,
        ),
        watch(decision=decision) if decision.workers else nullcontext(),
    ):
        yield encoding.encode(decision, request.site, libraries=snapshot.libraries)


def mp_context(
    start_method: str | None = None,
    *,
    site: str = "ms_swift.packing_num_proc",
    snapshot: Snapshot | None = None,
    settings: Settings | None = None,
) -> BaseContext:
    """A context object for workers of your own, by the rules for packing; no default context is set or pinned.

    Args:
        start_method: a method that you insist on; `None` chooses: forkserver or spawn where live state makes a fork
            unsafe.
        site: whose module to take the context from: `multiprocessing`'s, or `multiprocess`'s at a map site.
        snapshot: the machine, in place of a fresh reading.
        settings: the operator's word, in place of the environment.

    Raises:
        ValueError: the method is not offered here.
        SiteError: there is no such site, or it starts its workers in a way of its own.

    Warns:
        UnsafeStartMethod: an explicit fork is obeyed although live state makes it unsafe; the message lists what does.
    """
    snapshot, settings = snapshot or take_snapshot(), settings_or_environment(settings)
    row = encoding.site_named(site)
    request = Request.of(None, workload=Workload.PACKING, site=site, start_method=start_method)
    if row.module == encoding.LOKY:
        message = f"{site} starts its workers itself: there is no context to be had for it"
        raise SiteError(message, site=site)
    choice = choose_start_method(request, snapshot, settings, row, row.module)
    if choice.method is None:
        offered = ", ".join(snapshot.start_methods.of(row.module).offered)
        message = (
            f"start_method={start_method or settings.start_method!r}: {row.module} offers {offered or 'nothing'} here"
        )
        raise ValueError(message)
    _warn_of_fork(choice)
    from importlib import import_module

    context: BaseContext = import_module(row.module).get_context(choice.method)
    return context


def encode(decision: Decision, site: str = "map", *, snapshot: Snapshot | None = None) -> int | None:
    """`decision` in the words of `site`; see `dataset_num_proc.policy.encoding.encode`."""
    return encoding.encode(decision, site, libraries=(snapshot or take_snapshot()).libraries)


def decode(value: object, site: str = "map") -> Request:
    """The request that `value` makes at `site`; see `dataset_num_proc.policy.encoding.decode`."""
    return encoding.decode(value, site)


def decided(
    value: object, site: str | None, options: Options, *, start_method: str | None = None, scope: bool = False
) -> tuple[Decision, Snapshot, Request]:
    """The decision for these arguments, warned about and logged; with the snapshot and the request that made it."""
    fields: dict[str, Any] = known(options)
    snapshot, settings = fields.pop("snapshot", None), settings_or_environment(fields.pop("settings", None))
    function, dataset = fields.pop("function", None), fields.pop("dataset", None)
    if dataset is not None:
        fields = {**measures(dataset), **{name: said for name, said in fields.items() if said is not None}}
    method = start_method or (settings.start_method if scope else None)
    fields |= {name: said for name, said in (("site", site), ("start_method", method)) if said is not None}
    request = Request.of(value, **fields)
    snapshot = snapshot if snapshot is not None else take_snapshot(scan=_hazards_matter(request))
    decision = decide(request, snapshot, settings)
    module, fresh = _process_module(request), decision.workers and decision.start_method != FORK
    if function is not None and module is not None and fresh and request.spawn_ready is None:
        request = _checked_for_spawn(request, function, module)
        decision = decide(request, snapshot, settings)
    tell(decision, request.site, snapshot.process.local_rank)
    if decision.workers and (request.start_method is not None or request.workload is Workload.PACKING):
        _warn_of_fork(choose_start_method(request, snapshot, settings, encoding.site_named(request.site)))
    return decision, snapshot, request


def _warn_of_fork(choice: StartMethodChoice) -> None:
    """A warning where somebody insists on a fork that live state makes unsafe."""
    if choice.obeyed_against_hazards:
        message = (
            f"fork was asked for, but {'; '.join(choice.hazards)}. Children may hang: forkserver and spawn are clean."
        )
        warn(message, UnsafeStartMethod)


def _hazards_matter(request: Request) -> bool:
    """Whether the start method is more than the default one: then the state of this process bears on the answer."""
    chosen = request.workload is Workload.PACKING or request.start_method is not None
    return chosen or request.touches_accelerator or encoding.site_named(request.site).spawns_since is not None


def settings_or_environment(settings: Settings | None) -> Settings:
    """The settings given, or those of the environment, with a warning for each variable that was ignored."""
    if settings is not None:
        return settings
    settings = Settings.from_environ(chosen(os.environ, SETTINGS_VARIABLES))
    for ignored in settings.ignored:
        warn(f"{ignored.variable}={ignored.text!r} is ignored: accepted is {ignored.accepted}", SettingsWarning)
    return settings


def _process_module(request: Request) -> str | None:
    """The process module that starts the workers; `None` where the site has a way of its own, and its own pickler."""
    module = starting_module(request, encoding.site_named(request.site))
    return None if module == encoding.LOKY else module


def _checked_for_spawn(request: Request, function: Callable[..., Any], module: str) -> Request:
    """`request` with what a fresh interpreter of `module` could make of `function`."""
    from dataset_num_proc.machine.main_module import importable, pickles

    problem = importable(function) or pickles(function, module)
    return replace(request, spawn_ready=problem is None, spawn_problem=problem)

"""The dialect table: a decision in a call site's own words, and back.

One job: `None` means "no workers" to one reader, "choose for me" to another and "every core" to a third; 1 is a pool
of one at some, "in this process" at others. Each row of `SITES` says what its reader does, and `encode` and `decode`
follow the row. As read in the sources of datasets 3.4.1–5.2.0, and of the other projects in autumn 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from dataset_num_proc.errors import SiteError
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.policy.facts import SPAWN, LibraryFacts
from dataset_num_proc.policy.request import Request

Version = tuple[int, ...]
NoneMeans = Literal["in-process", "choose", "invalid"]
MULTIPROCESS, MULTIPROCESSING = "multiprocess", "multiprocessing"
LOKY = "loky"
"""joblib's module and its start method: fresh interpreters that need no guard in the main module."""

POOL_OF_ONE_SINCE = (4, 1)
"""`Dataset.map(num_proc=1)` builds a pool of one from datasets 4.1.0 on (#7702)."""
SPAWNED_SAVE_SINCE = (4, 8)
"""`save_to_disk` and `push_to_hub` spawn from datasets 4.8.0 on (#8064), whatever the default is."""
MAP_CACHE_KEEPS_COUNT_BEFORE = (4, 0)
"""`Dataset.map` finds the cache of a run with another count from datasets 4.0.0 on (#7434)."""
EVERY: Version = (0,)


@dataclass(frozen=True, slots=True)
class Site:
    """One call site.

    Attributes:
        name: as given to `site=`.
        in_process: its word for "in this process"; where it has none, `sayable_before` says so.
        none_means: what its reader makes of `None`: "in-process", "choose" (sized by its own rule) or "invalid".
        one_means: what its reader makes of 1, for people.
        module: the module that starts its workers.
        also_module: another module that it starts workers by, such as those of the download step of `load_dataset`.
        is_config: whether the value is recorded in a configuration and read later, by other code.
        sayable_before: the `datasets` release from which on "in this process" cannot be said; `None` means it always
            can, and (0,) that it never could.
        spawns_since: the `datasets` release from which on its pool is spawned whatever the default method is.
        count_in_cache_key: the `datasets` release before which the count is part of the cache key; `None` is never.
    """

    name: str
    in_process: int | None
    none_means: NoneMeans
    one_means: str
    module: str = MULTIPROCESS
    also_module: str | None = None
    is_config: bool = False
    sayable_before: Version | None = None
    spawns_since: Version | None = None
    count_in_cache_key: Version | None = None

    def forced_start_method(self, libraries: LibraryFacts) -> str | None:
        """The start method that this site uses whatever the module's default is."""
        if self.module == LOKY:
            return LOKY
        return SPAWN if self.spawns_since is not None and libraries.datasets_version >= self.spawns_since else None

    def keeps_count(self, libraries: LibraryFacts) -> bool:
        """Whether another count throws this site's cache away."""
        return self.count_in_cache_key is not None and libraries.datasets_version < self.count_in_cache_key

    def says_in_process(self, libraries: LibraryFacts) -> bool:
        """Whether "in this process" can be said."""
        return self.sayable_before is None or libraries.datasets_version < self.sayable_before


ALWAYS = (1 << 30,)
_POOL_OF_ONE = "a pool of one from datasets 4.1 on"
_IN_PROCESS = "in this process"
_RECENTLY_IN_PROCESS = "in this process on recent releases, a pool of one on older"


def _map(name: str, in_process: int | None = None, **fields: Any) -> Site:  # noqa: ANN401 - fields of `Site`
    """A row whose value ends up at `Dataset.map`."""
    fields = {
        "none_means": "in-process",
        "one_means": _POOL_OF_ONE,
        "count_in_cache_key": MAP_CACHE_KEEPS_COUNT_BEFORE,
        **fields,
    }
    return Site(name, in_process, **fields)


def _stdlib(name: str, in_process: int | None, none_means: NoneMeans, one_means: str, **fields: Any) -> Site:  # noqa: ANN401 - as above
    """A row whose workers come from the standard library."""
    return Site(name, in_process, none_means, one_means, module=MULTIPROCESSING, **fields)


_ROWS = (
    _map("map"),
    _map("filter", count_in_cache_key=ALWAYS),
    _map("batch", count_in_cache_key=ALWAYS),
    _map("flatten_indices", count_in_cache_key=ALWAYS),
    Site("load_dataset", None, "in-process", _IN_PROCESS, also_module=MULTIPROCESSING),
    Site("save_to_disk", None, "in-process", _POOL_OF_ONE, spawns_since=SPAWNED_SAVE_SINCE),
    Site("push_to_hub", None, "in-process", _POOL_OF_ONE, spawns_since=SPAWNED_SAVE_SINCE),
    _stdlib("to_json", None, "in-process", _IN_PROCESS),
    _stdlib("to_csv", None, "in-process", _IN_PROCESS),
    _stdlib("to_sql", None, "in-process", _IN_PROCESS),
    _map("trl.config", is_config=True),
    _map("unsloth.sft_config", 1, none_means="choose", one_means=_IN_PROCESS, is_config=True),
    _map("unsloth.config", is_config=True),
    _map("unsloth.responses_only", 1, none_means="choose", one_means=_RECENTLY_IN_PROCESS, is_config=True),
    _map("axolotl.config", 1, none_means="choose", is_config=True),
    _stdlib("axolotl.multipack", 1, "invalid", _IN_PROCESS),
    # One value for `load_dataset`, which starts workers by both modules, and for `map`.
    _map(
        "ms_swift.dataset_num_proc",
        1,
        none_means="invalid",
        is_config=True,
        sayable_before=POOL_OF_ONE_SINCE,
        also_module=MULTIPROCESSING,
    ),
    _stdlib("ms_swift.packing_num_proc", 1, "invalid", "one process", is_config=True, sayable_before=EVERY),
    _stdlib("dataloader", 0, "invalid", "one worker"),
    Site("joblib", 1, "in-process", "sequential", module=LOKY),
    _stdlib("executor", 1, "choose", "one worker", sayable_before=EVERY),
)
SITES: dict[str, Site] = {row.name: row for row in _ROWS}
"""Every call site by name. `executor` and the packing sites have a nearest value, 1, that is one worker."""


def site_named(name: str) -> Site:
    """The row named `name`.

    Raises:
        SiteError: there is none; the message lists those there are.
    """
    site = SITES.get(name)
    if site is None:
        close = get_close_matches(str(name), SITES, n=1, cutoff=0.5)
        hint = f" (did you mean {close[0]}?)" if close else ""
        message = f"site={name!r}{hint}: accepted is one of {', '.join(SITES)}"
        raise SiteError(message, site=str(name))
    return site


def encode(decision: Decision, site: str = "map", *, libraries: LibraryFacts | None = None) -> int | None:
    """The decision in the words of `site`: what to hand to its `num_proc` (or whatever it calls it).

    Args:
        decision: the answer.
        site: name of the call site.
        libraries: installed versions; the newest known `datasets` where not given.

    Raises:
        SiteError: the site has no word for the answer; the message names the nearest value that it can take.
    """
    row = site_named(site)
    if decision.workers:
        return decision.workers
    if not row.says_in_process(libraries or LibraryFacts()):
        message = (
            f"{site} cannot say “in this process”: the nearest value that it takes is {row.in_process}, "
            f"{row.one_means}. To take it: `except SiteError as error: value = error.nearest`."
        )
        raise SiteError(message, site=site, nearest=row.in_process)
    return row.in_process


def decode(value: object, site: str = "map") -> Request:
    """The request that `value` makes where it stands at `site`: the inverse of `encode`.

    Raises:
        SiteError: there is no such site.
        TypeError, ValueError: `value` is not a worker count, as in `Request.of`.
    """
    row = site_named(site)
    if value is None:
        return Request(workers=0 if row.none_means == "in-process" else None, site=site)
    if row.name == "joblib" and isinstance(value, int) and value < 0:
        return Request(site=site)  # joblib counts negative numbers down from every cpu
    return Request.of(value, site=site)

"""The dialect table: a decision in each call site's own words, and back."""

from __future__ import annotations

import pickle

import pytest

from dataset_num_proc.errors import SiteError
from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode
from dataset_num_proc.policy.encoding import SITES, decode, encode, site_named
from dataset_num_proc.policy.facts import LibraryFacts, MainModule
from dataset_num_proc.policy.request import Request
from dataset_num_proc.policy.rules import decide
from tests.values import machine, starts

OLD, NEW = LibraryFacts(datasets="4.0.0"), LibraryFacts(datasets="5.2.0")
ALONE = Decision(0, "fork", (Reason(ReasonCode.CPUS, 0),))

IN_PROCESS: dict[str, int | None] = {
    **dict.fromkeys(("map", "filter", "batch", "flatten_indices", "load_dataset")),
    **dict.fromkeys(("save_to_disk", "push_to_hub", "to_json", "to_csv", "to_sql")),
    **dict.fromkeys(("trl.config", "unsloth.config")),
    "unsloth.sft_config": 1,
    "unsloth.responses_only": 1,
    "axolotl.config": 1,
    "axolotl.multipack": 1,
    "dataloader": 0,
    "joblib": 1,
}
"""How each site that can say it spells "in this process"."""
UNSAYABLE = {"ms_swift.dataset_num_proc", "ms_swift.packing_num_proc", "executor"}
CHOOSES = {"unsloth.sft_config", "unsloth.responses_only", "axolotl.config", "executor"}
STANDARD = {
    *("to_json", "to_csv", "to_sql"),
    *("axolotl.multipack", "ms_swift.packing_num_proc", "dataloader", "joblib", "executor"),
}


def workers(count: int) -> Decision:
    """A decision for this many workers."""
    return Decision(count, "fork", (Reason(ReasonCode.ASKED, count),))


def test_the_table_is_whole() -> None:
    """Every site either has a word for "in this process" or is known to have none."""
    assert set(SITES) == set(IN_PROCESS) | UNSAYABLE
    assert all(row.name == name for name, row in SITES.items())


@pytest.mark.parametrize(("site", "word"), IN_PROCESS.items())
def test_in_process(site: str, word: int | None) -> None:
    """Each site has its own word: `None` to map, 1 where `None` would be sized, 0 to a DataLoader."""
    assert encode(ALONE, site, libraries=NEW) == word


@pytest.mark.parametrize("site", SITES)
def test_workers_are_themselves(site: str) -> None:
    """Any number of workers is that number, at every site."""
    assert encode(workers(2), site, libraries=NEW) == 2
    assert encode(workers(48), site) == 48


@pytest.mark.parametrize("site", sorted(UNSAYABLE))
def test_what_cannot_be_said(site: str) -> None:
    """A site without a word for it raises, naming itself and the nearest value that it takes; the error pickles."""
    with pytest.raises(SiteError, match=site) as caught:
        encode(ALONE, site, libraries=NEW)
    assert (caught.value.site, caught.value.nearest) == (site, 1)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - written in this line
    assert (str(again), again.site, again.nearest) == (str(caught.value), site, 1)


def test_ms_swift_could_say_it_once() -> None:
    """ms-swift's value means "in this process" at 1 only where `map` takes 1 for that: before datasets 4.1."""
    site = "ms_swift.dataset_num_proc"
    assert encode(ALONE, site, libraries=OLD) == 1
    for release in ("4.1.0", "4.1.0.dev0", None):
        with pytest.raises(SiteError):
            encode(ALONE, site, libraries=LibraryFacts(datasets=release))
    with pytest.raises(SiteError):
        encode(ALONE, site)


@pytest.mark.parametrize("site", SITES)
def test_none_read_back(site: str) -> None:
    """`None` is "in this process" to some readers, and a free choice to others and where it is no value."""
    expected = 0 if IN_PROCESS.get(site, 1) is None or site == "joblib" else None
    assert decode(None, site) == Request(workers=expected, site=site)
    assert (SITES[site].none_means == "choose") == (site in CHOOSES)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(("value", "count"), [(0, 0), (1, 0), (2, 2), ("8", 8), ("auto", None)])
def test_values_read_back(site: str, value: object, count: int | None) -> None:
    """Every other value is the request that it would be anywhere, at that site."""
    assert decode(value, site) == Request(workers=count, site=site)


def test_joblib_counts_down() -> None:
    """The negative numbers of joblib are counted down from every cpu: a free choice; elsewhere they are refused."""
    assert decode(-1, "joblib") == Request(site="joblib")
    with pytest.raises(ValueError, match="-1"):
        decode(-1, "map")
    with pytest.raises(TypeError):
        decode(1.5, "joblib")


@pytest.mark.parametrize("site", sorted(IN_PROCESS))
@pytest.mark.parametrize("count", [0, 2, 7, 48])
def test_round_trip(site: str, count: int) -> None:
    """What is written in a site's words and read back there is decided to the same count."""
    decision = workers(count) if count else ALONE
    request = decode(encode(decision, site, libraries=NEW), site)
    guarded = machine("fork")
    assert decide(request, guarded).workers == count


def test_unknown_sites() -> None:
    """A site that is not in the table is refused by all three, with the list of those that are."""
    for ask in (lambda: site_named("kitchen"), lambda: encode(ALONE, "kitchen"), lambda: decode(4, "kitchen")):
        with pytest.raises(SiteError, match=r"'kitchen'.*map, filter") as caught:
            ask()
        assert caught.value.nearest is None


@pytest.mark.parametrize("site", SITES)
def test_modules(site: str) -> None:
    """Maps and what is handed on to them start from `multiprocess`; exports and executors do not; joblib has loky."""
    expected = "loky" if site == "joblib" else "multiprocessing" if site in STANDARD else "multiprocess"
    assert SITES[site].module == expected


@pytest.mark.parametrize(
    ("site", "release", "method"),
    [
        ("save_to_disk", "4.7.0", None),
        ("save_to_disk", "4.8.0", "spawn"),
        ("push_to_hub", "5.2.0", "spawn"),
        ("push_to_hub", None, "spawn"),
        ("map", "5.2.0", None),
        ("to_json", "5.2.0", None),
    ],
)
def test_sites_that_spawn(site: str, release: str | None, method: str | None) -> None:
    """`save_to_disk` and `push_to_hub` spawn from datasets 4.8 on, whatever the default is; nothing else does."""
    assert SITES[site].forced_start_method(LibraryFacts(datasets=release)) == method


@pytest.mark.parametrize(
    ("site", "release", "keeps"),
    [
        ("map", "3.6.0", True),
        ("map", "4.0.0", False),
        ("filter", "3.6.0", True),
        ("filter", "5.2.0", True),
        ("batch", "5.2.0", True),
        ("flatten_indices", "5.2.0", True),
        ("save_to_disk", "5.2.0", False),
    ],
)
def test_counts_in_cache_keys(site: str, release: str, *, keeps: bool) -> None:
    """Another count throws a filter's cache away on every release, and a map's before datasets 4.0."""
    assert SITES[site].keeps_count(LibraryFacts(datasets=release)) is keeps


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("5.2.0", (5, 2, 0)),
        ("4.0.0.dev1", (4, 0, 0)),
        ("4.1.0rc2", (4, 1, 0)),
        ("3", (3,)),
        (None, (5, 2, 0)),
        ("unknown", (5, 2, 0)),
    ],
)
def test_versions(text: str | None, version: tuple[int, ...]) -> None:
    """A release is its leading numbers; without one the newest known behaviour is taken."""
    assert LibraryFacts(datasets=text).datasets_version == version


def test_each_module_has_its_own_facts() -> None:
    """The two modules' start methods are never merged."""
    methods = machine(multiprocess="fork", multiprocessing=starts("spawn", pinned=True)).start_methods
    assert (methods.of("multiprocess").method, methods.of("multiprocessing").method) == ("fork", "spawn")


def test_joblib_starts_fresh_interpreters_of_its_own() -> None:
    """Loky neither forks nor needs a guard: what forbids either does not bear on joblib's workers."""
    unsafe = machine("fork", accelerators=frozenset({"xpu"}), main=MainModule.UNGUARDED)
    decision = decide(Request(workers=8, site="joblib"), unsafe)
    assert (decision.workers, decision.start_method) == (8, "loky")

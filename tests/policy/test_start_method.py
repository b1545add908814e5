"""Which start method, and what forbids a fork."""

from __future__ import annotations

from typing import Any

import pytest

from dataset_num_proc.policy.encoding import SITES
from dataset_num_proc.policy.facts import ProcessFacts, Snapshot
from dataset_num_proc.policy.request import Request, Settings, Workload
from dataset_num_proc.policy.start_method import StartMethodChoice, choose_start_method, fork_hazards
from tests.values import machine, starts

CUDA = frozenset({"cuda"})
CUDA_UP = "cuda is initialised"


def chosen(snapshot: Snapshot, settings: Settings | None = None, **fields: Any) -> StartMethodChoice:  # noqa: ANN401
    """The choice for a request with these fields."""
    request = Request.of(None, **fields)
    return choose_start_method(request, snapshot, settings or Settings(), SITES[request.site])


@pytest.mark.parametrize(
    ("facts", "hazards"),
    [
        ({}, ()),
        ({"accelerators": CUDA}, ("cuda is initialised",)),
        (
            {"accelerators": frozenset({"xpu", "/dev/nvidia0"})},
            ("/dev/nvidia0 is open", "xpu is initialised"),
        ),
        ({"distributed": True}, ("a collective runtime (torch.distributed, DeepSpeed or NCCL) is up",)),
        ({"runtimes": frozenset({"ray"})}, ("ray is running",)),
        ({"threads": 9, "python_threads": 1}, ("native threads: 8",)),
        ({"threads": 3, "python_threads": 3}, ()),
        ({"threads": None, "python_threads": 1}, ()),
        ({"threads": 9, "python_threads": None}, ()),
        ({"platform": "darwin"}, ("macOS kills forked children of threaded processes",)),
    ],
)
def test_fork_hazards(facts: dict[str, Any], hazards: tuple[str, ...]) -> None:
    """Each live state that does not survive a fork is named; unknown counts and Python's own threads are none."""
    assert fork_hazards(ProcessFacts(**facts)) == hazards


def test_hazards_add_up() -> None:
    """All hazards are listed, not the first."""
    process = ProcessFacts(
        accelerators=CUDA, distributed=True, runtimes=frozenset({"ray"}), threads=5, platform="darwin"
    )
    assert len(fork_hazards(process)) == 5


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", None])
def test_map_takes_what_is_there(method: str | None) -> None:
    """A map that leaves the choice alone uses the method of `multiprocess`, whatever else is set or up."""
    snapshot = machine(multiprocess=method, multiprocessing="spawn", accelerators=CUDA)
    assert chosen(snapshot) == StartMethodChoice(method, "default")


@pytest.mark.parametrize(
    ("site", "release", "expected"),
    [
        ("save_to_disk", "5.2.0", ("spawn", "site")),
        ("push_to_hub", "4.8.0", ("spawn", "site")),
        ("save_to_disk", "4.7.0", ("fork", "default")),
        ("to_json", "5.2.0", ("forkserver", "default")),
        ("map", "5.2.0", ("fork", "default")),
    ],
)
def test_sites_ask_their_own_module(site: str, release: str, expected: tuple[str, str]) -> None:
    """A save is spawned from datasets 4.8 on, exports ask `multiprocessing`, maps ask `multiprocess`."""
    snapshot = machine(multiprocess="fork", multiprocessing="forkserver", datasets=release)
    choice = chosen(snapshot, site=site)
    assert (choice.method, choice.source) == expected


def test_a_site_that_spawns_overrules_an_argument() -> None:
    """`save_to_disk` names its own method, so no argument can change it."""
    assert chosen(machine(), site="save_to_disk", start_method="fork") == StartMethodChoice("spawn", "site")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_an_argument_is_obeyed(method: str) -> None:
    """An explicit method is taken where it is offered."""
    assert chosen(machine(), start_method=method) == StartMethodChoice(method, "argument")


def test_a_method_that_is_not_offered() -> None:
    """An explicit method that the module does not offer is no method: fork on Windows."""
    windows = machine(starts("spawn", offered=("spawn",)), platform="win32")
    assert chosen(windows, start_method="fork") == StartMethodChoice(None, "argument")


def test_explicit_fork_against_hazards() -> None:
    """An explicit fork in an unsafe state is obeyed, with the hazards; a default one, or a clean one, is not marked."""
    choice = chosen(machine(accelerators=CUDA), start_method="fork")
    assert choice == StartMethodChoice("fork", "argument", (CUDA_UP,))
    assert choice.obeyed_against_hazards
    assert not chosen(machine(), start_method="fork").obeyed_against_hazards
    assert not chosen(machine(accelerators=CUDA), start_method="spawn").obeyed_against_hazards
    assert not chosen(machine(accelerators=CUDA)).obeyed_against_hazards


@pytest.mark.parametrize(
    ("offered", "method"),
    [(("fork", "spawn", "forkserver"), "forkserver"), (("fork", "spawn"), "spawn"), (("fork",), None)],
)
@pytest.mark.parametrize("fields", [{"start_method": "auto"}, {"workload": Workload.PACKING}])
def test_a_clean_method_where_fork_is_unsafe(
    offered: tuple[str, ...], method: str | None, fields: dict[str, Any]
) -> None:
    """Left to choose with a hazard up: forkserver, else spawn, never fork silently."""
    facts = starts("fork", offered=offered)
    snapshot = machine(multiprocess=facts, multiprocessing=facts, accelerators=CUDA)
    assert chosen(snapshot, **fields) == StartMethodChoice(method, "hazards", (CUDA_UP,))


def test_a_function_on_an_accelerator_needs_a_clean_method() -> None:
    """A function that will use the accelerator in its workers is no work for forked ones, though nothing is up yet."""
    assert chosen(machine(), start_method="auto", touches_accelerator=True).method == "forkserver"


@pytest.mark.parametrize("fields", [{"start_method": "auto"}, {"workload": "packing"}])
def test_the_platforms_method_where_nothing_forbids_it(fields: dict[str, Any]) -> None:
    """Left to choose with nothing up: the platform's own method."""
    assert chosen(machine("fork"), **fields) == StartMethodChoice("fork", "default")
    spawning = machine("spawn", accelerators=CUDA)
    assert chosen(spawning, **fields) == StartMethodChoice("spawn", "default", (CUDA_UP,))


def test_the_variable_is_for_packing() -> None:
    """The operator's method is taken for packing, below an explicit argument; a map outside a scope cannot apply it."""
    settings = Settings(start_method="spawn")
    assert chosen(machine(), settings, workload="packing") == StartMethodChoice("spawn", "environment")
    assert chosen(machine(), settings, workload="packing", start_method="auto").source == "environment"
    assert chosen(machine(), settings, workload="packing", start_method="fork").method == "fork"
    assert chosen(machine(), settings) == StartMethodChoice("fork", "default")
    against = chosen(machine(accelerators=CUDA), Settings(start_method="fork"), workload="packing")
    assert against.obeyed_against_hazards

"""The rules one by one: what each says, when it is silent, and their order."""

from __future__ import annotations

from typing import Any

import pytest

from dataset_num_proc.errors import SiteError
from dataset_num_proc.policy.cost import Profile
from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode
from dataset_num_proc.policy.facts import CpuFacts, MainModule, MemoryFacts, ProcessFacts, Snapshot
from dataset_num_proc.policy.request import Request, Settings
from dataset_num_proc.policy.rules import decide
from tests.values import GIB, MIB, answer, limits, machine, starts

PER_MAP = Profile(wall_seconds_per_row=2e-3, cpu_seconds_per_row=2e-3)
FILE = {"main": MainModule.FILE}


def bound(decision: Decision) -> tuple[int, ReasonCode]:
    """The answer and the rule that made it."""
    return decision.workers, decision.binding.code


# --- override -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("override", [0, 2, 16, 1000])
@pytest.mark.parametrize("asked", [None, 0, 4])
def test_override_is_verbatim(override: int, asked: int | None) -> None:
    """The operator's count passes every cap, veto and bound, with its source."""
    poor = machine("spawn", host=1, affinity=1, available=0, pids_free=0, main=MainModule.STDIN)
    settings = Settings(override=override, override_source="DATASET_NUM_PROC")
    decision = answer(asked, poor, settings, rows=1, side_effects=True)
    assert bound(decision) == (override, ReasonCode.OVERRIDE)
    assert decision.binding.seen == {"source": "DATASET_NUM_PROC"}
    assert not decision.reduced


def test_override_of_one_is_in_process() -> None:
    """An override of 1 is "in this process", never a pool of one."""
    assert bound(answer(16, settings=Settings(override=1))) == (0, ReasonCode.OVERRIDE)


@pytest.mark.parametrize(
    ("facts", "fields", "expected"),
    [
        ({"daemonic": {"multiprocess": True}}, {}, (0, ReasonCode.DAEMONIC)),
        ({"daemonic": {"multiprocessing": True}}, {}, (100, ReasonCode.OVERRIDE)),
        ({"importing": "prepare"}, {}, (0, ReasonCode.IMPORTING)),
        ({}, {"streaming": True}, (0, ReasonCode.STREAMING)),
        ({"platform": "win32"}, {}, (60, ReasonCode.WINDOWS_HANDLES)),
    ],
)
def test_override_that_cannot_run(
    facts: dict[str, Any], fields: dict[str, Any], expected: tuple[int, ReasonCode]
) -> None:
    """Only what cannot run at all is refused, and the answer says so, with the count that was wanted."""
    decision = answer(None, machine(**facts), Settings(override=100), **fields)
    assert bound(decision) == expected
    assert decision.asked == 100
    assert decision.reduced == (expected[0] < 100)


def test_override_that_fits_windows() -> None:
    """What Windows can wait on is not lowered, nor is "in this process" refused to a daemon."""
    assert answer(None, machine("spawn", platform="win32"), Settings(override=60)).workers == 60
    assert bound(answer(4, machine(daemonic={"multiprocess": True}), Settings(override=0))) == (0, ReasonCode.OVERRIDE)


# --- vetoes ---------------------------------------------------------------------------------------------------------

VETOES: list[tuple[str, dict[str, Any], dict[str, Any], ReasonCode, dict[str, Any]]] = [
    ("fork", {}, {"side_effects": True}, ReasonCode.SIDE_EFFECTS, {}),
    ("fork", {}, {"streaming": True}, ReasonCode.STREAMING, {}),
    ("fork", {"daemonic": {"multiprocess": True}}, {}, ReasonCode.DAEMONIC, {"module": "multiprocess"}),
    (
        "fork",
        {"daemonic": {"multiprocessing": True}},
        {"site": "to_json"},
        ReasonCode.DAEMONIC,
        {"module": "multiprocessing"},
    ),
    ("fork", {"importing": "prepare"}, {}, ReasonCode.IMPORTING, {"module": "prepare"}),
    (
        "fork",
        {"multiprocess": starts(None)},
        {},
        ReasonCode.NO_START_METHOD,
        {"module": "multiprocess", "asked": None},
    ),
    (
        "fork",
        {"multiprocess": starts("fork", offered=("fork",))},
        {"start_method": "spawn"},
        ReasonCode.NO_START_METHOD,
        {"module": "multiprocess", "asked": "spawn"},
    ),
    (
        "spawn",
        {"main": MainModule.UNGUARDED, "main_file": "train.py", "main_line": 12},
        {},
        ReasonCode.SPAWN_NOT_READY,
        {"start_method": "spawn", "main": "unguarded", "file": "train.py", "line": 12, "function": None},
    ),
    (
        "forkserver",
        {"main": MainModule.INTERACTIVE},
        {},
        ReasonCode.SPAWN_NOT_READY,
        {"start_method": "forkserver", "main": "interactive", "file": None, "line": None, "function": None},
    ),
    (
        "spawn",
        FILE,
        {"spawn_ready": False},
        ReasonCode.SPAWN_NOT_READY,
        {
            "start_method": "spawn",
            "main": "file",
            "file": None,
            "line": None,
            "function": "the function cannot be sent to a fresh interpreter",
        },
    ),
    (
        "spawn",
        FILE,
        {"spawn_ready": False, "spawn_problem": "does not pickle: f.client (SSLContext)"},
        ReasonCode.SPAWN_NOT_READY,
        {
            "start_method": "spawn",
            "main": "file",
            "file": None,
            "line": None,
            "function": "does not pickle: f.client (SSLContext)",
        },
    ),
    ("fork", {"platform": "darwin"}, {}, ReasonCode.MACOS_FORK, {}),
    ("fork", {"accelerators": frozenset({"xpu"})}, {}, ReasonCode.XPU_FORK, {}),
    (
        "fork",
        {"accelerators": frozenset({"cuda", "/dev/nvidia0"})},
        {"touches_accelerator": True},
        ReasonCode.ACCELERATOR_FORK,
        {"initialised": ["/dev/nvidia0", "cuda"]},
    ),
]


@pytest.mark.parametrize(("method", "facts", "fields", "code", "seen"), VETOES)
@pytest.mark.parametrize("asked", [None, 16])
def test_vetoes(  # noqa: PLR0913, PLR0917 - one argument a column
    asked: int | None,
    method: str,
    facts: dict[str, Any],
    fields: dict[str, Any],
    code: ReasonCode,
    seen: dict[str, Any],
) -> None:
    """Each veto ends it, asked or not, names what it saw, and does not hide what was asked."""
    decision = answer(asked, machine(method, **facts), **fields)
    assert decision.workers == 0
    assert decision.binding == Reason(code, 0, seen)
    assert decision.asked == asked
    assert decision.reduced == (asked is not None)


@pytest.mark.parametrize("value", [0, 1, "1"])
def test_in_process_on_request(value: object) -> None:
    """0 and 1 are in this process; that is what was asked for, so nothing was reduced."""
    decision = answer(value)
    assert decision.binding == Reason(ReasonCode.IN_PROCESS, 0, {"asked": 0})
    assert not decision.reduced


@pytest.mark.parametrize(
    ("method", "facts", "fields"),
    [
        ("fork", {"daemonic": {"multiprocessing": True}}, {}),
        ("fork", {"daemonic": {"multiprocess": True}}, {"site": "to_json"}),
        ("fork", {"main": MainModule.STDIN}, {}),
        ("spawn", {"main": MainModule.MODULE}, {}),
        ("spawn", FILE, {"spawn_ready": True}),
        ("forkserver", FILE, {}),
        ("spawn", {"main": MainModule.UNGUARDED}, {"workload": "packing"}),
        ("spawn", {"platform": "darwin", **FILE}, {}),
        ("spawn", {"accelerators": frozenset({"xpu"}), **FILE}, {"touches_accelerator": True}),
        ("fork", {"accelerators": frozenset({"cuda"})}, {}),
        ("fork", {"accelerators": frozenset({"xpu"}), **FILE}, {"start_method": "spawn"}),
        ("fork", {}, {"touches_accelerator": True}),
        ("fork", {"multiprocess": starts("fork", offered=("fork",))}, {}),
    ],
)
def test_no_veto(method: str, facts: dict[str, Any], fields: dict[str, Any]) -> None:
    """The near misses of each veto are given their workers."""
    assert answer(6, machine(method, **facts), **fields).workers == 6


def test_the_first_veto_ends_it() -> None:
    """Of several vetoes the first in order is the answer, and no ceiling is asked."""
    everything = machine(
        "fork", platform="darwin", daemonic={"multiprocess": True}, importing="m", accelerators=frozenset({"xpu"})
    )
    decision = answer(None, everything, side_effects=True, streaming=True)
    assert [reason.code for reason in decision.reasons] == [ReasonCode.SIDE_EFFECTS]


# --- ceilings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "ranks", "own", "limit"),
    [
        (CpuFacts(host=1), 1, False, 0),
        (CpuFacts(host=2), 1, False, 2),
        (CpuFacts(host=3), 1, False, 2),
        (CpuFacts(host=5), 1, False, 2),
        (CpuFacts(host=6), 1, False, 3),
        (CpuFacts(host=12), 1, False, 6),
        (CpuFacts(host=128, affinity=4), 1, False, 2),
        (CpuFacts(host=64, quota=0.5), 1, False, 0),
        (CpuFacts(host=64, quota=1.9), 1, False, 0),
        (CpuFacts(host=64, quota=2.5), 1, False, 2),
        (CpuFacts(host=64, quota=7.99), 1, False, 3),
        (CpuFacts(host=64, declared={"SLURM_CPUS_PER_TASK": 8, "PYTHON_CPU_COUNT": 6}), 1, False, 3),
        (CpuFacts(host=4, declared={"NSLOTS": 64}), 1, False, 2),
        (CpuFacts(host=64, declared={"NSLOTS": 0}), 1, False, 0),
        (CpuFacts(affinity=16), 1, False, 8),
        (CpuFacts(), 1, False, 0),
        (CpuFacts(host=16, affinity=16), 8, False, 2),
        (CpuFacts(host=16, affinity=16), 16, False, 0),
        (CpuFacts(host=8), 16, False, 0),
        (CpuFacts(host=64, affinity=8), 8, True, 4),
        (CpuFacts(host=64, affinity=8, declared={"SLURM_CPUS_PER_TASK": 6}), 8, True, 3),
        (CpuFacts(host=64, affinity=64, quota=16.0), 8, True, 2),
        (CpuFacts(host=64, affinity=8), 8, False, 0),
    ],
)
def test_cpus(cpu: CpuFacts, ranks: int, limit: int, *, own: bool) -> None:
    """Half of this rank's share of the least figure, two at least; on one cpu, or where nothing is known, none."""
    process = ProcessFacts(local_world_size=ranks, cpus_per_rank=own)
    snapshot = Snapshot(cpu=cpu, memory=MemoryFacts(available=512 * GIB), process=process)
    assert limits(answer(None, snapshot, Settings(auto_cap=1000)))[ReasonCode.CPUS] == limit
    assert ReasonCode.CPUS not in limits(answer(16, snapshot))
    assert ReasonCode.CPUS not in limits(answer(None, snapshot, profile=PER_MAP, rows=10))


def test_cpus_names_its_figures() -> None:
    """The reason holds every figure by name, the ranks, and what remained."""
    snapshot = machine(host=64, affinity=32, quota=16.5, declared={"NSLOTS": 12}, local_world_size=2)
    (reason,) = [reason for reason in answer(None, snapshot).reasons if reason.code is ReasonCode.CPUS]
    assert reason.seen == {"host": 64, "affinity": 32, "quota": 16.5, "NSLOTS": 12, "local_ranks": 2, "usable": 6}


@pytest.mark.parametrize(
    ("memory", "ranks", "limit", "source"),
    [
        (MemoryFacts(available=16 * GIB), 1, 8, "MemAvailable"),
        (MemoryFacts(available=16 * GIB - 1), 1, 7, "MemAvailable"),
        (MemoryFacts(available=4 * GIB - 1), 1, 0, "MemAvailable"),
        (MemoryFacts(available=0), 1, 0, "MemAvailable"),
        (MemoryFacts(available=512 * GIB, headroom=6 * GIB, headroom_source="memory.max"), 1, 3, "memory.max"),
        (MemoryFacts(available=512 * GIB, headroom=6 * GIB), 1, 3, "control group"),
        (MemoryFacts(available=6 * GIB, headroom=64 * GIB, headroom_source="memory.max"), 1, 3, "MemAvailable"),
        (MemoryFacts(headroom=8 * GIB, headroom_source="memory.high"), 1, 4, "memory.high"),
        (MemoryFacts(available=64 * GIB, declared={"SLURM_MEM_PER_NODE": 10 * GIB}), 1, 5, "SLURM_MEM_PER_NODE"),
        (MemoryFacts(available=64 * GIB, declared={"SLURM_MEM_PER_NODE": 128 * GIB}), 1, 32, "MemAvailable"),
        (MemoryFacts(declared={"SLURM_MEM_PER_NODE": 10 * GIB}), 1, 5, "SLURM_MEM_PER_NODE"),
        (MemoryFacts(available=32 * GIB), 8, 2, "MemAvailable"),
        (MemoryFacts(available=16 * GIB), 8, 0, "MemAvailable"),
        (MemoryFacts(), 1, None, None),
    ],
)
@pytest.mark.parametrize("asked", [None, 1000])
def test_memory(asked: int | None, memory: MemoryFacts, ranks: int, limit: int | None, source: str | None) -> None:
    """The tightest figure times the share, divided by ranks and by a worker's bytes; not known bounds nothing."""
    snapshot = Snapshot(cpu=CpuFacts(host=64), memory=memory, process=ProcessFacts(local_world_size=ranks))
    reasons = {reason.code: reason for reason in answer(asked, snapshot).reasons}
    reason = reasons.get(ReasonCode.MEMORY)
    assert (reason and reason.limit, reason and reason.seen["source"]) == (limit, source)


@pytest.mark.parametrize(
    ("fields", "settings", "limit"),
    [
        ({}, Settings(), 8),
        ({}, Settings(memory_share=1), 16),
        ({}, Settings(bytes_per_worker=4 * GIB), 2),
        ({"bytes_per_worker": 100 * MIB}, Settings(bytes_per_worker=4 * GIB), 81),
        ({"profile": Profile(1.0, 1.0, bytes_per_worker=2 * GIB)}, Settings(), 4),
        ({"profile": Profile(1.0, 1.0)}, Settings(), 8),
        ({"profile": Profile(1.0, 1.0, bytes_per_worker=2 * GIB), "bytes_per_worker": 4 * GIB}, Settings(), 2),
    ],
)
def test_bytes_per_worker(fields: dict[str, Any], settings: Settings, limit: int) -> None:
    """A worker's bytes are the caller's word, else what was measured, else the setting."""
    snapshot = machine(available=16 * GIB)
    assert limits(answer(1000, snapshot, settings, **fields))[ReasonCode.MEMORY] == limit


@pytest.mark.parametrize(
    ("site", "release", "gib", "asked", "workers"),
    [
        *(("filter", "5.2.0", 2 * covers, 64, step) for covers, step in [(2, 2), (5, 4), (7, 6), (11, 8), (40, 32)]),
        ("filter", "5.2.0", 198, 100, 64),
        ("filter", "5.2.0", 512, 100, 100),
        ("filter", "5.2.0", 40, 17, 17),
        ("batch", "5.2.0", 14, 8, 6),
        ("flatten_indices", "5.2.0", 14, 8, 6),
        ("map", "5.2.0", 14, 8, 7),
        ("map", "4.0.0", 14, 8, 7),
        ("map", "3.6.0", 14, 8, 6),
        ("to_json", "3.6.0", 14, 8, 7),
    ],
)
def test_memory_steps_where_the_count_is_cached(site: str, release: str, gib: int, asked: int, workers: int) -> None:
    """Where the count is in a cache key, a count that memory lowers goes down in steps; one that fits stays."""
    snapshot = machine(available=gib * GIB, datasets=release)
    assert answer(asked, snapshot, site=site).workers == workers


@pytest.mark.parametrize(
    ("asked", "rows", "fields", "limit"),
    [
        (None, None, {}, None),
        (None, 4999, {}, 0),
        (None, 5000, {}, 5000),
        (None, 0, {}, 0),
        (16, 3, {}, 3),
        (16, 1, {}, 0),
        (16, 0, {}, 0),
        (16, 100, {}, 100),
        (None, 100, {"profile": PER_MAP}, 100),
    ],
)
def test_rows(asked: int | None, rows: int | None, fields: dict[str, Any], limit: int | None) -> None:
    """Few rows stay in process unless somebody asked or measured, and there are never more workers than rows."""
    assert limits(answer(asked, rows=rows, **fields)).get(ReasonCode.ROWS) == limit


@pytest.mark.parametrize(
    ("free", "ranks", "threads", "limit"),
    [
        (None, 1, 1, None),
        (1000, 1, 1, 496),
        (28, 1, 1, 10),
        (11, 1, 1, 0),
        (0, 1, 1, 0),
        (196, 1, 64, 2),
        (196, 1, 0, 188),
        (100, 4, 1, 8),
    ],
)
@pytest.mark.parametrize("asked", [None, 1000])
def test_pids(asked: int | None, free: int | None, ranks: int, threads: int, limit: int | None) -> None:
    """This rank's share of what may still be started, without the pool's own, by a worker and its threads."""
    snapshot = machine(pids_free=free, local_world_size=ranks)
    assert limits(answer(asked, snapshot, threads_per_worker=threads)).get(ReasonCode.PIDS) == limit


def test_windows_handles() -> None:
    """Windows waits on 60 workers at most; other systems have no such bound."""
    windows = machine("spawn", platform="win32", main=MainModule.FILE)
    assert bound(answer(100, windows)) == (60, ReasonCode.WINDOWS_HANDLES)
    assert answer(100, machine()).workers == 100


@pytest.mark.parametrize(
    ("asked", "touches", "count", "limit"),
    [(None, True, 6, 6), (None, True, 1, 0), (None, True, None, None), (None, False, 6, None), (16, True, 6, None)],
)
def test_devices(asked: int | None, count: int | None, limit: int | None, *, touches: bool) -> None:
    """A free choice for a function on accelerators is one worker a device, where the devices can be counted."""
    snapshot = machine("spawn", accelerator_count=count, main=MainModule.FILE)
    assert limits(answer(asked, snapshot, touches_accelerator=touches)).get(ReasonCode.DEVICES) == limit


@pytest.mark.parametrize(
    ("asked", "fields", "settings", "limit"),
    [
        (None, {}, Settings(), 8),
        (None, {}, Settings(auto_cap=3), 3),
        (None, {}, Settings(auto_cap=1), 0),
        (16, {}, Settings(), None),
        (None, {"profile": PER_MAP}, Settings(), 8),
        (None, {"profile": PER_MAP, "rows": 10}, Settings(), 32),
        (None, {"profile": Profile(1.0, 0.1), "rows": 10}, Settings(), 64),
    ],
)
def test_cap(asked: int | None, fields: dict[str, Any], settings: Settings, limit: int | None) -> None:
    """A free choice is capped: by the setting, or, where the work was measured on counted rows, by its kind."""
    assert limits(answer(asked, None, settings, **fields)).get(ReasonCode.CAP) == limit


@pytest.mark.parametrize(
    ("facts", "fields", "limit"),
    [
        ({"host": 8}, {"rows": 1_000_000, "profile": PER_MAP}, 8),
        ({"host": 8}, {"rows": 100, "profile": PER_MAP}, 0),
        ({"host": 8}, {"profile": PER_MAP}, None),
        ({"host": 8}, {"rows": 1_000_000}, None),
        ({"host": None, "affinity": None}, {"rows": 1_000_000, "profile": PER_MAP}, 0),
    ],
)
def test_cost(facts: dict[str, Any], fields: dict[str, Any], limit: int | None) -> None:
    """A measurement and a number of rows predict the best count; a count that was asked for is not second-guessed."""
    assert limits(answer(None, machine(**facts), **fields)).get(ReasonCode.COST) == limit
    assert ReasonCode.COST not in limits(answer(4, machine(**facts), **fields))


def test_cost_names_its_seconds() -> None:
    """The reason holds the predicted seconds with and without workers."""
    seen = answer(None, machine(host=8), rows=1_000_000, profile=PER_MAP).binding.seen
    assert seen == {"rows": 1_000_000, "cpus": 8, "seconds_in_process": 2000.0, "seconds_with_workers": 250.18}


# --- together -------------------------------------------------------------------------------------------------------


def test_the_lowest_ceiling_wins() -> None:
    """The binding reason is the lowest, the others stand behind it, and of equals the first rule's is named."""
    decision = answer(16, machine(available=12 * GIB, pids_free=48), rows=6)
    assert bound(decision) == (6, ReasonCode.MEMORY)
    assert limits(decision) == {
        ReasonCode.MEMORY: 6,
        ReasonCode.ROWS: 6,
        ReasonCode.ASKED: 16,
        ReasonCode.PIDS: 20,
    }
    assert decision.reduced


def test_never_one_worker() -> None:
    """A ceiling of one is "in this process", and its reason says 0, so that reason and answer agree."""
    decision = answer(16, machine(available=3 * GIB))
    assert bound(decision) == (0, ReasonCode.MEMORY)
    assert decision.binding.limit == 0
    assert decision.binding.seen["affordable"] == 1


def test_a_count_that_was_granted() -> None:
    """A count that fits is bound by itself, and is not reduced; cpus and the cap do not bound it."""
    decision = answer(48)
    assert bound(decision) == (48, ReasonCode.ASKED)
    assert not decision.reduced


def test_the_start_method_is_explained_where_it_was_chosen() -> None:
    """A method that is not the default, or that goes against hazards, has a reason that bounds nothing."""
    cuda = machine(accelerators=frozenset({"cuda"}), main=MainModule.FILE)
    assert ReasonCode.START_METHOD not in limits(answer(4))
    assert ReasonCode.START_METHOD not in limits(answer(0, None, start_method="spawn"))
    expected = {"method": "forkserver", "source": "hazards", "hazards": ["cuda is initialised"]}
    assert answer(4, cuda, start_method="auto").reasons[-1] == Reason(ReasonCode.START_METHOD, None, expected)
    fork = answer(4, cuda, start_method="fork")
    assert (fork.workers, fork.start_method, fork.reasons[-1].seen["source"]) == (4, "fork", "argument")


def test_an_unknown_site() -> None:
    """A site that is not in the table is refused before anything else, with those that are."""
    with pytest.raises(SiteError, match=r"trl\.config") as caught:
        decide(Request(site="kitchen"), machine(), Settings(override=4))
    assert caught.value.site == "kitchen"


def test_it_answers_knowing_nothing() -> None:
    """With no fact known a free choice stays in this process, and a count is granted as asked."""
    assert answer(None, Snapshot()).workers == 0
    assert answer(16, Snapshot()).workers == 16

"""The public API as a type checker sees it: checked by `mypy --strict`, never run.

One job: to break the type check when a signature changes. Nothing here may be imported by a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.context import BaseContext
from typing import Any

import dataset_num_proc as dnp
from dataset_num_proc import (
    CpuFacts,
    DatasetNumProcError,
    DatasetNumProcWarning,
    Decision,
    LibraryFacts,
    MainModule,
    MemoryFacts,
    OversizeRow,
    PackingError,
    ProcessFacts,
    Profile,
    Reason,
    ReasonCode,
    Request,
    RowsLost,
    Settings,
    SettingsError,
    SettingsWarning,
    SiteError,
    Snapshot,
    StartMethodFacts,
    StartMethods,
    UnsafeStartMethod,
    UpstreamUnknown,
    Verdict,
    WorkerDied,
    WorkersReduced,
    Workload,
)
from dataset_num_proc.compat import ms_swift
from dataset_num_proc.packing import (
    EncoderPool,
    EncodeStats,
    IterablePackingDataset,
    Kind,
    Outcome,
    PackingDataset,
    PackLayout,
    pack_lengths,
)

SNAPSHOT: Snapshot = dnp.take_snapshot()
RECORDED = Snapshot(
    cpu=CpuFacts(host=64, affinity=4, quota=2.5, quota_source="cpu.max", declared={"SLURM_CPUS_PER_TASK": 4}),
    memory=MemoryFacts(available=1 << 30, headroom=None, limit=None, shm_free=0),
    process=ProcessFacts(platform="linux", main=MainModule.FILE, accelerators=frozenset({"cuda"}), local_rank=None),
    start_methods=StartMethods(multiprocess=StartMethodFacts("fork", pinned=False, offered=("fork",))),
    libraries=LibraryFacts(datasets="5.2.0"),
)
SETTINGS = Settings(auto_cap=8, memory_share=0.5, bytes_per_worker=1 << 30, min_rows=5000)


def at_a_map_site(profile: Profile) -> int | None:
    """A count is an integer or `None`, whatever says what was asked for."""
    automatic: int | None = dnp.num_proc()
    asked: int | None = dnp.num_proc(16, rows=10_000, workload=Workload.MAP, profile=profile)
    written: int | None = dnp.num_proc("16", site="trl.config", snapshot=SNAPSHOT, settings=SETTINGS)
    return automatic or asked or written


def in_a_scope() -> int | None:
    """A scope gives what the call takes."""
    with dnp.workers(16, rows=10_000, start_method="auto") as count:
        answer: int | None = count
    return answer


def the_answer() -> tuple[int, str | None, Reason | None, bool]:
    """A decision says how many, how, what bound it and whether that is less than was asked for."""
    decision: Decision = dnp.plan("auto", rows=10_000, touches_accelerator=True)
    return decision.workers, decision.start_method, decision.binding, decision.reduced


def the_reasons() -> list[tuple[ReasonCode, int | None]]:
    """A decision carries its reasons as data."""
    return [(reason.code, reason.limit) for reason in dnp.plan().reasons]


def by_hand() -> int | None:
    """The policy alone takes values and gives values."""
    decoded: Request = dnp.decode(16, "trl.config")
    decision: Decision = dnp.decide(decoded or Request.of("auto", rows=10_000), RECORDED, SETTINGS)
    return dnp.encode(decision, "map", snapshot=RECORDED)


def a_context() -> BaseContext:
    """Workers of one's own are started from a context of the standard library's type."""
    return dnp.mp_context("spawn")


def from_elsewhere() -> Snapshot:
    """A snapshot goes to JSON values and comes back."""
    return dnp.from_json(dnp.to_json(RECORDED))


def what_died() -> tuple[str, dict[int, int | None]]:
    """A death says what it was, and the statuses of the workers."""
    try:
        with dnp.watch(stall_timeout=300):
            pass
    except WorkerDied as died:
        verdict: Verdict = died.verdict
        return verdict.value, dict(died.exit_codes)
    return "", {}


def encoded() -> tuple[list[Any], int, Decision | None]:
    """A pool gives an outcome for each row, and says how many were lost, and on what it was started."""
    with EncoderPool(str, workers=2, skip=(KeyError,), item_timeout=300.0) as pool:
        outcomes: list[Outcome] = list(pool.encode(range(3)))
    stats: EncodeStats = pool.stats
    return [one.value for one in outcomes if one.kind is Kind.ENCODED], stats.lost, pool.decision


def laid_out() -> list[list[int]]:
    """A layout is rows by pack."""
    layout: PackLayout = pack_lengths([3, 5], 8, strategy="bfd", oversize="drop")
    by_number: PackingDataset = PackingDataset(None, [3, 5], lengths=[3, 5], packing_length=8)
    return layout.indices + by_number.packed_idx


def streamed() -> Mapping[str, Any]:
    """A stream of packs has an end and a state."""
    with IterablePackingDataset(None, ["a"], encode=str, length_of=len, packing_length=8) as stream:
        packs: list[list[Any]] = list(stream)
        stream.load_state_dict(stream.state_dict())
    return {**stream.state_dict(), "packs": packs}


def in_ms_swifts_place() -> tuple[str, ...]:
    """What was put in place says where, and is undone."""
    with ms_swift.install() as installed:
        return installed.places


ERRORS: tuple[type[DatasetNumProcError], ...] = (SettingsError, SiteError, PackingError, OversizeRow, RowsLost)
VALUE_ERRORS: tuple[type[ValueError], ...] = (SettingsError, SiteError)
WARNINGS: tuple[type[DatasetNumProcWarning], ...] = (
    SettingsWarning,
    UnsafeStartMethod,
    UpstreamUnknown,
    WorkersReduced,
)

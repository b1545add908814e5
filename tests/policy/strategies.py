"""Hypothesis strategies for everything that a decision rests on: any machine, any request, any settings.

One job: values that the probe and the callers could really make. It may not know what the rules make of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from dataset_num_proc.policy.cost import Profile
from dataset_num_proc.policy.encoding import SITES
from dataset_num_proc.policy.facts import (
    FORK,
    FORKSERVER,
    SPAWN,
    CpuFacts,
    LibraryFacts,
    MainModule,
    MemoryFacts,
    ProcessFacts,
    Snapshot,
    StartMethodFacts,
    StartMethods,
    Unreadable,
)
from dataset_num_proc.policy.request import GIB, Request, Settings, Workload

TIB = 1 << 40
CPUS = st.integers(1, 512)
BYTES = st.one_of(st.integers(0, 4 * TIB), st.integers(0, 64).map(lambda count: count * GIB))
RELEASES = st.sampled_from(("3.4.1", "3.6.0", "4.0.0", "4.0.1", "4.1.0", "4.7.0", "4.8.0", "5.2.0"))


def or_unknown(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The strategy's values, or `None` for "not known"."""
    return st.none() | strategy


cpu_facts = st.builds(
    CpuFacts,
    host=or_unknown(CPUS),
    affinity=or_unknown(CPUS),
    quota=or_unknown(st.floats(0.01, 512)),
    quota_source=or_unknown(st.just("/sys/fs/cgroup/cpu.max")),
    declared=st.dictionaries(st.sampled_from(("SLURM_CPUS_PER_TASK", "NSLOTS", "PYTHON_CPU_COUNT")), CPUS),
)
memory_facts = st.builds(
    MemoryFacts,
    available=or_unknown(BYTES),
    headroom=or_unknown(BYTES),
    limit=or_unknown(BYTES),
    headroom_source=or_unknown(st.just("/sys/fs/cgroup/memory.max")),
    declared=st.dictionaries(st.sampled_from(("SLURM_MEM_PER_NODE", "LSB_JOB_MEMLIMIT")), BYTES),
    shm_free=or_unknown(BYTES),
)


@st.composite
def process_facts(draw: st.DrawFn) -> ProcessFacts:
    """A process; nothing unusual about it in most."""
    ranks = draw(st.sampled_from((1, 1, 2, 3, 8)))
    return ProcessFacts(
        platform=draw(st.sampled_from(("linux", "linux", "darwin", "win32"))),
        python=draw(st.sampled_from(("3.10.12", "3.11.7", "3.14.0"))),
        daemonic={name: draw(st.sampled_from((False, False, True))) for name in ("multiprocess", "multiprocessing")},
        threads=draw(or_unknown(st.integers(1, 99))),
        main=draw(st.sampled_from(MainModule)),
        accelerators=draw(st.frozensets(st.sampled_from(("cuda", "xpu", "jax", "/dev/nvidia0")), max_size=2)),
        distributed=draw(st.booleans()),
        local_rank=draw(or_unknown(st.integers(0, ranks - 1))),
        local_world_size=ranks,
        pids_free=draw(or_unknown(st.integers(0, 5000))),
        python_threads=draw(or_unknown(st.integers(1, 9))),
        runtimes=draw(st.frozensets(st.just("ray"))),
        importing=draw(st.sampled_from((None, None, None, "train"))),
        main_file=draw(or_unknown(st.just("train.py"))),
        main_line=draw(or_unknown(st.integers(1, 999))),
        cpus_per_rank=draw(st.booleans()),
        accelerator_count=draw(or_unknown(st.integers(0, 16))),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A machine and a process on it."""
    process = draw(process_facts())
    offered = (SPAWN,) if process.platform == "win32" else (FORK, SPAWN, FORKSERVER)
    methods = st.builds(
        StartMethodFacts, method=or_unknown(st.sampled_from(offered)), pinned=st.booleans(), offered=st.just(offered)
    )
    return Snapshot(
        cpu=draw(cpu_facts),
        memory=draw(memory_facts),
        process=process,
        start_methods=StartMethods(draw(methods), draw(methods)),
        libraries=draw(st.builds(LibraryFacts, datasets=or_unknown(RELEASES), torch=or_unknown(st.just("2.13.0")))),
        unreadable=tuple(draw(st.lists(st.builds(Unreadable, what=st.text(), why=st.text()), max_size=2))),
    )


_SECONDS = st.floats(1e-7, 10)
profiles = st.builds(
    Profile,
    wall_seconds_per_row=_SECONDS,
    cpu_seconds_per_row=_SECONDS,
    bytes_per_worker=or_unknown(st.integers(1, 16 * GIB)),
    payload_bytes=st.integers(0, 4 * GIB),
)
requests = st.builds(
    Request,
    workers=st.sampled_from((None, None, None, 0, 2, 3, 5, 8, 16, 61, 100, 5000)),
    workload=st.sampled_from(Workload),
    rows=or_unknown(st.integers(0, 1 << 40) | st.integers(0, 6000)),
    bytes_per_worker=or_unknown(st.integers(1, 64 * GIB)),
    profile=or_unknown(profiles),
    side_effects=st.sampled_from((False, False, True)),
    touches_accelerator=st.booleans(),
    spawn_ready=or_unknown(st.booleans()),
    site=st.sampled_from(tuple(SITES)),
    start_method=st.sampled_from((None, None, "auto", FORK, SPAWN, FORKSERVER)),
    streaming=st.sampled_from((False, False, True)),
    threads_per_worker=st.integers(0, 64),
)
operators = st.builds(
    Settings,
    auto_cap=st.integers(0, 64),
    memory_share=st.floats(0.01, 1),
    bytes_per_worker=st.integers(1, 16 * GIB),
    min_rows=st.integers(0, 6000),
    override=st.sampled_from((None, None, None, 0, 1, 2, 60, 61, 1000)),
    start_method=st.sampled_from((None, FORK, SPAWN, FORKSERVER)),
)


@st.composite
def tightened(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """The same machine with one limit lower, or with one limit more."""

    def below(figure: float | None, fresh: st.SearchStrategy[Any]) -> Any:  # noqa: ANN401 - the figure's own type
        lower = draw(fresh)
        return lower if figure is None else min(figure, lower)

    cpu, memory, process = snapshot.cpu, snapshot.memory, snapshot.process
    limit = draw(st.sampled_from(("host", "affinity", "quota", "declared", "available", "headroom", "node", "pids")))
    if limit == "pids":
        return replace(snapshot, process=replace(process, pids_free=below(process.pids_free, st.integers(0, 5000))))
    if limit in {"available", "headroom"}:
        return replace(snapshot, memory=replace(memory, **{limit: below(getattr(memory, limit), BYTES)}))
    if limit == "node":
        declared = {**memory.declared, "SLURM_MEM_PER_NODE": below(memory.declared.get("SLURM_MEM_PER_NODE"), BYTES)}
        return replace(snapshot, memory=replace(memory, declared=declared))
    if limit == "declared":
        return replace(
            snapshot, cpu=replace(cpu, declared={**cpu.declared, "NSLOTS": below(cpu.declared.get("NSLOTS"), CPUS)})
        )
    fresh = st.floats(0.01, 512) if limit == "quota" else CPUS
    return replace(snapshot, cpu=replace(cpu, **{limit: below(getattr(cpu, limit), fresh)}))

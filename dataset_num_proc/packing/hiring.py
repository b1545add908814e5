"""The workers for one encoder: how many, how they start, and what they take along.

One job: the policy's decision, the encoder's bytes and the limits of the workers' libraries, put together to a crew. It
may not send a row.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dataset_num_proc.api import decided
from dataset_num_proc.errors import WorkerStartFailed
from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.packing import worker
from dataset_num_proc.packing.crew import Crew
from dataset_num_proc.packing.payload import CannotTravel, Parcel, attributes, parcel
from dataset_num_proc.packing.start import Starter, variables_of_workers
from dataset_num_proc.policy.autopsy import Evidence, Verdict
from dataset_num_proc.policy.case import usable_cpus
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.policy.facts import FORK, Snapshot
from dataset_num_proc.policy.request import Settings, Workload
from dataset_num_proc.policy.worker_environment import THREAD_LIMITS, worker_environment

_ENTRY = worker.__name__


@dataclass(frozen=True)
class Order:
    """What a pool asks for.

    Attributes:
        workers, start_method, snapshot, settings, consumers, in_daemon: as in `EncoderPool`.
        first: init and init_args by name.
        work: encode, skip and encode_kwargs by name.
        start_timeout, item_timeout: as in `EncoderPool`.
    """

    workers: int | None
    start_method: str | None
    snapshot: Snapshot | None
    settings: Settings | None
    consumers: int | None
    in_daemon: bool
    first: Mapping[str, Any]
    work: Mapping[str, Any]
    start_timeout: float
    item_timeout: float | None


def hire(order: Order) -> tuple[Decision, Crew | None]:
    """The decision, and workers that have been started; none where rows are to be encoded in this process.

    Raises:
        WorkerStartFailed: one could not be started, or the encoder cannot travel; nothing is left running.
        TypeError, ValueError: as in `dataset_num_proc.plan`.
    """
    decision, snapshot = decided_for(order)
    count = min(decision.workers, 1) if order.workers == 1 else decision.workers
    if not count or decision.start_method is None:
        return decision, None
    cpus = usable_cpus(snapshot)[0]
    wanted = worker_environment(count, cpus, os.environ)
    threads = int(wanted[THREAD_LIMITS[0]]) if THREAD_LIMITS[0] in wanted else None
    variables = variables_of_workers(wanted)
    crew = _crew(order, decision, variables)
    crew.start(count, partial(_post, variables, threads))
    return decision, crew


def decided_for(order: Order) -> tuple[Decision, Snapshot]:
    """The decision, and the machine that it was made on."""
    snapshot = order.snapshot or take_snapshot()
    if order.consumers is not None:
        snapshot = replace(snapshot, process=replace(snapshot.process, local_world_size=order.consumers))
    if order.in_daemon:
        snapshot = replace(snapshot, process=replace(snapshot.process, daemonic={}))
    # One worker beside a consumer that trains is worth having; to the policy, whose pools work alone, it is none.
    asked = 2 if order.workers == 1 else order.workers
    decision, _, _ = decided(
        asked,
        None,
        {"workload": Workload.PACKING, "snapshot": snapshot, "settings": order.settings},
        start_method=order.start_method,
    )
    return decision, snapshot


def _post(variables: dict[str, str | None], threads: int | None, path: str, dump: int | None) -> worker.Post:
    return worker.Post(path, variables, threads, dump)


def _crew(order: Order, decision: Decision, variables: Mapping[str, str | None]) -> Crew:
    method = str(decision.start_method)
    if method == FORK:
        starter = Starter(method, (), False, {}, order.start_timeout)  # noqa: FBT003 - a forked child imports nothing
        return Crew(starter, None, (order.first, order.work), order.start_timeout, order.item_timeout, decision)
    try:
        first = parcel(order.first) if order.first["init"] is not None else None
        work = parcel(order.work)
    except CannotTravel as error:
        raise _refused(error, decision) from error.__cause__
    parcels: list[Parcel] = [one for one in (first, work) if one is not None]
    modules = sorted(frozenset().union(*(one.modules for one in parcels)) - {"__main__"})
    starter = Starter(
        method,
        (_ENTRY, *modules) if first is None else (_ENTRY,),  # the encoder's modules may need what `init` does
        any(one.needs_main for one in parcels),
        variables,
        order.start_timeout,
    )
    kit = worker.Kit(None if first is None else first[:2], work[:2], attributes(order.work["encode"]))
    return Crew(starter, kit, None, order.start_timeout, order.item_timeout, decision)


def _refused(why: CannotTravel, decision: Decision) -> WorkerStartFailed:
    method = decision.start_method
    return WorkerStartFailed(
        f"A worker could not be started by {method}: {why}",
        verdict=Verdict.IMPORT_FAILED,
        exit_codes={},
        evidence=Evidence(start_method=method, start_error=str(why)),
        decision=decision,
    )

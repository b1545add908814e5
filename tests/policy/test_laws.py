"""The twelve laws as properties, on any values: the matrix checks the same laws on the values that it is made of."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.request import Request, Settings
from dataset_num_proc.policy.rules import decide
from tests.policy.strategies import operators, or_unknown, requests, snapshots, tightened

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from matrix import laws
from matrix.answers import Cell, Machine
from matrix.walk import Neighbours, Policy, broken_replay, family_of_cells

pytestmark = pytest.mark.timeout(120)  # hundreds of examples each, several times slower under coverage


def machine_of(snapshot: Snapshot) -> Machine:
    """The machine, seen from this rank and from the last."""
    process = snapshot.process
    return Machine(snapshot, replace(snapshot, process=replace(process, local_rank=process.local_world_size - 1)))


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    """Any question on any machine, answered."""
    machine, question = machine_of(draw(snapshots())), (draw(requests), draw(operators))
    (cell,) = family_of_cells(Policy(), machine, [question], Neighbours())
    return cell


@given(cells())
def test_start_methods_can_support_the_workers(cell: Cell) -> None:
    """Law 1: no workers on a start method that cannot support them."""
    assert laws.law_1(cell) is None


@given(cells())
def test_never_one_at_a_map_site(cell: Cell) -> None:
    """Law 2: never 1 at a map site, on any `datasets` release."""
    assert laws.law_2(cell) is None


@given(cells())
def test_nothing_is_left_to_the_reader(cell: Cell) -> None:
    """Law 3: never `None` at a config site whose reader would take it for "choose for me"."""
    assert laws.law_3(cell) is None


@given(cells())
def test_memory_covers_all_ranks(cell: Cell) -> None:
    """Law 4: never more workers than memory covers, over all local ranks together."""
    assert laws.law_4(cell) is None


@given(cells())
def test_automatic_answers_keep_the_cap(cell: Cell) -> None:
    """Law 5: never over the cap on the automatic path."""
    assert laws.law_5(cell) is None


@given(cells())
def test_the_override_is_verbatim(cell: Cell) -> None:
    """Law 6: the override is obeyed, or the answer says why it could not run."""
    assert laws.law_6(cell) is None


@given(cells())
def test_every_rank_answers_alike(cell: Cell) -> None:
    """Law 7: deterministic, and the same on every local rank."""
    assert laws.law_7(cell) is None


@given(st.data(), snapshots(), requests, operators)
def test_a_new_limit_never_gives_more(
    data: st.DataObject, machine: Snapshot, request: Request, operator: Settings
) -> None:
    """Law 8: a machine with less of anything, or with one limit more, never gets more workers."""
    assume(machine.cpu.host is not None)  # unknown cpus are taken for one: a first figure there is no limit
    less = data.draw(tightened(machine))
    assert decide(request, less, operator).workers <= decide(request, machine, operator).workers


@given(snapshots(), requests, operators, st.integers(0, 1 << 40))
def test_fewer_rows_never_give_more(machine: Snapshot, request: Request, operator: Settings, rows: int) -> None:
    """Law 8: fewer rows never give more workers."""
    assume(request.rows is not None or request.profile is None)  # without rows a measurement says nothing
    fewer = replace(request, rows=rows if request.rows is None else min(rows, request.rows))
    assert decide(fewer, machine, operator).workers <= decide(request, machine, operator).workers


@given(snapshots(), requests, operators, st.sampled_from(tuple(laws.READERS)), or_unknown(st.integers(0, 1 << 40)))
def test_a_config_and_its_site_agree(
    snapshot: Snapshot, request: Request, operator: Settings, site: str, available: int | None
) -> None:
    """Law 9: a config's answer is one at the site that reads it, though memory moved meanwhile."""
    machine = machine_of(snapshot)
    moved = machine_of(replace(snapshot, memory=replace(snapshot.memory, available=available)))
    neighbours = Neighbours(moved=[("the same memory", machine), ("other memory", moved)])
    (cell,) = family_of_cells(Policy(), machine, [(replace(request, site=site), operator)], neighbours)
    assert laws.law_9(cell) is None


@given(cells())
def test_asking_for_the_answer_gives_it(cell: Cell) -> None:
    """Law 9: at every site, asking for the answer gives it."""
    assert laws.law_9(cell) is None


@given(cells())
def test_dialects_round_trip(cell: Cell) -> None:
    """Law 10: what a site is handed means the answer there, or there is no word for it and the error says so."""
    assert laws.law_10(cell) is None


@given(cells())
def test_the_binding_reason_is_the_answer(cell: Cell) -> None:
    """Law 11: the binding reason's limit is the answer, and every lowered request has a reason."""
    assert laws.law_11(cell) is None


@given(snapshots())
def test_snapshots_replay(snapshot: Snapshot) -> None:
    """Law 12: a snapshot read back from JSON text is the same."""
    assert broken_replay(Policy(), machine_of(snapshot)) is None

"""An answer carries what made it."""

from __future__ import annotations

import pytest

from dataset_num_proc.policy.decision import Decision, Reason, ReasonCode


def decision(workers: int, *reasons: tuple[ReasonCode, int | None]) -> Decision:
    """A decision with these reasons."""
    return Decision(workers, "fork", tuple(Reason(code, limit) for code, limit in reasons))


@pytest.mark.parametrize(
    ("answer", "asked", "reduced"),
    [
        (decision(8, (ReasonCode.CAP, 8), (ReasonCode.CPUS, 32)), None, False),
        (decision(16, (ReasonCode.ASKED, 16), (ReasonCode.MEMORY, 20)), 16, False),
        (decision(4, (ReasonCode.MEMORY, 4), (ReasonCode.ASKED, 16)), 16, True),
        (decision(0, (ReasonCode.DAEMONIC, 0), (ReasonCode.ASKED, 16)), 16, True),
        (decision(0, (ReasonCode.DAEMONIC, 0), (ReasonCode.OVERRIDE, 4)), 4, True),
        (decision(0, (ReasonCode.IN_PROCESS, 0)), None, False),
    ],
)
def test_asked_and_reduced(answer: Decision, asked: int | None, *, reduced: bool) -> None:
    """What was asked for is read from the reasons, and less than that is a reduction; a free choice never is."""
    assert (answer.asked, answer.reduced) == (asked, reduced)
    assert answer.binding is answer.reasons[0]


@pytest.mark.parametrize("code", ReasonCode)
def test_each_code_says_what_it_means(code: ReasonCode) -> None:
    """Every code is its own text, and carries a sentence for users that is there at run time."""
    assert code == code.value
    assert {other.value: other for other in ReasonCode}[code.value] is code
    assert code.__doc__
    assert code.__doc__.endswith(".")
    assert code.__doc__ != ReasonCode.__doc__


def test_codes_are_the_contract() -> None:
    """The names that people read and scripts compare."""
    assert [code.value for code in ReasonCode] == [
        "override",
        "in-process",
        "side-effects",
        "streaming",
        "daemonic",
        "importing",
        "no-start-method",
        "spawn-not-ready",
        "macos-fork",
        "xpu-fork",
        "accelerator-fork",
        "asked",
        "cap",
        "cpus",
        "memory",
        "rows",
        "pids",
        "windows-handles",
        "devices",
        "cost",
        "start-method",
    ]

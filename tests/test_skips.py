"""Strict skips: a test is skipped only for what this machine cannot have."""

from __future__ import annotations

import pytest

from tests.capabilities import Capability
from tests.skips import unjustified

CONFTEST = "from tests.skips import *"
FREE_SKIP = """
import pytest

@pytest.mark.skip(reason="not today")
def test_skipped(): ...

def test_run(): ...
"""


@pytest.mark.parametrize(
    ("capability", "excused"),
    [
        (Capability("a missing device", present=False), True),
        (Capability("a package that was not installed", present=False, installable=True), False),
        (Capability("a device that is here", present=True), False),
    ],
)
def test_only_a_real_lack_excuses(capability: Capability, *, excused: bool) -> None:
    """A skip is excused by a capability that is absent and that no set-up could bring."""
    skips = [("test_x", capability.reason)]
    assert unjustified(skips, [capability]) == ([] if excused else skips)


@pytest.mark.parametrize(("option", "status"), [("--strict-skips", pytest.ExitCode.TESTS_FAILED), ("-q", 0)])
def test_an_unjustified_skip_fails_a_strict_run(pytester: pytest.Pytester, option: str, status: int) -> None:
    """A skip for any other reason fails the run and is named; without the option it does neither."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(FREE_SKIP)
    result = pytester.runpytest_inprocess(option)
    assert result.ret == status
    named = "not today" in result.stdout.str()
    assert named == (status != 0)

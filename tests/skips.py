"""Skips that the machine does not justify fail the run under `--strict-skips`.

One job: to compare each reported skip with the probed capabilities. It may not decide what is skipped. The skips
themselves are listed at the end of every run by pytest (`-ra` in pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.capabilities import CAPABILITIES, Capability

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


def unjustified(skips: Iterable[tuple[str, str]], capabilities: Iterable[Capability]) -> list[tuple[str, str]]:
    """The skips, as (test, reason), that the lack of no capability excuses."""
    excused = {capability.reason for capability in capabilities if capability.excuses}
    return [(test, reason) for test, reason in skips if reason not in excused]


def _skips(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Iterator[tuple[str, str]]:
    for report in reports:
        # An expected failure is reported as skipped too; it did run.
        if isinstance(report.longrepr, tuple) and not hasattr(report, "wasxfail"):
            yield report.nodeid, report.longrepr[2].removeprefix("Skipped: ")


def _offenders(config: pytest.Config) -> list[tuple[str, str]]:
    reporter: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not config.getoption("--strict-skips"):
        return []
    return unjustified(_skips(reporter.stats.get("skipped", ())), CAPABILITIES)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--strict-skips`."""
    text = "fail if a test is skipped for anything but a capability that this machine cannot have"
    parser.addoption("--strict-skips", action="store_true", help=text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turns a run that passed into a failed one where a skip has no excuse."""
    if session.exitstatus == pytest.ExitCode.OK and _offenders(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Names the skips that have no excuse."""
    offenders = _offenders(config)
    if offenders:
        terminalreporter.section("skips that this machine does not justify", red=True)
    for test, reason in offenders:
        terminalreporter.line(f"{test}: {reason}", red=True)

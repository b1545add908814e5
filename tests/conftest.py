"""Set-up of the whole suite: strict skips, one Hypothesis profile, no network, and no cache outside the run.

One job: to make every run start from the same state. It may not hold fixtures that only one room needs.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import settings

from tests import scripts, skips

_HOME = pytest.StashKey[str]()

# No deadline: how long an example takes on a shared machine says nothing about the code.
# The same examples in every run, so that a failure in CI is one at the desk too.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")


def pytest_addoption(pluginmanager: pytest.PytestPluginManager, parser: pytest.Parser) -> None:
    """Registers the plugin, and with it the options that it adds."""
    pluginmanager.register(skips, "skips")
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden texts anew, to be read after")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives a test that starts interpreters of its own a minute: each takes seconds to start on a busy machine."""
    for item in items:
        names = vars(item.module) if isinstance(item, pytest.Function) else {}
        starts = any(
            value is scripts or getattr(value, "__module__", "") == "tests.scripts" for value in names.values()
        )
        if starts and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(60))


def pytest_configure(config: pytest.Config) -> None:
    """Keeps `datasets` off the network and its caches in a directory of this run. It reads both when it is imported."""
    config.stash[_HOME] = os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="dataset-num-proc-tests-")
    os.environ["HF_HUB_OFFLINE"] = "1"
    # A developer's own choice would decide in place of the policy under test.
    for variable in [name for name in os.environ if name.endswith("DATASET_NUM_PROC")]:
        del os.environ[variable]
    # A shell starts what runs in its background with Ctrl-C ignored, and so would every process of these tests be.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the directory of this run."""
    shutil.rmtree(config.stash[_HOME], ignore_errors=True)

"""The policy is values in, values out: its tests pass values, and patch nothing."""

from __future__ import annotations

import pytest


@pytest.fixture
def monkeypatch() -> None:
    """Fails the test that asks for it."""
    pytest.fail("a policy test passes values (a Snapshot, a Request, Settings); what must be patched is not policy")

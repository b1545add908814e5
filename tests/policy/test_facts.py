"""Facts and requests that no decision could be made with are refused where they are made."""

from __future__ import annotations

from typing import Any

import pytest

from dataset_num_proc.policy.facts import CpuFacts, ProcessFacts
from dataset_num_proc.policy.request import Request


@pytest.mark.parametrize("quota", [0.0, -1.0, float("inf"), float("nan")])
def test_a_quota_is_a_number_of_cores(quota: float) -> None:
    """A quota of nothing, and one that is no number, is refused by name."""
    with pytest.raises(ValueError, match=r"CpuFacts\.quota="):
        CpuFacts(quota=quota)


@pytest.mark.parametrize("ranks", [0, -1])
def test_a_node_has_ranks(ranks: int) -> None:
    """A node without ranks is refused: this process is one."""
    with pytest.raises(ValueError, match="local_world_size"):
        ProcessFacts(local_world_size=ranks)


@pytest.mark.parametrize("fields", [{"workers": -3}, {"workers": 2.0}, {"threads_per_worker": -1}, {"workload": "map"}])
def test_a_request_made_by_hand(fields: dict[str, Any]) -> None:
    """A request that bypasses the normaliser is held to its types all the same."""
    with pytest.raises(ValueError, match="Request"):
        Request(**fields)

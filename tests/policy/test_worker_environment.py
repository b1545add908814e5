"""The environment of workers, and the one that a scope leaves behind."""

from __future__ import annotations

import pytest

from dataset_num_proc.policy.worker_environment import THREAD_LIMITS, environment_after, worker_environment


@pytest.mark.parametrize(
    ("workers", "cpus", "limit"),
    [(8, 16, "2"), (2, 16, "8"), (3, 16, "5"), (16, 16, "1"), (64, 2, "1"), (1, 4, "4")],
)
def test_threads_are_a_share_of_the_cpus(workers: int, cpus: int, limit: str) -> None:
    """C48: eight workers on sixteen cpus get two threads each; no share is below one."""
    environment = worker_environment(workers, cpus, {})
    assert environment.pop("TOKENIZERS_PARALLELISM") == "false"
    assert environment == dict.fromkeys(THREAD_LIMITS, limit)


def test_the_users_own_values_are_kept() -> None:
    """A name that the user has set is not in the answer, whatever it holds, and the others are."""
    users = {"OMP_NUM_THREADS": "3", "RAYON_NUM_THREADS": "", "TOKENIZERS_PARALLELISM": "true"}
    environment = worker_environment(8, 16, users)
    assert environment.keys() == set(THREAD_LIMITS) - users.keys()


def test_unknown_cpus_leave_the_thread_pools_alone() -> None:
    """Where the number of cpus is not known, only the tokenizers are told."""
    assert worker_environment(8, None, {}) == {"TOKENIZERS_PARALLELISM": "false"}


def test_no_workers_need_nothing() -> None:
    """Work in this process changes no variable."""
    assert worker_environment(0, 16, {}) == {}


@pytest.mark.parametrize(
    ("now", "after"),
    [
        pytest.param({"A": "1", "OMP_NUM_THREADS": "2"}, {"A": "1"}, id="nothing changed"),
        pytest.param({"A": "9", "OMP_NUM_THREADS": "2"}, {"A": "9"}, id="a value changed"),
        pytest.param({"OMP_NUM_THREADS": "2"}, {}, id="a name deleted"),
        pytest.param({"A": "1", "B": "2", "OMP_NUM_THREADS": "2"}, {"A": "1", "B": "2"}, id="a name added"),
        pytest.param({"A": "1", "OMP_NUM_THREADS": "7"}, {"A": "1", "OMP_NUM_THREADS": "7"}, id="ours changed"),
        pytest.param({"A": "1"}, {"A": "1"}, id="ours deleted"),
    ],
)
def test_what_the_user_changed_meanwhile_stays(now: dict[str, str], after: dict[str, str]) -> None:
    """What was set for the workers goes; what somebody changed during the scope stays as they left it."""
    assert environment_after({"A": "1"}, {"A": "1", "OMP_NUM_THREADS": "2"}, now) == after


@pytest.mark.parametrize(("before", "after"), [({}, {}), ({"TOKENIZERS_PARALLELISM": "true"},) * 2])
def test_a_false_that_was_left_behind_is_nobodys_wish(before: dict[str, str], after: dict[str, str]) -> None:
    """`datasets` leaves TOKENIZERS_PARALLELISM=false where its pool cannot be built: the value before comes back."""
    assert environment_after(before, before, {"TOKENIZERS_PARALLELISM": "false"}) == after

"""The scope: start methods, environment and several threads; what is changed inside and what is left afterwards."""

from __future__ import annotations

import copy
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc.errors import ScopeBusy
from dataset_num_proc.machine.apply import applied
from tests.capabilities import needs_linux

MODULES = ("multiprocess", "multiprocessing")
OTHER = {"fork": "spawn", "spawn": "fork", "forkserver": "spawn"}
"""For each method, one that is not it, and is offered wherever there is more than one."""

in_both = pytest.mark.parametrize("module", MODULES)


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Every test starts with no start method fixed and ends with what was fixed before it."""
    before = {name: pinned(name) for name in MODULES}
    for name in MODULES:
        import_module(name).set_start_method(None, force=True)
    yield
    for name, method in before.items():
        import_module(name).set_start_method(method, force=True)


def pinned(module: str) -> str | None:
    """The start method that is fixed in `module`."""
    method: str | None = import_module(module).get_start_method(allow_none=True)
    return method


def default(module: str) -> str:
    """The start method that `module` takes when nothing is fixed."""
    name: str = import_module(module).get_start_method()
    import_module(module).set_start_method(None, force=True)
    return name


def in_c(name: str) -> str | None:
    """What C code sees."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    value: bytes | None = getenv(name.encode())
    return None if value is None else value.decode()


def as_datasets_does() -> None:
    """What every pooled map does to the environment."""
    earlier = copy.deepcopy(os.environ)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ = earlier  # noqa: B003 - the very thing that is tested


def elsewhere(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the work gives
    """`work` done by another thread."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(work).result(timeout=10)


@in_both
def test_the_start_method_is_changed_inside_alone(module: str) -> None:
    """C71: inside, the module starts by the method given; afterwards nothing is fixed, as before."""
    method = OTHER[default(module)]
    with applied(workers=2, start_method=method, module=module):
        assert pinned(module) == method
    assert [pinned(name) for name in MODULES] == [None, None]


@in_both
def test_a_fixed_start_method_is_fixed_again(module: str) -> None:
    """C71: what the program had chosen is what it has afterwards, after an error too."""
    method = OTHER[default(module)]
    import_module(module).set_start_method(method)
    with pytest.raises(KeyError), applied(workers=2, start_method=OTHER[method], module=module):
        raise KeyError(pinned(module) == OTHER[method])
    assert pinned(module) == method


@in_both
def test_asking_for_what_is_there_fixes_nothing(module: str) -> None:
    """C70: neither no method nor the one in use is set, so that the program may still choose."""
    for method in (None, default(module)):
        with applied(workers=2, start_method=method, module=module):
            assert pinned(module) is None


@in_both
def test_what_a_map_fixes_is_let_go(module: str) -> None:
    """C70: a pool fixes the default, and tqdm's lock that of the other module: afterwards neither is fixed."""
    with applied(workers=2):
        assert import_module(module).get_start_method() is not None
        assert pinned(module) is not None
    assert pinned(module) is None


@in_both
def test_somebody_elses_choice_stays(module: str) -> None:
    """A start method that somebody sets inside the scope, on purpose, is still set afterwards."""
    method = OTHER[default(module)]
    with applied(workers=2):
        import_module(module).set_start_method(method)
    assert pinned(module) == method


def test_a_method_that_is_not_offered_changes_nothing() -> None:
    """A start method that does not exist is the module's own error, and leaves everything as it was."""
    before = dict(os.environ)
    with pytest.raises(ValueError, match="teleport"), applied(workers=2, cpus=2, start_method="teleport"):
        pytest.fail("the scope was entered")
    assert (dict(os.environ), pinned("multiprocess")) == (before, None)
    with applied(workers=2, start_method=OTHER[default("multiprocess")]):
        pass


def test_no_workers_change_nothing() -> None:
    """Work in this process: no start method, no variable."""
    before = dict(os.environ)
    with applied(workers=0, cpus=2, start_method=OTHER[default("multiprocess")]):
        assert (dict(os.environ), pinned("multiprocess")) == (before, None)


def test_workers_get_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """C48: inside, Python and C see the limits, the user's own value is kept; afterwards all is as before."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    before = dict(os.environ)
    with applied(workers=8, cpus=16):
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM")
        assert [os.environ[name] for name in names] == ["2", "3", "false"]
        assert [in_c(name) for name in names] == ["2", "3", "false"]
    assert dict(os.environ) == before
    assert [in_c(name) for name in names] == [None, "3", None]


@pytest.mark.parametrize("value", [None, "true", "false"])
def test_what_datasets_leaves_is_undone(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    """After two maps have swapped mappings, `os.environ` is the same object, and Python and C agree with before."""
    if value is None:
        monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    else:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", value)
    mapping, before = os.environ, dict(os.environ)
    with applied(workers=2, cpus=2):
        as_datasets_does()
        as_datasets_does()
        assert os.environ is not mapping
    assert os.environ is mapping
    assert dict(os.environ) == before
    assert in_c("TOKENIZERS_PARALLELISM") == value


@pytest.mark.parametrize("maps", [0, 1, 2])
def test_the_users_changes_stay(monkeypatch: pytest.MonkeyPatch, maps: int) -> None:
    """What the user sets, changes or deletes inside stays so: before a map, after it, by an old name of the mapping."""
    for name in ("OMP_NUM_THREADS", "DNP_A", "DNP_B", "DNP_C", "DNP_D", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    os.environ["DNP_A"] = os.environ["DNP_D"] = "before"
    old_name = os.environ
    with applied(workers=2, cpus=8):
        os.environ["DNP_B"] = "early"
        for _ in range(maps):
            as_datasets_does()
        old_name["DNP_C"] = "by an old name"
        os.environ["OMP_NUM_THREADS"] = "5"
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        os.environ["DNP_B"] = "late"
        del os.environ["DNP_A"]
        os.environ["DNP_D"] = "changed"
    expected = {"DNP_B": "late", "DNP_C": "by an old name", "DNP_D": "changed", "OMP_NUM_THREADS": "5"}
    expected |= {"TOKENIZERS_PARALLELISM": "true"}
    for name in (*expected, "DNP_A"):
        assert (name, os.environ.get(name), in_c(name)) == (name, expected.get(name), expected.get(name))


def test_a_deletion_before_a_map_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user deletes the variable that a map then sets for C: afterwards it is gone, in C too."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    with applied(workers=2):
        del os.environ["TOKENIZERS_PARALLELISM"]
        as_datasets_does()
    assert (os.environ.get("TOKENIZERS_PARALLELISM"), in_c("TOKENIZERS_PARALLELISM")) == (None, None)


def test_a_change_taken_back_by_an_old_name_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch of `os.environ` that spans a map ends on the mapping that it began with: nothing of it stays."""
    monkeypatch.delenv("DNP_A", raising=False)
    with applied(workers=2, cpus=8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DNP_A", "1")
            as_datasets_does()
        assert os.environ.get("DNP_A") == "1"  # the copy has it still
    assert (os.environ.get("DNP_A"), in_c("DNP_A")) == (None, None)


@pytest.mark.parametrize("value", [None, "true"])
def test_a_false_left_in_c_by_an_earlier_map_is_mended(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    """Where a map outside any scope left C with a value that Python does not show, a scope mends that too."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", value or "")
    if value is None:
        del os.environ["TOKENIZERS_PARALLELISM"]
    as_datasets_does()
    try:
        assert in_c("TOKENIZERS_PARALLELISM") == "false"
        with applied(workers=2):
            pass
        assert (os.environ.get("TOKENIZERS_PARALLELISM"), in_c("TOKENIZERS_PARALLELISM")) == (value, value)
    finally:
        os.environ["TOKENIZERS_PARALLELISM"] = ""
        del os.environ["TOKENIZERS_PARALLELISM"]


def test_scopes_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inner scope has its own start method and limits, and restores the outer's, though it holds names set by it."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    outer, inner = default("multiprocess"), OTHER[default("multiprocess")]
    with applied(workers=2, cpus=8, start_method=outer):
        with applied(workers=4, cpus=8, start_method=inner):
            as_datasets_does()
            assert (pinned("multiprocess"), os.environ["OMP_NUM_THREADS"]) == (inner, "2")
        assert (pinned("multiprocess"), os.environ["OMP_NUM_THREADS"]) == (None, "4")
        assert in_c("TOKENIZERS_PARALLELISM") == "false"
    assert "OMP_NUM_THREADS" not in os.environ


@needs_linux
def test_a_fork_server_starts_with_the_users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server outlives the scope, so it is started before the variables are set: later uses of it are unlimited."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    forkserver = import_module("multiprocess.forkserver")._forkserver  # noqa: SLF001 - no public name has it
    forkserver._stop()  # noqa: SLF001 - what `multiprocess` tests itself with
    try:
        with applied(workers=2, cpus=2, start_method="forkserver"):
            assert "OMP_NUM_THREADS" in os.environ
            process = Path("/proc", str(forkserver._forkserver_pid))  # noqa: SLF001 - no public name has it
            assert "OMP_NUM_THREADS" not in (process / "environ").read_text(encoding="utf-8")
    finally:
        forkserver._stop()  # noqa: SLF001 - as above


def test_another_thread_with_the_same_method_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second thread shares what the first applied; the last one to leave restores it, whoever that is."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    method = OTHER[default("multiprocess")]
    first, second = (applied(workers=n, cpus=8, start_method=method) for n in (2, 4))
    first.__enter__()
    elsewhere(second.__enter__)
    first.__exit__(None, None, None)
    assert (pinned("multiprocess"), os.environ["OMP_NUM_THREADS"]) == (method, "4")
    with applied(workers=2, cpus=8, start_method=method):
        pass
    assert (pinned("multiprocess"), os.environ["OMP_NUM_THREADS"]) == (method, "4")
    elsewhere(lambda: second.__exit__(None, None, None))
    assert (pinned("multiprocess"), os.environ.get("OMP_NUM_THREADS")) == (None, None)


def entered(scope: AbstractContextManager[None]) -> bool:
    """Whether the scope lets the caller in."""
    try:
        with scope:
            return True
    except ScopeBusy as error:
        return "start method at" not in str(error)


def test_another_thread_with_another_method_is_refused() -> None:
    """C71: a second thread that needs a different start method gets an error, until the first has left."""
    with applied(workers=2, start_method="spawn"):
        assert not elsewhere(lambda: entered(applied(workers=2, start_method="fork")))
        assert elsewhere(lambda: entered(applied(workers=2)))
        assert elsewhere(lambda: entered(applied(workers=0, start_method="fork")))
        assert pinned("multiprocess") == "spawn"
    assert elsewhere(lambda: entered(applied(workers=2, start_method="fork")))


def test_nobody_changes_the_method_under_a_guest() -> None:
    """While another thread shares a scope, its owner cannot nest a different method; nor is a nest of two shared."""
    shared = applied(workers=2, start_method="spawn")
    with applied(workers=2, start_method="spawn"):
        elsewhere(shared.__enter__)
        assert not entered(applied(workers=2, start_method="fork"))
        elsewhere(lambda: shared.__exit__(None, None, None))
        with applied(workers=2, start_method="fork"):
            assert not elsewhere(lambda: entered(applied(workers=2, start_method="fork")))
            assert not elsewhere(lambda: entered(applied(workers=2)))
    assert pinned("multiprocess") is None


def test_many_threads_leave_nothing() -> None:
    """Threads that come and go in any order all get in, and leave the process as it was."""
    before, mapping = dict(os.environ), os.environ
    together = threading.Barrier(8)

    def come_and_go(number: int) -> None:
        together.wait(timeout=10)
        for _ in range(20):
            with applied(workers=1 + number, cpus=8, start_method="spawn"):
                assert pinned("multiprocess") == "spawn"

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(come_and_go, range(8)))
    assert (dict(os.environ), pinned("multiprocess"), pinned("multiprocessing")) == (before, None, None)
    assert os.environ is mapping

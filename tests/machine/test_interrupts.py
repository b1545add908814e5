"""Ctrl-C at the worst moments: it comes out, late by one step at most, and nothing is left half started."""

from __future__ import annotations

import signal
import threading

import pytest

from dataset_num_proc.machine.interrupts import postponed, whole
from tests.capabilities import needs_datasets, needs_linux
from tests.scripts import run


def press() -> None:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def test_it_comes_at_the_end_of_the_step() -> None:
    """The step is done, then the interrupt is raised; the handler is what it was."""
    before, done = signal.getsignal(signal.SIGINT), []

    @whole
    def step() -> None:
        press()
        done.append("all")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_goes_through_at_once() -> None:
    """A step that does not end can be ended."""
    done = []

    @whole
    def step() -> None:
        press()
        done.append("first")
        press()
        done.append("second")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["first"]


def test_steps_nest() -> None:
    """The outermost one lets it through."""
    done = []

    @whole
    def step() -> None:
        with postponed():
            press()
        done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["outer"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_that_is_not_pythons_stays(handler: signal.Handlers) -> None:
    """An ignored Ctrl-C is ignored inside too, and one that ends the process does."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        with postponed():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_none() -> None:
    """Handlers are the main thread's business; a step of another one is left alone."""
    seen = []

    def step() -> None:
        with postponed():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


AT_EACH_STEP = """
import json, os, signal, threading
import datasets
from dataset_num_proc import watch
from tests.left_running import left_running
datasets.disable_progress_bars()
rows, main, said = datasets.Dataset.from_dict({"x": list(range(4))}), os.getpid(), []

def pressed_after(stock, number):
    calls = []
    def step(*args):
        out = stock(*args)
        if os.getpid() == main:
            calls.append(1)
            if len(calls) == number:
                os.kill(main, signal.SIGINT)
        return out
    return step

for owner, name, number in STEPS:
    stock, kept = getattr(owner, name), None
    setattr(owner, name, pressed_after(stock, number))
    try:
        with watch():
            rows.map(lambda row: row, num_proc=2, load_from_cache_file=False)
    except KeyboardInterrupt as error:
        kept = error  # and with it the frames that hold pool and manager
    setattr(owner, name, stock)
    said.append([kept is not None, left_running()])
print(json.dumps(said))
"""
STEPS = """[
    (os, "fork", 1), (os, "fork", 2), (os, "fork", 3), (threading.Thread, "start", 1), (threading.Thread, "start", 3),
]"""


@needs_linux
@needs_datasets
def test_nothing_is_left_of_what_was_being_started() -> None:
    """After the fork of the manager, of either worker, and at the start of the watch's and of the pool's threads."""
    assert run("-c", AT_EACH_STEP.replace("STEPS", STEPS)).json() == [[True, []]] * 5

"""Applies a decision for the length of a scope: start method, worker environment, prepared children; then undoes it.

One job: `applied` changes this process as its workers need, and restores it in reverse order, on errors too. It may not
decide anything, nor start a worker.

All of it is process-wide state, so scopes of one thread nest, and scopes of several threads share what the first of
them applied, until the last has left.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module

from dataset_num_proc.errors import ScopeBusy
from dataset_num_proc.machine import children
from dataset_num_proc.machine.contexts import MODULES, next_method
from dataset_num_proc.policy.facts import FORKSERVER
from dataset_num_proc.policy.worker_environment import TOKENIZERS_PARALLELISM, environment_after, worker_environment


@contextmanager
def applied(
    *, workers: int, cpus: int | None = None, start_method: str | None = None, module: str = "multiprocess"
) -> Iterator[None]:
    """Makes this process ready for `workers` pool workers, and afterwards what it was before.

    Inside, pools of `module` start by `start_method`; workers find `TOKENIZERS_PARALLELISM=false` and thread limits
    where the user has set none; workers and managers, of both modules, begin as `children.ChildStart` says.
    Afterwards both modules have the start method, or none, that they had, unless somebody set another one meanwhile;
    `os.environ` is the same object as before and holds what the user changed meanwhile; C code sees the same values.
    A fork server and a resource tracker that were started stay: they are the module's own, and the fork server was
    started with the user's environment, not the workers'.

    Args:
        workers: how many there will be; 0 is work in this process, for which nothing is changed.
        cpus: processors that they share; `None` leaves thread limits alone.
        start_method: of `module`; `None` leaves it as it is.
        module: the process module that will start them, "multiprocess" or "multiprocessing".

    Raises:
        ScopeBusy: another thread is in a scope with a different start method.
        ValueError: `module` does not offer `start_method` here.
    """
    if workers < 1:
        yield
        return
    as_guest = _scopes.enter(workers, cpus, module, start_method)
    try:
        yield
    finally:
        _scopes.leave(as_guest=as_guest)


@dataclass
class _Scopes:
    """Who is in a scope: one thread, whose scopes nest, and guests that share what it applied.

    Attributes:
        owner: ident of the thread that entered first.
        depth: scopes that the owner is in.
        guests: scopes of other threads, or of the owner after it has left while guests were in.
        layers: what is applied, one undo per scope of the owner; more than `depth` while guests still need it.
        methods: the start method of either module in each layer.
        variables: what the layers set, without the user's own.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    owner: int | None = None
    depth: int = 0
    guests: int = 0
    layers: list[ExitStack] = field(default_factory=list)
    methods: list[dict[str, str]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def enter(self, workers: int, cpus: int | None, module: str, start_method: str | None) -> bool:
        """Applies, or joins what is applied; whether as a guest."""
        with self.lock:
            methods = {package: next_method(package) for package in MODULES}
            methods[module] = start_method or methods[module]
            if self.guests or (self.layers and self.owner != threading.get_ident()):
                self._check_shared(module, methods[module])
                self.guests += 1
                return True
            self.layers.append(self._apply(workers, cpus, module, methods))
            self.methods.append(methods)
            self.owner = threading.get_ident()
            self.depth += 1
            return False

    def leave(self, *, as_guest: bool) -> None:
        """Undoes, in reverse, what nobody needs any more."""
        with self.lock:
            if as_guest:
                self.guests -= 1
            else:
                self.depth -= 1
            while not self.guests and len(self.layers) > self.depth:
                self.methods.pop()
                self.layers.pop().close()

    def _check_shared(self, module: str, method: str) -> None:
        # Where the owner's scopes nest with different methods, one of them would end under the guest.
        others = {methods[module] for methods in self.methods} - {method}
        if others:
            message = (
                f"another thread's workers hold {module}'s start method at {', '.join(sorted(others))}, and this scope "
                f"needs {method}; wait for that thread, or give both the same start method"
            )
            raise ScopeBusy(message)

    def _apply(self, workers: int, cpus: int | None, module: str, methods: Mapping[str, str]) -> ExitStack:
        with ExitStack() as undo:
            for package, method in methods.items():
                undo.enter_context(_start_method(package, method))
            if methods[module] == FORKSERVER:
                # Before the environment is set: the server keeps what it starts with, for every later use of it.
                import_module(f"{module}.forkserver").ensure_running()
            own = {name for name, value in self.variables.items() if os.environ.get(name) == value}
            users = {name: value for name, value in os.environ.items() if name not in own}
            wanted = worker_environment(workers, cpus, users)
            undo.callback(setattr, self, "variables", self.variables)
            undo.enter_context(_environment(wanted))
            self.variables = {**self.variables, **wanted}
            if not self.layers:
                undo.enter_context(children.prepared())
            return undo.pop_all()


_scopes = _Scopes()


@contextmanager
def _start_method(package: str, method: str) -> Iterator[None]:
    """The package's start method for the scope's length.

    Entered for the method that is in use already too: a pooled map fixes it, in `multiprocessing` as well (by way of
    tqdm's lock), and what was not fixed before is not fixed afterwards.
    """
    module = import_module(package)
    before = module.get_start_method(allow_none=True)
    if method != next_method(package):
        module.set_start_method(method, force=True)
    try:
        yield
    finally:
        if module.get_start_method(allow_none=True) == method:  # else somebody has set another one, which is theirs
            module.set_start_method(before, force=True)


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """`wanted` in `os.environ` for the scope's length.

    Every pooled map of `datasets` sets `TOKENIZERS_PARALLELISM=false` and then puts a copy of the earlier mapping in
    the place of `os.environ`: Python shows the old value and C code the new one, and this process's own tokenizers work
    on one thread from then on. Names bound by `from os import environ` write to a mapping that nobody reads.
    """
    original = os.environ
    before = dict(original)
    original.update(wanted)
    inside = _values_in_c(original)
    try:
        yield
    finally:
        copy, os.environ = os.environ, original
        # C has the last write to each name, whichever mapping it went through.
        names = {*before, *original, *copy, *wanted}
        now = _values_in_c(names)
        now.pop(TOKENIZERS_PARALLELISM, None)  # where it is the map that wrote last
        if TOKENIZERS_PARALLELISM in copy:
            now[TOKENIZERS_PARALLELISM] = copy[TOKENIZERS_PARALLELISM]
        _write(environment_after(before, inside, now), names)


def _write(environment: Mapping[str, str], names: Iterable[str]) -> None:
    """Makes `os.environ` and C agree on `environment`, for these names."""
    in_c = _values_in_c(names := list(names))
    for name in names:
        value = environment.get(name)
        if os.environ.get(name) == in_c.get(name) == value:
            continue
        os.environ[name] = value or ""
        if value is None:
            # Set first: a name that the mapping lacks could not be deleted, and C would keep its value.
            del os.environ[name]


def _values_in_c(names: Iterable[str]) -> dict[str, str]:
    """What C code would get for these names, without those it would not."""
    if sys.platform == "win32":
        return {name: os.environ[name] for name in names if name in os.environ}
    # By way of PyDLL, which keeps the interpreter lock: no other thread's `os.putenv` moves the value meanwhile.
    getenv = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_char_p)(("getenv", ctypes.pythonapi))
    values = {name: getenv(os.fsencode(name)) for name in names}
    return {name: os.fsdecode(value) for name, value in values.items() if value is not None}

"""Starts workers by any method, without running the main script again, and without leaving one behind.

One job: processes. Fresh interpreters import the main module only where the encoder lives in it, and a fork server of
our own has imported the encoder's modules, once for all workers. It may not choose the method, nor talk to a worker.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing import spawn
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from dataset_num_proc.machine.children import ChildStart
from dataset_num_proc.machine.replaced import replaced
from dataset_num_proc.machine.variables import put
from dataset_num_proc.policy.facts import FORK, FORKSERVER

_lock = threading.Lock()
"""Held while a worker starts: names of the process modules are replaced for that moment."""


def _new_lock() -> None:
    """A forked child has the lock as it was, perhaps held by a thread that it does not have."""
    global _lock  # noqa: PLW0603 - there is one a process
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)

_MAIN_KEYS = ("init_main_from_name", "init_main_from_path")
_PATH = "PYTHONPATH"


@dataclass
class Starter:
    """Starts the workers of one pool.

    Attributes:
        method: the start method.
        modules: what a fork server imports before it forks.
        imports_main: whether a fresh interpreter imports the main module.
        variables: the environment of a fork server, beside this process's own; `None` takes a variable away.
        timeout: seconds that a fork server has for its imports.
    """

    method: str
    modules: tuple[str, ...]
    imports_main: bool
    variables: Mapping[str, str | None]
    timeout: float
    _server: Any = field(default=None, init=False)

    def start(self, target: Callable[..., None], args: tuple[Any, ...], name: str) -> BaseProcess:
        """A worker that has just been started.

        Raises:
            OSError: the system has no room for it.
            TimeoutError: the fork server does not answer.
            Exception: whatever `args` raise when they are pickled.
        """
        context: Any = multiprocessing.get_context(self.method)
        first = replace(ChildStart.of(target, "multiprocessing", self.method), environment={})
        process: BaseProcess = context.Process(target=first, args=args, name=name, daemon=True)
        if self.method == FORK:
            with _lock, _may_have_children():
                process.start()
            return process
        with _lock, _may_have_children(), _prepared_without_main(name, keep=self.imports_main):
            if self.method != FORKSERVER:
                process.start()
            else:
                with replaced(import_module("multiprocessing.forkserver"), "connect_to_new_process", self._connect):
                    self._start_by_server(process)
        return process

    def _start_by_server(self, process: BaseProcess) -> None:
        try:
            process.start()
        except (EOFError, ConnectionError):
            # A module that fails otherwise than by ImportError ends the server: a worker can say which, and why.
            self.close()
            self.modules = ()
            process.start()

    def _connect(self, descriptors: list[int]) -> tuple[int, int]:
        """The fork server's stock connection, to a server of our own, and with an end to the waiting for it.

        The module's own server may be up already without the encoder's modules, or with the main script imported.
        """
        if self._server is None:
            server = import_module("multiprocessing.forkserver").ForkServer()
            server.set_forkserver_preload(list(self.modules))
            with _environment(self.variables):
                server.ensure_running()
            self._server = server
        reader, writer = self._server.connect_to_new_process(descriptors)
        # The server's first word is the child's pid, and comes when its imports are done.
        if not wait([reader], self.timeout):
            os.close(reader)
            os.close(writer)
            message = f"the fork server is not done importing {', '.join(self.modules)} after {self.timeout:.0f} s"
            raise TimeoutError(message)
        return reader, writer

    def close(self) -> None:
        """Ends the fork server. Its workers have ended."""
        server, self._server = self._server, None
        if server is None or server._forkserver_pid is None:  # noqa: SLF001 - it has no public name
            return
        # It would end by itself, but only when nobody holds its pipe: any child forked meanwhile holds a copy.
        with suppress(ProcessLookupError):
            os.kill(server._forkserver_pid, signal.SIGKILL)  # noqa: SLF001 - likewise
        with suppress(OSError):
            server._stop()  # noqa: SLF001 - likewise


@contextmanager
def _may_have_children() -> Iterator[None]:
    """Lifts the ban on children of a daemon, such as a DataLoader's worker; who gets here has been told to start them.

    The ban is there because nobody would end them where the daemon is ended. These end by themselves.
    """
    config: dict[str, Any] = vars(multiprocessing.current_process())["_config"]
    daemon = config.get("daemon")
    config["daemon"] = False
    try:
        yield
    finally:
        config["daemon"] = daemon


@contextmanager
def _prepared_without_main(name: str, *, keep: bool) -> Iterator[None]:
    """Has the process of that name prepared without its main module; every other one as it always is.

    The stock preparation runs the main script again in each fresh interpreter, and an unguarded one then starts workers
    of its own, or trains.
    """
    stock = spawn.get_preparation_data

    def prepared(of: str) -> dict[str, Any]:
        data: dict[str, Any] = stock(of)
        if of == name and not keep:
            for key in _MAIN_KEYS:
                data.pop(key, None)
        return data

    with replaced(spawn, "get_preparation_data", prepared):
        yield


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """This process's environment as a fork server is to start with it; libraries read it as they are imported.

    The search path goes with it: before Python 3.12.4 a fork server does not take over the one of its client.
    """
    path = os.pathsep.join(entry for entry in spawn.get_preparation_data("path")["sys_path"] if isinstance(entry, str))
    before = {name: os.environ.get(name) for name in (*variables, _PATH)}
    put({**variables, _PATH: path})
    try:
        yield
    finally:
        put(before)


def variables_of_workers(wanted: Mapping[str, str]) -> dict[str, str | None]:
    """What workers set first: the limits of their libraries, and the search path that they had before a fork server."""
    return {**wanted, _PATH: os.environ.get(_PATH)}

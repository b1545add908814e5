"""A program with a pool and a manager, for tests that kill it: says who its children are, and waits.

One job: `pool_program.py MODULE METHOD THREAD` starts two workers and a manager by that method inside a scope, from the
main thread or another one, prints a JSON line with the children's pids, and sleeps.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from dataset_num_proc.machine.apply import applied


def busy(_: int) -> int:
    """A worker's pid, after long enough for the other worker to take the other task."""
    time.sleep(0.3)
    return os.getpid()


def start(module: str) -> tuple[Any, Any, list[int]]:
    """A pool and a manager, with the pids of their processes."""
    processes = import_module(module)
    pool, manager = processes.Pool(2), processes.Manager()
    return pool, manager, [*set(pool.map(busy, range(2), 1)), manager._process.pid]  # noqa: SLF001 - no public name has it


def main() -> None:
    """The program."""
    module, method, thread = sys.argv[1:]
    with applied(workers=2, start_method=method, module=module), ThreadPoolExecutor(1) as executor:
        started = start(module) if thread == "main" else executor.submit(start, module).result()
        sys.stdout.write(json.dumps(started[-1]) + "\n")
        sys.stdout.flush()
        time.sleep(60)


if __name__ == "__main__":
    main()

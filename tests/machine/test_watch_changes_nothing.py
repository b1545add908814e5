"""A watched scope leaves the process as a plain one would: contexts, environment, handlers, files, threads."""

from __future__ import annotations

from pathlib import Path

from tests.capabilities import needs_datasets, needs_linux
from tests.scripts import run

PROGRAM = """
import contextlib, faulthandler, gc, importlib, json, os, signal, sys, tempfile, threading, warnings

def same(row):
    return row

def ends(row):
    os._exit(3)

def files():
    names = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            names[number] = os.readlink("/proc/self/fd/" + number)
    return names

def attributes():
    owners = []
    for package in ("multiprocess", "multiprocessing"):
        names = ("pool", "managers", "process", "spawn")
        pool, managers, process, spawn = (importlib.import_module(package + "." + name) for name in names)
        owners += [pool.Pool, managers.BaseManager, process.BaseProcess, pool, managers, process, spawn]
    return [{name: id(value) for name, value in vars(owner).items()} for owner in owners]

def state():
    gc.collect()
    with warnings.catch_warnings():
        contexts = [
            (module.get_start_method(allow_none=True), id(module.context._default_context._actual_context))
            for module in (importlib.import_module(name) for name in ("multiprocess", "multiprocessing"))
        ]
    return {
        "contexts": contexts,
        "environment": dict(os.environ),
        "handlers": [signal.getsignal(number) for number in signal.valid_signals()],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "files": files(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "hooks": [sys.excepthook, sys.unraisablehook, threading.excepthook, faulthandler.is_enabled()],
        "temporary": [tempfile.template, tempfile.tempdir, sorted(os.listdir(tempfile.gettempdir()))],
        "attributes": attributes(),
        "folder": os.getcwd(),
        "filters": list(warnings.filters),
    }

if __name__ == "__main__":
    import datasets, multiprocess
    from dataset_num_proc import WorkerDied, watch
    datasets.disable_progress_bars()
    multiprocess.set_start_method("fork")
    rows = datasets.Dataset.from_dict({"x": [1, 2, 3, 4]})
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        rows.map(same, num_proc=2, load_from_cache_file=False)  # what it starts and sets for good is not the watch's
        before = state()
        with watch(stall_timeout=60):
            inside = state()
            rows.map(same, num_proc=2, load_from_cache_file=False)
        after = [state()]
        with contextlib.suppress(WorkerDied), watch():
            rows.map(ends, num_proc=2, load_from_cache_file=False)
        after.append(state())
    changed = [[name for name in before if one[name] != before[name]] for one in (inside, *after)]
    print(json.dumps(changed))
"""


@needs_linux
@needs_datasets
def test_a_watch_changes_nothing(tmp_path: Path) -> None:
    """After a scope in which all went well, and after one in which a worker died, all is as before.

    Inside, the process modules' own attributes are others: what is compared can be told apart.
    """
    (tmp_path / "program.py").write_text(PROGRAM)
    assert run(tmp_path / "program.py").json() == [["attributes"], [], []]

"""Public trouble reports: start methods fixed by somebody who only asked, or left changed by one who set them."""

from __future__ import annotations

from pathlib import Path

from tests import scripts
from tests.capabilities import needs_datasets

HEAD = """
import contextlib, io, json, os
import multiprocess, multiprocessing
import dataset_num_proc as dnp

SETTINGS = dnp.Settings(bytes_per_worker=1 << 20)

def methods():
    return [multiprocess.get_start_method(allow_none=True), multiprocessing.get_start_method(allow_none=True)]

def with_pid(row):
    return {"pid": os.getpid(), "method": multiprocess.get_start_method()}

def rows():
    from datasets import Dataset, disable_progress_bars
    disable_progress_bars()
    return Dataset.from_dict({"a": [1, 2, 3, 4]})
"""


def program(folder: Path, body: str) -> Path:
    """A guarded script with this body."""
    script = folder / "train.py"
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    script.write_text(f'{HEAD}\nif __name__ == "__main__":\n{lines}', encoding="utf-8")
    return script


ASK = """
from dataset_num_proc.__main__ import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["doctor"])
    main(["explain", "4"])
dnp.take_snapshot(), dnp.num_proc(4), dnp.plan(4, site="to_json"), dnp.plan(workload="packing")
dnp.mp_context(), dnp.mp_context("spawn", site="map"), dnp.encode(dnp.plan(0)), dnp.decode(4)
with dnp.workers(2, settings=SETTINGS):
    pass
asked = methods()
multiprocess.set_start_method("spawn"), multiprocessing.set_start_method("spawn")
print(json.dumps([asked, methods()]))
"""


def test_c70_pytorch_3492_asking_fixes_nothing(tmp_path: Path) -> None:
    """After every question both modules are still unset, and setting them works (pytorch/pytorch#3492)."""
    assert scripts.run(program(tmp_path, ASK)).json() == [[None, None], ["spawn", "spawn"]]


SPAWN_ONE_MAP = """
data, before = rows(), methods()
with dnp.workers(2, start_method="spawn", settings=SETTINGS) as count:
    inside = multiprocess.get_start_method(allow_none=True)
    mapped = data.map(with_pid, num_proc=count)
after = methods()
pids = set(mapped["pid"])
print(json.dumps([before, inside, len(pids), os.getpid() in pids, sorted(set(mapped["method"])), after]))
"""


@needs_datasets
def test_c71_datasets_6357_a_start_method_for_one_map(tmp_path: Path) -> None:
    """Inside a scope a map has spawned workers, and afterwards the default is as unset as before.

    Reported as huggingface/datasets#6357.
    """
    seen = scripts.run(program(tmp_path, SPAWN_ONE_MAP)).json()
    assert seen == [[None, None], "spawn", 2, False, ["spawn"], [None, None]]


RAISES = """
def refuses(row):
    raise ValueError("this row is bad")

data = rows()
multiprocess.set_start_method("fork")
caught = None
try:
    with dnp.workers(2, start_method="spawn", settings=SETTINGS) as count:
        data.map(refuses, num_proc=count)
except ValueError as error:
    caught = str(error)
print(json.dumps([caught, methods()[0], data.map(with_pid, num_proc=2)["method"][0]]))
"""


@needs_datasets
def test_c71_datasets_6357_restored_after_an_error(tmp_path: Path) -> None:
    """A worker's error comes out as it is, and the method that was set before is back, for the next map too."""
    assert scripts.run(program(tmp_path, RAISES)).json() == ["this row is bad", "fork", "fork"]

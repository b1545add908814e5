"""Programs that map where something goes wrong, and say as JSON what came of it.

One job: `map_program.py NAME FOLDER [GROUP]` runs the function of that name on a data set that it makes in the folder,
inside the control group if there is one. A file with a guarded main, as spawn needs it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import datasets

import dataset_num_proc as dnp

MIB = 1 << 20
ROWS = 8
NORMAL = dnp.Settings(min_rows=0, bytes_per_worker=MIB)


def data(folder: Path) -> Any:  # noqa: ANN401 - `datasets` is untyped here
    """A few rows on disk, with a file of somebody else's beside them."""
    datasets.Dataset.from_dict({"row": list(range(ROWS))}).save_to_disk(folder / "rows")
    (folder / "rows" / "tmp_of_another_process").touch()
    return datasets.load_from_disk(folder / "rows")


def temporary(folder: Path) -> list[str]:
    """The temporary files beside the data set."""
    return sorted(path.name for path in (folder / "rows").glob("tmp*"))


def outcome(folder: Path, function: Callable[..., Any], **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """What a map gave or raised, what was said, and what is left."""
    said: dict[str, Any] = {"error": None, "rows": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dnp.WorkersReduced)
        try:
            said["rows"] = dnp.map(data(folder), function, settings=NORMAL, **options)["twice"][:]
        except KeyboardInterrupt:
            said["error"] = "KeyboardInterrupt"
        except RuntimeError as error:
            verdict = getattr(error, "verdict", None)
            said |= {"error": str(error), "kind": type(error).__name__, "verdict": verdict and verdict.value}
    said["warnings"] = [str(item.message) for item in caught if issubclass(item.category, dnp.WorkersReduced)]
    return {**said, "left": temporary(folder), "children": len(import_module("multiprocess").active_children())}


def takes_memory(size: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Work on a row that holds that many bytes for a while."""

    def work(row: dict[str, Any]) -> dict[str, Any]:
        block = []
        for _ in range(size // (8 * MIB)):
            block.append(bytearray(b"x") * (8 * MIB))
            time.sleep(0.01)
        time.sleep(0.3)
        return {"twice": 2 * row["row"], "held": len(block)}

    return work


def steps_down(folder: Path) -> dict[str, Any]:
    """Four workers do not fit into the group, two do."""
    return outcome(folder, takes_memory(160 * MIB), num_proc=4)


def raises_at_once(folder: Path) -> dict[str, Any]:
    """The same, where the first death is to be an error."""
    return outcome(folder, takes_memory(160 * MIB), num_proc=4, on_death="raise")


def never_fits(folder: Path) -> dict[str, Any]:
    """One row takes more than the group has."""
    large = takes_memory(4096 * MIB)
    return outcome(folder, lambda row: large(row) if row["row"] == ROWS - 1 else {"twice": 0, "held": 0}, num_proc=2)


def interrupts(folder: Path) -> dict[str, Any]:
    """Ctrl-C while the workers write: every process of the group gets it."""

    def work(row: dict[str, Any]) -> dict[str, Any]:
        if row["row"] == 1:
            deadline = time.monotonic() + 5
            while len(temporary(folder)) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            (folder / "seen").write_text(str(len(temporary(folder))))
            os.killpg(os.getpgrp(), signal.SIGINT)
        time.sleep(0.2 if row["row"] in {0, ROWS // 2} else 10)
        return {"twice": 2 * row["row"]}

    return {**outcome(folder, work, num_proc=2), "seen": int((folder / "seen").read_text())}


def uses_a_guarded_global(row: dict[str, Any]) -> dict[str, Any]:
    """Work that reads what only the parent has."""
    return {"twice": FACTOR * row["row"]}


class DoesNotArrive:
    """A function that pickles and does not unpickle."""

    def __init__(self, *, arrived: bool = False) -> None:
        if arrived:
            message = "the vocabulary is not here"
            raise OSError(message)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The work."""
        return {"twice": 2 * row["row"]}

    def __reduce__(self) -> tuple[Any, ...]:
        return arrive, ()


def arrive() -> DoesNotArrive:
    """What a child calls to have the function."""
    return DoesNotArrive(arrived=True)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Work that arrives anywhere."""
    return {"twice": 2 * row["row"], "pid": os.getpid()}


def guarded_global(folder: Path) -> dict[str, Any]:
    """Spawned workers that lack a global, chosen by us."""
    return outcome(folder, uses_a_guarded_global, start_method="spawn")


def does_not_arrive(folder: Path) -> dict[str, Any]:
    """Spawned workers that cannot have the function, asked for."""
    return outcome(folder, DoesNotArrive(), start_method="spawn", num_proc=2)


def arrives(folder: Path) -> dict[str, Any]:
    """Spawned workers that can."""
    return outcome(folder, plain, start_method="spawn", num_proc=2)


PROGRAMS: tuple[Callable[[Path], dict[str, Any]], ...] = (
    steps_down,
    raises_at_once,
    never_fits,
    interrupts,
    guarded_global,
    does_not_arrive,
    arrives,
)

if __name__ == "__main__":
    FACTOR = 2
    datasets.disable_progress_bars()
    _, program, place, *group = sys.argv
    for directory in group:
        (Path(directory) / "cgroup.procs").write_text(str(os.getpid()))
    result = next(one for one in PROGRAMS if one.__name__ == program)(Path(place))
    sys.stdout.write(json.dumps(result) + "\n")

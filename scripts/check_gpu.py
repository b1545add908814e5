"""What only a machine with an NVIDIA device can show, in under four minutes.

    python scripts/check_gpu.py

- CUDA that torch has initialised is seen, and so is CUDA that another library has, by its open device nodes: the driver
  called through ctypes, and cupy where it is installed. To look initialises nothing.
- Packing workers that the policy chooses have nothing of CUDA, and make the same packs as this process.
- Fifty forked tokenizing maps after CUDA was initialised all pass (with `datasets`).
- A function that touches CUDA in a forked worker is named by the error; a plan that is told of it does not fork.

Each check is a process of its own under a time-out. Exits 1 where one fails. Where there is no device, or no torch that
can use one, it says so and exits 0.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dataset_num_proc as dnp
from dataset_num_proc.packing import EncoderPool, IterablePackingDataset

SECONDS = {"maps": 120.0}
SECONDS_OF_ANOTHER = 40.0
"""Six checks come to less than four minutes together, even where several are ended by it but the maps are not."""
TOTAL = 230.0
MAPS, ROWS = 50, 600
SKIPPED = "skipped: "


def cuda_up() -> Any:  # noqa: ANN401 - torch
    """Torch, with CUDA initialised."""
    import torch

    torch.zeros(1, device="cuda")
    return torch


def accelerators() -> frozenset[str]:
    """What a fresh look at this process finds."""
    return dnp.take_snapshot().process.accelerators


def check(right: object, what: str) -> None:
    """Ends this check with that word where something is not right."""
    if not right:
        sys.exit(what)


def torchs() -> str:
    """CUDA of torch is seen once it is up, and not before; to look leaves it down."""
    import torch
    from packs.cuda_encoders import nodes

    held = nodes()  # a driver's library may open one when it is loaded
    before = accelerators()
    check("cuda" not in before, f"seen before it was up: {before}")
    check(not torch.cuda.is_initialized() and nodes() == held, "to look initialised CUDA")
    cuda_up()
    check("cuda" in accelerators(), f"not seen: {accelerators()}")
    return f"before {sorted(before)}, then {sorted(accelerators())}"


def drivers() -> str:
    """CUDA of a program without torch is seen by its device nodes."""
    check(not accelerators(), f"seen before it was up: {accelerators()}")
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    steps = (
        driver.cuInit(0),
        driver.cuDeviceGet(ctypes.byref(device), 0),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    )
    check(not any(steps), f"the driver refuses: {steps}")
    return _seen_by_nodes()


def cupys() -> str:
    """CUDA of cupy is seen by its device nodes."""
    if importlib.util.find_spec("cupy") is None:
        return f"{SKIPPED}cupy is not installed"
    importlib.import_module("cupy").zeros(1)
    return _seen_by_nodes()


def _seen_by_nodes() -> str:
    found = accelerators()
    check(any(name.startswith("/dev/nvidia") for name in found), f"not seen: {found}")
    check("torch" not in sys.modules, "to look imported torch")
    decision = dnp.plan(2, workload=dnp.Workload.PACKING)
    check(decision.start_method != "fork", f"packing workers would be forked: {decision}")
    return f"seen {', '.join(sorted(found))}; packing by {decision.start_method}"


def packing() -> str:
    """Workers that the policy chooses are clean, and pack as this process does."""
    cuda_up()
    from packs.cuda_encoders import looking

    packed: list[list[list[int]]] = []
    pids: set[int] = set()
    method = None
    for workers in (0, 2):
        with IterablePackingDataset(None, range(ROWS), workers, encode=looking, packing_length=32) as stream:
            packs = list(stream)
            method = stream.pool.decision.start_method if stream.pool.decision else None
        packed.append([[item["input_ids"][0] for item in pack] for pack in packs])
        if workers:
            items = [item for pack in packs for item in pack]
            pids = {item["pid"] for item in items}
            dirty = [item for item in items if item["cuda"] or item["nodes"]]
            check(not dirty, f"a worker has CUDA: {dirty[:1]}")
    check(method in {"forkserver", "spawn"} and os.getpid() not in pids, f"workers by {method}, pids {pids}")
    check(packed[0] == packed[1], "other packs than in this process")
    return f"{len(packed[0])} packs by {len(pids)} workers, {method}"


def maps() -> str:
    """Forked maps that only tokenize pass."""
    if importlib.util.find_spec("datasets") is None:
        return f"{SKIPPED}datasets is not installed"
    cuda_up()
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    table = Dataset.from_dict({"text": [f"row {row} of a few words" for row in range(ROWS)]})
    for number in range(MAPS):
        with dnp.workers(2, rows=ROWS, start_method="fork") as count:
            check(count == 2, f"a map has {count} workers")  # noqa: PLR2004 - as asked for
            done = table.map(_tokens, num_proc=count, load_from_cache_file=False)
        check(done["count"][-1] == len(table[ROWS - 1]["text"].split()), f"map {number} gave other rows")
    return f"{MAPS} maps with two forked workers each"


def _tokens(row: dict[str, Any]) -> dict[str, int]:
    return {"count": len(row["text"].split())}


def touching() -> str:
    """A function that touches CUDA in a forked worker is named, and a plan that knows of it does not fork."""
    cuda_up()
    from packs.cuda_encoders import touching_cuda

    error: BaseException | None = None
    try:
        with EncoderPool(touching_cuda, workers=2, start_method="fork", strict=True) as pool:
            list(pool.encode(range(8)))
    except RuntimeError as raised:
        error = raised
    check("CUDA" in str(error), f"no word of CUDA: {error!r}")
    trace = str(error.__cause__ if error else "")
    check("touching_cuda" in trace, f"the function is not named: {trace}")
    decision = dnp.plan(2, touches_accelerator=True)
    codes = [reason.code for reason in decision.reasons]
    forks = decision.workers and decision.start_method == "fork"
    check(not forks and dnp.ReasonCode.ACCELERATOR_FORK in codes, f"a map would fork: {decision}")
    return str(error).partition("\n")[0]


CHECKS: dict[str, tuple[str, Callable[[], str]]] = {
    "torch": ("CUDA of torch is seen without initialising it", torchs),
    "driver": ("CUDA of a program without torch is seen", drivers),
    "cupy": ("CUDA of cupy is seen", cupys),
    "packing": ("packing workers are clean, and pack the same", packing),
    "touching": ("a function that touches CUDA in a forked worker is named", touching),
    "maps": (f"{MAPS} forked tokenizing maps with CUDA up", maps),
}


def no_device() -> str | None:
    """Why there is nothing to check here; `None` where there is."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if not any(Path("/dev").glob("nvidia[0-9]*")) and not Path("/dev/dxg").exists():
        return "there is no NVIDIA device"
    program = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, check=False)  # noqa: S603 - ours
    return "torch finds no CUDA device that it can use" if done.returncode else None


def run(name: str, most: float) -> tuple[str, str]:
    """A verdict of a check, and its last word."""
    command = [sys.executable, "-W", "ignore", __file__, "--check", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most, check=False)  # noqa: S603 - ours
    except subprocess.TimeoutExpired:
        return "FAILED", f"not done after {most:.0f} s"
    word = ((done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or ["no word"])[-1]
    if done.returncode:
        return "FAILED", word
    return ("skipped", word.removeprefix(SKIPPED)) if word.startswith(SKIPPED) else ("ok", word)


def main() -> int:
    """Run the checks, print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", choices=CHECKS, help="run this one alone, in this process")
    name = parser.parse_args().check
    if name:
        print(CHECKS[name][1]())
        return 0
    why = no_device()
    if why:
        print(f"Nothing to check here: {why}.")
        return 0
    begun, failed = time.monotonic(), 0
    for one, (text, _) in CHECKS.items():
        left = TOTAL - (time.monotonic() - begun)
        verdict, word = run(one, max(1.0, min(SECONDS.get(one, SECONDS_OF_ANOTHER), left)))
        failed += verdict == "FAILED"
        print(f"{verdict:<8}{text}: {word}", flush=True)
    print(f"{len(CHECKS)} checks in {time.monotonic() - begun:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

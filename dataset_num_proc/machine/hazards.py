"""Live state that makes a fork unsafe: accelerators, collective runtimes, native threads, an import in progress.

One job: to see what is up in this process. It may not import any of it (only what `sys.modules` holds is asked), nor
ask anything that could wake a driver up: a call such as `device_count()` starts the very state that it looks for.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import takewhile
from types import FrameType
from typing import Any

from dataset_num_proc.machine.files import Reader, shown

_TORCH_DEVICES = ("cuda", "xpu", "npu", "mlu", "musa", "hpu")
# NVIDIA, AMD and Intel (compute and render), Huawei Ascend, Habana. Held open by whatever library uses the device:
# cupy, numba, pycuda and others have no flag that could be read.
_DEVICE_NODES = (b"/dev/nvidia", b"/dev/kfd", b"/dev/dri/render", b"/dev/davinci", b"/dev/hl")
_NVIDIA_NODE = re.compile(rb"nvidia\d+")
_DEVICE_NAME = re.compile(r"\d+|(GPU|MIG)-.+", re.ASCII)
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
# The functions that hold a module's import lock while its code runs, and where they keep its name.
_LOCKED_BY: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "_find_and_load": lambda names: names["name"],
    "_exec": lambda names: names["spec"].name,
    "_load": lambda names: names["spec"].name,
}


def accelerators(reader: Reader) -> frozenset[str]:
    """Accelerator runtimes that are up here."""
    # Not `getattr`, which torch answers for some names by importing a module.
    torch = getattr(sys.modules.get("torch"), "__dict__", {})
    found = {name for name in _TORCH_DEVICES if name in torch and _up(torch[name], "is_initialized", reader)}
    # Private, and read without a call: every public function of JAX starts a backend first.
    if getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None):
        found.add("jax")
    return frozenset(found)


def open_devices(reader: Reader) -> frozenset[str]:
    """Device nodes of accelerators among the open files of this process."""
    found = set()
    directory = b"/proc/self/fd/"
    for name in reader.names(directory):
        try:
            target = os.readlink(reader.prefix + directory + name)  # noqa: PTH115 - bytes, and quicker
        except OSError:  # closed meanwhile, as the descriptor of this listing is
            continue
        if target.startswith(_DEVICE_NODES):
            found.add(shown(target))
    return frozenset(found)


def accelerator_count(environ: Mapping[str, str], reader: Reader) -> int | None:
    """Accelerators visible to this process, `None` where only a driver could tell.

    `CUDA_VISIBLE_DEVICES` counts up to its first invalid entry, which is how CUDA itself reads it.
    """
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = (name.strip() for name in chosen.split(","))
        return sum(1 for _ in takewhile(_DEVICE_NAME.fullmatch, names))
    return _live_nvidia_nodes() if reader.live else _nvidia_nodes(reader)


@lru_cache(maxsize=1)
def _live_nvidia_nodes() -> int | None:
    """Counted once: a device does not come or go under a program, and /dev is long."""
    return _nvidia_nodes(Reader())


def _nvidia_nodes(reader: Reader) -> int | None:
    return sum(1 for name in reader.names(b"/dev") if _NVIDIA_NODE.fullmatch(name)) or None


def distributed(reader: Reader) -> bool:
    """Whether a collective runtime is up here."""
    modules = [module for name in ("torch.distributed", "deepspeed.comm") if (module := sys.modules.get(name))]
    # Builds of torch without collectives keep the module, and lack the second function.
    return any(
        (not hasattr(module, "is_available") or _up(module, "is_available", reader))
        and _up(module, "is_initialized", reader)
        for module in modules
    )


def runtimes(reader: Reader) -> frozenset[str]:
    """Other runtimes up here whose threads do not survive a fork."""
    ray = sys.modules.get("ray")
    return frozenset({"ray"} if ray and _up(ray, "is_initialized", reader) else ())


def _up(module: Any, question: str, reader: Reader) -> bool:  # noqa: ANN401 - a module that was never imported here
    """The answer to a module's own question; false, and noted, where it fails, as a half-imported module may."""
    try:
        return bool(getattr(module, question, bool)())
    except Exception as error:  # noqa: BLE001 - whatever a foreign module raises, a probe goes on
        reader.note(getattr(module, "__name__", question), f"{type(error).__name__}: {error}")
        return False


def thread_count(reader: Reader) -> int | None:
    """Threads that the kernel counts in this process, those of Python and of native libraries."""
    if sys.platform.startswith("linux"):
        return len(reader.names(b"/proc/self/task")) or None
    try:
        import psutil

        return int(psutil.Process().num_threads())
    except Exception as error:  # noqa: BLE001 - psutil raises errors of its own, and may be missing
        reader.note("process.threads", f"psutil: {error}")
        return None


def importing(frame: FrameType | None) -> str | None:
    """The module whose import is in progress on this thread, `None` where there is none.

    A pool started there waits for ever: its workers inherit the import lock, held by a thread that they do not have.
    Running a script, `python -m` and runpy are no imports.

    Args:
        frame: the innermost frame to look at.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _IMPORT_SYSTEM and code.co_name in _LOCKED_BY:
            return _LOCKED_BY[code.co_name](frame.f_locals)
        frame = frame.f_back
    return None

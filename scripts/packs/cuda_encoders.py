"""Encoders for a machine with CUDA: one that looks whether its worker is clean of it, and one that touches it.

One job: to be importable by a fresh worker, whose module imports torch as those of training frameworks do.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch


def looking(row: int) -> dict[str, Any]:
    """Tokens, and what of CUDA is up in the process that encoded them."""
    return {
        "input_ids": [row] * (1 + row % 7),
        "cuda": torch.cuda.is_initialized(),
        "nodes": nodes(),
        "pid": os.getpid(),
    }


def touching_cuda(row: int) -> dict[str, Any]:
    """Uses the device, which a process that was forked from one that has used it cannot."""
    return {"input_ids": torch.full((1 + row % 7,), row, device="cuda").tolist()}


def nodes() -> list[str]:
    """NVIDIA's device nodes that this process holds open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the listing's own is closed by now
            found.add(str(descriptor.readlink()))
    return sorted(one for one in found if one.startswith("/dev/nvidia"))

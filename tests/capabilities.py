"""What this machine can do, probed: the only reasons for which a test may be skipped.

One job: a mark for each capability, such as `needs_root`. Nothing here may change the machine, import what it probes
for, or skip by itself.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

REASON_PREFIX = "capability: "


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a test needs of the machine.

    Attributes:
        name: what it is, in a few words.
        present: whether it is here.
        installable: whether the project's own set-up puts it here. Its absence then is a fault of the set-up, not of
            the machine, and excuses no skip in CI.
    """

    name: str
    present: bool
    installable: bool = False

    @property
    def reason(self) -> str:
        """The reason that pytest reports for a test skipped for the lack of it."""
        return f"{REASON_PREFIX}{self.name} is not here"

    @property
    def excuses(self) -> bool:
        """Whether a test may be skipped for the lack of it even where skips are strict."""
        return not self.present and not self.installable

    @property
    def needed(self) -> pytest.MarkDecorator:
        """The mark of a test that needs it."""
        return pytest.mark.skipif(not self.present, reason=self.reason)


def memory_controller_v1() -> Path | None:
    """The directory of the cgroup v1 memory controller, where groups can be made in it; `None` elsewhere.

    Probed by permission alone: making a group to find out would leave one behind if the run is killed at that moment.
    """
    directory = Path("/sys/fs/cgroup/memory")
    writable = (directory / "memory.limit_in_bytes").exists() and os.access(directory, os.W_OK | os.X_OK)
    return directory if writable else None


def processor_has_tiles() -> bool:
    """Whether the processor has tile registers (AMX).

    A user-mode-linux of version 6.1 keeps a process's registers in a space of fixed size, which these overflow: it dies
    at its first process, with "ptrace set fp regs failed, errno = 14".
    """
    try:
        return b" amx_tile" in Path("/proc/cpuinfo").read_bytes()
    except OSError:
        return False


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


_linux = sys.platform.startswith("linux")

LINUX = Capability("Linux", _linux)
ROOT = Capability("the superuser", hasattr(os, "geteuid") and os.geteuid() == 0)
MEMORY_V1 = Capability("a writable cgroup v1 memory controller", memory_controller_v1() is not None)
USER_MODE_LINUX = Capability(
    "user-mode-linux on a processor that it runs on",
    shutil.which("linux") is not None and not processor_has_tiles(),
    # Debian builds the package for x86 only.
    installable=_linux and platform.machine() == "x86_64" and not processor_has_tiles(),
)


def _newer_datasets() -> bool:
    return _installed("datasets") and int(version("datasets").partition(".")[0]) >= 4


DATASETS = Capability("datasets", _installed("datasets"), installable=True)
# Before it the count is part of a map's cache key, and answers that memory bounds step down.
DATASETS_4 = Capability("datasets 4 or newer", _newer_datasets(), installable=True)
# Comes with `datasets`, and with torch where that is used.
NUMPY = Capability("numpy", _installed("numpy"), installable=True)
TOKENIZERS = Capability("tokenizers", _installed("tokenizers"), installable=True)
POLARS = Capability("polars", _installed("polars"))
# The test extra pins torch on this Python alone: the suite reads it through `sys.modules`, so one version is enough.
TORCH = Capability("torch", _installed("torch"), installable=sys.version_info[:2] == (3, 11))


def _cuda_device() -> bool:
    """Probed by the nodes and the build alone: to ask torch would take its import."""
    nodes = any(Path("/dev").glob("nvidia[0-9]*"))
    return nodes and _installed("torch") and not version("torch").endswith("+cpu")


CUDA = Capability("an NVIDIA device, with a torch for it", _cuda_device())

CAPABILITIES = (LINUX, ROOT, MEMORY_V1, USER_MODE_LINUX, DATASETS, DATASETS_4, NUMPY, POLARS, TOKENIZERS, TORCH, CUDA)

needs_linux = LINUX.needed
needs_root = ROOT.needed
needs_memory_v1 = MEMORY_V1.needed
needs_user_mode_linux = USER_MODE_LINUX.needed
needs_datasets = DATASETS.needed
needs_datasets_4 = DATASETS_4.needed
needs_numpy = NUMPY.needed
needs_polars = POLARS.needed
needs_tokenizers = TOKENIZERS.needed
needs_torch = TORCH.needed
needs_cuda = CUDA.needed

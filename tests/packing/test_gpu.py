"""What the script for a machine with an NVIDIA device says, with one and without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities import needs_cuda

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_gpu.py"


def check(**environment: str) -> subprocess.CompletedProcess[str]:
    """The script, in this process's environment and that."""
    variables = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1]), **environment}
    return subprocess.run([sys.executable, str(SCRIPT)], env=variables, capture_output=True, text=True, check=False)


@needs_cuda
@pytest.mark.timeout(300)
def test_every_check_passes() -> None:
    """With a device: hazards are seen, workers are clean, forked maps pass, and who touches CUDA is named."""
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "6 checks" in done.stdout


@pytest.mark.timeout(60)
def test_without_a_device_it_says_so() -> None:
    """Where no device may be used there is nothing to check, which is no failure."""
    done = check(CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Nothing to check here: ")

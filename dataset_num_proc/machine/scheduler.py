"""What a batch scheduler or the user declares in the environment, as ceilings by variable name.

One job: to read the variables of Slurm, PBS, SGE and LSF, and `PYTHON_CPU_COUNT`. It may not raise an answer: a
declaration is a promise not to use more, and the machine may well give less. What cannot be understood is noted and
ignored.

- Slurm: https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
- PYTHON_CPU_COUNT: https://docs.python.org/3/using/cmdline.html#envvar-PYTHON_CPU_COUNT
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dataset_num_proc.machine.files import Reader

_PER_PROCESS = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "PBS_NUM_PPN", "PBS_NCPUS", "NCPUS", "PYTHON_CPU_COUNT")
VARIABLES = frozenset(
    {
        *_PER_PROCESS,
        *("SLURM_JOB_CPUS_PER_NODE", "SLURM_NODEID", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU"),
        *("NSLOTS", "NHOSTS", "LSB_DJOB_NUMPROC", "LSB_DJOB_HOSTFILE", "LSB_HOSTS"),
    }
)

_PER_NODE = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?", re.ASCII)
_SIZE = re.compile(r"(\d{1,15})([KMGT]?)", re.ASCII | re.IGNORECASE)
# Slurm counts in mebibytes unless told otherwise, whatever its manual's "MB" suggests.
_UNITS = {"K": 1 << 10, "": 1 << 20, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LONGEST = 18  # digits; anything longer is no count, and `int` refuses thousands of them


def whole_number(text: str) -> int | None:
    """The number that `text` is, `None` where it is not one of at least 0."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST else None


def per_node(text: str, node: int | None) -> int | None:
    """This node's count from Slurm's short form: "16(x2),8" is two nodes with 16 and one with 8.

    Args:
        text: the value of a variable.
        node: this node's index in the list; `None` or out of range gives the least of all.
    """
    matches = [_PER_NODE.fullmatch(part) for part in text.strip().split(",")]
    runs = [(int(match[1]), int(match[2] or 1)) for match in matches if match]
    if len(runs) < len(matches):
        return None
    passed = 0
    for count, nodes in runs:
        passed += nodes
        if node is not None and node < passed:
            return count
    return min(count for count, _ in runs)


def declared_cpus(environ: Mapping[str, str], reader: Reader) -> dict[str, int]:
    """Processors by variable name, each at least 1.

    Counts of a whole job over several hosts (`NSLOTS`, `LSB_DJOB_NUMPROC`) are left out: they say nothing of this one.
    """
    declared: dict[str, int | None] = {
        name: whole_number(environ[name])
        for name in _PER_PROCESS
        if name in environ and environ[name].strip() not in {"", "default"}
    }
    if "SLURM_JOB_CPUS_PER_NODE" in environ:
        node = whole_number(environ.get("SLURM_NODEID", ""))
        declared["SLURM_JOB_CPUS_PER_NODE"] = per_node(environ["SLURM_JOB_CPUS_PER_NODE"], node)
    if "NSLOTS" in environ and environ.get("NHOSTS", "1").strip() in {"", "1"}:
        declared["NSLOTS"] = whole_number(environ["NSLOTS"])
    if "LSB_DJOB_NUMPROC" in environ and len(_lsf_hosts(environ, reader)) <= 1:
        declared["LSB_DJOB_NUMPROC"] = whole_number(environ["LSB_DJOB_NUMPROC"])
    for name, count in declared.items():
        if not count:
            reader.note(name, f"{environ[name]!r} is not a count of processors")
    return {name: count for name, count in declared.items() if count}


def _lsf_hosts(environ: Mapping[str, str], reader: Reader) -> set[bytes]:
    """The hosts of an LSF job: from its host file, which has a line for each slot, else from the variable."""
    data = reader.read(os.fsencode(environ["LSB_DJOB_HOSTFILE"])) if environ.get("LSB_DJOB_HOSTFILE") else None
    return set((os.fsencode(environ.get("LSB_HOSTS", "")) if data is None else data).split())


def declared_memory(environ: Mapping[str, str], local_ranks: int, reader: Reader) -> dict[str, int]:
    """Bytes on this node by variable name. 0 stands for all of the node's memory, and so declares nothing.

    Args:
        environ: the environment.
        local_ranks: tasks on this node, for memory per cpu where Slurm does not say how many cpus it gave.
        reader: where values that cannot be understood are noted.
    """
    declared = {}
    for name in ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU"):
        if name not in environ:
            continue
        size = _slurm_bytes(environ[name])
        cpus = 1 if name == "SLURM_MEM_PER_NODE" else _slurm_cpus(environ, local_ranks)
        if size is None:
            reader.note(name, f"{environ[name]!r} is not a size in MiB")
        elif cpus is None:
            reader.note(name, "neither SLURM_CPUS_ON_NODE nor SLURM_CPUS_PER_TASK says of how many cpus")
        elif size:
            declared[name] = size * cpus
    return declared


def _slurm_bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    return int(match[1]) * _UNITS[match[2].upper()] if match else None


def _slurm_cpus(environ: Mapping[str, str], local_ranks: int) -> int | None:
    on_node = whole_number(environ.get("SLURM_CPUS_ON_NODE", ""))
    per_task = whole_number(environ.get("SLURM_CPUS_PER_TASK", ""))
    return on_node or (per_task * local_ranks if per_task else None)

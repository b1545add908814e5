"""Which of how many ranks of a distributed run this process is on its node.

One job: to read what launchers put into the environment. It may not ask a collective runtime, which need not be up yet.

Ranks on one node share its memory and, mostly, its processors, so a count that fits one rank is too many for eight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dataset_num_proc.machine.files import Reader
from dataset_num_proc.machine.scheduler import per_node, whole_number

SLURM = "Slurm"


class Ranks(NamedTuple):
    """This process's place on its node: its rank where a launcher gave one, the number of ranks, and the launcher."""

    local_rank: int | None = None
    local_world_size: int = 1
    launcher: str | None = None


class _Launcher(NamedTuple):
    name: str
    rank: str
    sizes: tuple[str, ...]
    signs: tuple[str, ...]
    """The variables of which one at least must be set for this launcher to be the one."""


def _launcher(name: str, rank: str, *sizes: str) -> _Launcher:
    return _Launcher(name, rank, sizes, (rank, *sizes))


# The innermost launcher first: torchrun is started by mpirun or srun, never the other way round.
_LAUNCHERS = (
    _Launcher("torchrun", "LOCAL_RANK", ("LOCAL_WORLD_SIZE", "LOCAL_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")),
    _launcher("Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    _launcher("MVAPICH", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    _launcher("Intel MPI", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher(
        SLURM,
        "SLURM_LOCALID",
        ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
        # A shell inside an allocation has the sizes as well, and is no task of it.
        ("SLURM_LOCALID", "SLURM_PROCID"),
    ),
    _launcher("DeepSpeed", "LOCAL_RANK", "LOCAL_SIZE"),
)
_NODES = ("SLURM_JOB_NUM_NODES", "NNODES", "SLURM_NNODES")
VARIABLES = frozenset(
    {name for launcher in _LAUNCHERS for name in (launcher.rank, *launcher.sizes, *launcher.signs)}
    | {*_NODES, "WORLD_SIZE", "SLURM_NODEID"}
)


def local_ranks(environ: Mapping[str, str], reader: Reader) -> Ranks:
    """This process's place on its node, from the variables of the first launcher that has set any.

    A size that is missing is the world's size spread over the nodes, and never less than the rank says there must be.
    Values that cannot be understood are noted, and one rank is assumed.
    """
    launcher = next((one for one in _LAUNCHERS if not environ.keys().isdisjoint(one.signs)), None)
    if launcher is None:
        return Ranks()
    rank = _number(environ, launcher.rank, reader) if launcher.rank in environ else None
    stated = next((name for name in launcher.sizes if name in environ), None)
    if stated is not None:
        size = _number(environ, stated, reader)
    else:
        size = _spread_world(environ, reader) if rank is not None else None
    return Ranks(rank, max(size or 1, 0 if rank is None else rank + 1), launcher.name)


def _spread_world(environ: Mapping[str, str], reader: Reader) -> int | None:
    """Ranks of the world over the nodes, rounded up."""
    world = _number(environ, "WORLD_SIZE", reader) if "WORLD_SIZE" in environ else None
    named = next((name for name in _NODES if name in environ), None)
    nodes = _number(environ, named, reader) if named else None
    return None if world is None else -(-world // (nodes or 1))


def _number(environ: Mapping[str, str], name: str, reader: Reader) -> int | None:
    """A variable's number, on this node where it lists them by node; noted where it is none."""
    node = whole_number(environ.get("SLURM_NODEID", ""))
    number = per_node(environ[name], node) if name.endswith("_PER_NODE") else whole_number(environ[name])
    if number is None:
        reader.note(name, f"{environ[name]!r} is not a whole number of at least 0")
    return number

"""What schedulers and launchers put into the environment: ceilings, and this process's place on its node."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataset_num_proc.machine.files import Reader
from dataset_num_proc.machine.probe import environment, take_snapshot
from dataset_num_proc.machine.ranks import Ranks, local_ranks
from dataset_num_proc.machine.scheduler import declared_cpus, declared_memory, per_node
from tests.machine.recorded import recorded_machine

GIB, MIB = 1 << 30, 1 << 20


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"SLURM_CPUS_PER_TASK": "8"}, {"SLURM_CPUS_PER_TASK": 8}),
        (
            {"SLURM_CPUS_ON_NODE": "64", "SLURM_CPUS_PER_TASK": "8"},
            {"SLURM_CPUS_ON_NODE": 64, "SLURM_CPUS_PER_TASK": 8},
        ),
        ({"SLURM_JOB_CPUS_PER_NODE": "16(x2),8"}, {"SLURM_JOB_CPUS_PER_NODE": 8}),
        ({"SLURM_JOB_CPUS_PER_NODE": "16(x2),8", "SLURM_NODEID": "1"}, {"SLURM_JOB_CPUS_PER_NODE": 16}),
        ({"SLURM_JOB_CPUS_PER_NODE": "16(x2),8", "SLURM_NODEID": "2"}, {"SLURM_JOB_CPUS_PER_NODE": 8}),
        ({"PBS_NUM_PPN": "4"}, {"PBS_NUM_PPN": 4}),
        ({"PBS_NCPUS": "4", "NCPUS": "3"}, {"PBS_NCPUS": 4, "NCPUS": 3}),
        ({"NSLOTS": "6"}, {"NSLOTS": 6}),
        ({"NSLOTS": "6", "NHOSTS": "1"}, {"NSLOTS": 6}),
        ({"NSLOTS": "6", "NHOSTS": "3"}, {}),
        ({"LSB_DJOB_NUMPROC": "12"}, {"LSB_DJOB_NUMPROC": 12}),
        ({"LSB_DJOB_NUMPROC": "12", "LSB_HOSTS": "a a a"}, {"LSB_DJOB_NUMPROC": 12}),
        ({"LSB_DJOB_NUMPROC": "12", "LSB_HOSTS": "a a b"}, {}),
        ({"PYTHON_CPU_COUNT": "2"}, {"PYTHON_CPU_COUNT": 2}),
        ({"PYTHON_CPU_COUNT": "default"}, {}),
        ({"OMP_NUM_THREADS": "1"}, {}),
        ({"SLURM_CPUS_PER_TASK": ""}, {}),
    ],
)
def test_declared_cpus(environ: dict[str, str], expected: dict[str, int]) -> None:
    """Each variable is a ceiling under its own name; those of a whole job are, on one host only."""
    reader = Reader()
    assert declared_cpus(environ, reader) == expected
    assert reader.unreadable == []


@pytest.mark.parametrize("text", ["0", "-4", "four", "4.5", "4,4", "9" * 5000, "²", "1e3"])
@pytest.mark.parametrize("name", ["SLURM_CPUS_PER_TASK", "NSLOTS", "LSB_DJOB_NUMPROC", "PYTHON_CPU_COUNT"])
def test_malformed_cpus(name: str, text: str) -> None:
    """A value that is no count declares nothing, and is said."""
    reader = Reader()
    assert declared_cpus({name: text}, reader) == {}
    assert [entry.what for entry in reader.unreadable] == [name]


@pytest.mark.parametrize(
    ("text", "node", "expected"),
    [
        ("16", None, 16),
        ("16(x2),8", 0, 16),
        ("16(x2),8", 7, 8),
        ("4,16(x999999999)", 5, 16),
        ("16(x2),", None, None),
        ("x", None, None),
        ("", None, None),
        ("16(x2", None, None),
    ],
)
def test_per_node(text: str, node: int | None, expected: int | None) -> None:
    """Slurm's short form is read without writing it out: the run of nodes may be any length."""
    assert per_node(text, node) == expected


def test_lsf_host_file(tmp_path: Path) -> None:
    """The host file of LSF has a line for each slot; two hosts in it make the count one of a whole job."""
    (tmp_path / "hosts").write_text("a\na\n")
    environ = {"LSB_DJOB_NUMPROC": "2", "LSB_DJOB_HOSTFILE": "/hosts", "LSB_HOSTS": "a b"}
    assert declared_cpus(environ, Reader(tmp_path)) == {"LSB_DJOB_NUMPROC": 2}
    (tmp_path / "hosts").write_text("a\nb\n")
    assert declared_cpus(environ, Reader(tmp_path)) == {}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"SLURM_MEM_PER_NODE": "64000"}, {"SLURM_MEM_PER_NODE": 64000 * MIB}),
        ({"SLURM_MEM_PER_NODE": "64G"}, {"SLURM_MEM_PER_NODE": 64 * GIB}),
        ({"SLURM_MEM_PER_NODE": "1t"}, {"SLURM_MEM_PER_NODE": 1024 * GIB}),
        ({"SLURM_MEM_PER_NODE": "2048K"}, {"SLURM_MEM_PER_NODE": 2 * MIB}),
        ({"SLURM_MEM_PER_NODE": "0"}, {}),
        ({"SLURM_MEM_PER_CPU": "2000", "SLURM_CPUS_ON_NODE": "8"}, {"SLURM_MEM_PER_CPU": 16000 * MIB}),
        ({"SLURM_MEM_PER_CPU": "2000", "SLURM_CPUS_PER_TASK": "4"}, {"SLURM_MEM_PER_CPU": 24000 * MIB}),
    ],
)
def test_declared_memory(environ: dict[str, str], expected: dict[str, int]) -> None:
    """Slurm's memory is in MiB and for the whole node, three tasks of it here; 0 means all there is, so no ceiling."""
    reader = Reader()
    assert declared_memory(environ, 3, reader) == expected
    assert reader.unreadable == []


@pytest.mark.parametrize(
    "environ", [{"SLURM_MEM_PER_NODE": "much"}, {"SLURM_MEM_PER_NODE": "-1"}, {"SLURM_MEM_PER_CPU": "2000"}]
)
def test_malformed_memory(environ: dict[str, str]) -> None:
    """A size that cannot be understood, or belongs to an unknown number of cpus, declares nothing, and is said."""
    reader = Reader()
    assert declared_memory(environ, 1, reader) == {}
    assert [entry.what for entry in reader.unreadable] == list(environ)


SLURM_TASK = {"SLURM_PROCID": "9", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Ranks()),
        ({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8"}, Ranks(3, 8, "torchrun")),
        ({"LOCAL_WORLD_SIZE": "8"}, Ranks(None, 8, "torchrun")),
        ({"LOCAL_RANK": "0", "LOCAL_SIZE": "4"}, Ranks(0, 4, "torchrun")),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, Ranks(1, 2, "Open MPI")),
        ({"MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, Ranks(1, 2, "MVAPICH")),
        ({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, Ranks(1, 2, "Intel MPI")),
        ({"LOCAL_SIZE": "4"}, Ranks(None, 4, "DeepSpeed")),
        ({**SLURM_TASK, "SLURM_STEP_TASKS_PER_NODE": "4(x2),2", "SLURM_NODEID": "2"}, Ranks(1, 2, "Slurm")),
        ({**SLURM_TASK, "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_NTASKS_PER_NODE": "8"}, Ranks(1, 4, "Slurm")),
        ({**SLURM_TASK, "SLURM_NTASKS_PER_NODE": "8", "SLURM_TASKS_PER_NODE": "2"}, Ranks(1, 8, "Slurm")),
        ({**SLURM_TASK, "SLURM_TASKS_PER_NODE": "8(x2)"}, Ranks(1, 8, "Slurm")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS_PER_NODE": "8"}, Ranks(None, 8, "Slurm")),
        # A shell inside `salloc` has the allocation's variables, and is no task.
        ({"SLURM_TASKS_PER_NODE": "8", "SLURM_NTASKS_PER_NODE": "8"}, Ranks()),
        # torchrun inside srun: the inner launcher knows how many there are.
        (
            {**SLURM_TASK, "SLURM_NTASKS_PER_NODE": "1", "LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8"},
            Ranks(5, 8, "torchrun"),
        ),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "8"}, Ranks(0, 8, "torchrun")),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "9", "NNODES": "2"}, Ranks(0, 5, "torchrun")),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "8", "SLURM_JOB_NUM_NODES": "4", "NNODES": "1"}, Ranks(0, 2, "torchrun")),
        ({"LOCAL_RANK": "5"}, Ranks(5, 6, "torchrun")),
        ({"LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "4"}, Ranks(5, 6, "torchrun")),
        ({"RANK": "3", "WORLD_SIZE": "8"}, Ranks()),
    ],
)
def test_local_ranks(environ: dict[str, str], expected: Ranks) -> None:
    """The first launcher that left variables says the place; a missing size is computed, and never below the rank."""
    reader = Reader()
    assert local_ranks(environ, reader) == expected
    assert reader.unreadable == []


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"LOCAL_RANK": "-1"}, ["LOCAL_RANK"]),
        ({"LOCAL_RANK": "a", "LOCAL_WORLD_SIZE": "b"}, ["LOCAL_RANK", "LOCAL_WORLD_SIZE"]),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "-8"}, ["LOCAL_WORLD_SIZE"]),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "8.0"}, ["WORLD_SIZE"]),
        ({"SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": "4(y2)"}, ["SLURM_STEP_TASKS_PER_NODE"]),
    ],
)
def test_nonsense_ranks(environ: dict[str, str], said: list[str]) -> None:
    """Nonsense is said, and one rank is assumed."""
    reader = Reader()
    assert local_ranks(environ, reader).local_world_size == 1
    assert [entry.what for entry in reader.unreadable] == said


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, True),
        ({"SLURM_CPUS_PER_TASK": ""}, False),
        ({"SLURM_CPUS_PER_TASK": "3"}, False),
        ({"SLURM_STEP_TASKS_PER_NODE": "26"}, True),
        ({"SLURM_STEP_TASKS_PER_NODE": "27"}, False),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8"}, False),
    ],
)
def test_cpus_per_rank(changes: dict[str, str], own: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a column of the table
    """Ranks have cpus of their own where Slurm gave each some, the mask is no wider, and there are enough for all."""
    root = recorded_machine("slurm-v1").write(tmp_path)  # 104 cpus, of which four are in the mask
    environ = {"SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "8", "SLURM_CPUS_PER_TASK": "4", **changes}
    (root / "environ").write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    assert environment(root) == environ
    assert take_snapshot(root).process.cpus_per_rank is own

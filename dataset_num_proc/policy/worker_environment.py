"""The environment that workers should have, where the user has set none, and the one to leave behind.

One job: counts and mappings in, mappings out. It may not read or change any environment.
"""

from __future__ import annotations

from collections.abc import Mapping

TOKENIZERS_PARALLELISM = "TOKENIZERS_PARALLELISM"
"""Read by Rust tokenizers at each batch. In a forked child their thread pool hangs where the parent had used it."""

THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
"""Sizes of the thread pools of OpenMP (PyTorch and Arrow too), the BLAS libraries, numexpr, Rust and polars.

Unset, each pool takes every processor in every worker: N workers on N processors run N² threads.
"""

WORKER_VARIABLES = (TOKENIZERS_PARALLELISM, *THREAD_LIMITS)


def worker_environment(workers: int, cpus: int | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to set for `workers` workers, over and above `environ`.

    Args:
        workers: processes that will work side by side; 0 is none, and needs nothing.
        cpus: processors that all of them share; `None` is not known, and leaves the thread pools alone.
        environ: what is set already. A name in it is the user's own, an empty value too, and is never in the answer.
    """
    if workers < 1:
        return {}
    wanted = {TOKENIZERS_PARALLELISM: "false"}
    if cpus is not None:
        wanted.update(dict.fromkeys(THREAD_LIMITS, str(max(1, cpus // workers))))
    return {name: value for name, value in wanted.items() if name not in environ}


def environment_after(before: Mapping[str, str], inside: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The environment to leave when a scope ends: the one before it, with what the user changed meanwhile.

    Args:
        before: as it was when the scope began.
        inside: as the scope then made it.
        now: as it is when the scope ends.
    """
    after = dict(before)
    for name in inside.keys() | now.keys():
        value = now.get(name)
        # Where building its pool fails, `datasets` leaves this one false: that is nobody's wish.
        left_behind = name == TOKENIZERS_PARALLELISM and value == "false"
        if left_behind or value == inside.get(name):
            continue
        if value is None:
            after.pop(name, None)
        else:
            after[name] = value
    return after

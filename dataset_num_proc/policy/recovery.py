"""After a death: the next try, or none.

One job: from the tries so far and the memory there is now, how many workers to go on with. It may not move a crash into
the parent: what did not die for memory is not tried again, and in this process only what fits with room to spare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataset_num_proc.policy.autopsy import Evidence, Verdict
from dataset_num_proc.policy.case import available_memory
from dataset_num_proc.policy.ceilings import FEWEST
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.request import Settings

_SIGKILL = 9


@dataclass(frozen=True, slots=True)
class Try:
    """One try that ended with a death.

    Attributes:
        workers: how many there were.
        verdict: what ended the first that died.
        by_kill: its status is SIGKILL's. An allocation that fails under a limit of each process (`ulimit -v`) aborts,
            and would abort whoever tries it again.
        peak_bytes: the most memory that any one worker held at once; `None` where it was not seen.
        peak_at_most: what no worker of it can have held more than, where that is known.
    """

    workers: int
    verdict: Verdict
    by_kill: bool = True
    peak_bytes: int | None = None
    peak_at_most: int | None = None

    @classmethod
    def of(cls, workers: int, verdict: Verdict, evidence: Evidence) -> Try:
        """What `evidence` says of a try with that many workers."""
        peaks = [evidence.peak_bytes, *(death.peak_bytes for death in evidence.deaths)]
        by_kill = bool(evidence.deaths) and evidence.deaths[0].exit_code == -_SIGKILL
        return cls(workers, verdict, by_kill, max((peak for peak in peaks if peak), default=None))


@dataclass(frozen=True, slots=True)
class Step:
    """What to do after a death, and the figures it rests on.

    Attributes:
        workers: how many to go on with; 0 is "in this process", `None` is "not at all".
        for_memory: whether the death was one that fewer workers might have avoided.
        peak_bytes: the most memory that any one worker held in any of the tries.
        available: bytes that this rank may take now.
    """

    workers: int | None
    for_memory: bool
    peak_bytes: int | None = None
    available: int | None = None


def next_step(tries: Sequence[Try], snapshot: Snapshot, settings: Settings, *, retry_killed: bool = False) -> Step:
    """The step after the last of `tries`.

    Workers: as many as their peak goes into the memory there is now, and at most half of the last try's, so that a few
    tries reach the end. All the memory counts for them: one that is killed again costs a try and not the run. In this
    process there is no such second chance, and a killed worker would have grown further: one peak, or where none was
    seen what no worker can have passed, has to fit into `Settings.memory_share` of it.

    Args:
        tries: all so far, at least one; the last one decides, the peaks of all count.
        snapshot: the machine as it is now, after the workers have ended.
        settings: the operator's word; its override does not bind here.
        retry_killed: also try again where SIGKILL came and nothing shows that the kernel sent it for memory.
    """
    last = tries[-1]
    retried = {Verdict.OUT_OF_MEMORY, Verdict.KILLED} if retry_killed else {Verdict.OUT_OF_MEMORY}
    if last.verdict not in retried or not last.by_kill or not last.workers:
        return Step(None, for_memory=False)
    peak = max((one.peak_bytes for one in tries if one.peak_bytes), default=None)
    on_node = available_memory(snapshot)[0]
    available = None if on_node is None else on_node // snapshot.process.local_world_size
    workers = (last.workers + 1) // 2
    if peak is not None and available is not None:
        workers = min(workers, available // peak)
    if workers >= FEWEST:
        return Step(workers, for_memory=True, peak_bytes=peak, available=available)
    bound = peak if peak is not None else last.peak_at_most
    fits = bound is not None and available is not None and bound <= available * settings.memory_share
    return Step(0 if fits else None, for_memory=True, peak_bytes=peak, available=available)

"""A worker's death in words, for the one who has to do something about it.

One job: wording. Every figure comes from the evidence; nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Sequence

from dataset_num_proc.policy.autopsy import Death, Evidence, Stalled, Verdict, last_error
from dataset_num_proc.policy.ceilings import FEWEST
from dataset_num_proc.policy.decision import Decision
from dataset_num_proc.report import count_of, sentence, size

_MOST_STACKS = 4
_WIDTH = 160
_TEXT_OF_START = "bootstrapping phase"


def death_message(verdict: Verdict, evidence: Evidence, decision: Decision | None = None, *, no_retry: str = "") -> str:
    """The message of a `WorkerDied`: who, of what, what was seen, what was decided, and one next step.

    Args:
        verdict: what is to be said.
        evidence: what was seen.
        decision: what the workers were started on.
        no_retry: why there is no further try, where some were made or might have helped.
    """
    lines = [_headline(verdict, evidence)]
    parts = (
        ("means", _ONE_ROW if _with_one_row(evidence) else verdict.__doc__ or ""),
        ("work", _work(evidence)),
        ("seen", _seen(verdict, evidence)),
        ("said", _said(evidence)),
        ("others", _others(evidence)),
        ("decided", _decided(decision)),
        ("retry", no_retry),
        ("next", _next(verdict, evidence, None if no_retry else _fewer(decision))),
    )
    lines += [f"  {name:<8} {text}" for name, text in parts if text]
    return "\n".join(lines)


def teardown_message(stuck: Sequence[Stalled]) -> str:
    """The message of a `StuckInTeardown`: what of the work is done, who would not end, and where it was."""
    number = len(stuck)
    who = f"{number} worker{'s' if number != 1 else ''}"
    return (
        f"Stuck in teardown: all results are there, but {who} did not end when told to, and had to be killed\n"
        f"  seen     {_stacks(stuck)}\n"
        "  next     look for what holds it there: a thread that is no daemon, a handler of SIGTERM, an exit hook"
    )


def _headline(verdict: Verdict, evidence: Evidence) -> str:
    word = f"{'very likely ' if _only_likely(verdict, evidence) else ''}{verdict.value.replace('-', ' ')}"
    if evidence.deaths:
        death = evidence.deaths[0]
        return f"{_name(death)} {_end(death)}: {word}"
    if verdict is Verdict.STALLED:
        one = _with_one_row(evidence)
        if one is not None and one.rows is not None:
            return f"Worker {one.pid} has had row {one.rows[0]} for {evidence.stalled_for:.0f} s: {word}"
        number = len(evidence.stalled)
        return f"{number} worker{'s' if number != 1 else ''} did nothing for {evidence.stalled_for:.0f} s: {word}"
    return f"A worker could not be started: {word}"


def _with_one_row(evidence: Evidence) -> Stalled | None:
    """The worker that has had one row for longer than a row may take."""
    return next((one for one in evidence.stalled if one.rows is not None), None)


def _only_likely(verdict: Verdict, evidence: Evidence) -> bool:
    return verdict is Verdict.OUT_OF_MEMORY and not evidence.memory.proven


def _name(death: Death) -> str:
    return f"{'Manager' if death.role == 'manager' else 'Worker'} {death.pid}"


def _end(death: Death) -> str:
    if death.exit_code is None:
        return "ended"
    if death.exit_code < 0:
        return f"was ended by signal {-death.exit_code} ({death.signal})"
    return f"exited with status {death.exit_code}"


def _work(evidence: Evidence) -> str:
    if not evidence.deaths:
        return ""
    death = evidence.deaths[0]
    shard = f"shard {death.shard}" if death.shard is not None else ""
    if death.rows is None:
        return shard
    first, last = death.rows[0], max(death.rows[1] - 1, death.rows[0])
    rows = f"row {first}" if first == last else f"within rows {first} to {last}"
    return f"{shard + ', ' if shard else ''}{rows}"


def _seen(verdict: Verdict, evidence: Evidence) -> str:
    memory = evidence.memory
    first = evidence.deaths[0] if evidence.deaths else None
    if verdict is Verdict.OUT_OF_MEMORY or (first is not None and first.signal == "SIGKILL"):
        peak = (first.peak_bytes if first is not None else None) or evidence.peak_bytes
        held = f"; the worker held {size(peak)} at most" if peak else ""
        limit = f"; limit {size(memory.limit)}" if memory.limit is not None else ""
        return f"{_kills(evidence)}{limit}{held}"
    if verdict is Verdict.BUS_ERROR:
        return f"{size(evidence.shm_free)} free in /dev/shm, {size(evidence.disk_free)} on the disk for temporary files"
    if verdict is Verdict.ABORTED and evidence.address_space is not None:
        # That it was this cannot be known from here; that it is possible is more than most think of.
        return f"each process may map {size(evidence.address_space)} (ulimit -v); one that is refused more may abort"
    if verdict is Verdict.START_FAILED and not evidence.deaths and evidence.pids_free is not None:
        return f"{evidence.pids_free} processes and threads may still be started"
    return _stacks(evidence.stalled)


def _kills(evidence: Evidence) -> str:
    memory = evidence.memory
    if memory.group_kills:
        return f"{memory.source} counted {memory.before} → {(memory.before or 0) + memory.group_kills} kills for memory"
    if memory.named_in_kernel_log:
        return "the kernel's log names it as killed for memory"
    if memory.group_kills is None and memory.ancestor_kills:
        return f"{memory.source}, a group above, counted {memory.ancestor_kills} kills for memory"
    if memory.group_kills is None and memory.host_kills:
        return f"the machine counted {memory.host_kills} kills for memory, the group's own counter cannot be read"
    if memory.group_kills is None and memory.host_kills is None:
        return "no counter of kills for memory can be read"
    return "no kill for memory was counted: a user, a scheduler or a memory guard sent it"


def _said(evidence: Evidence) -> str:
    death = evidence.deaths[0] if evidence.deaths else None
    text = (death.error if death else "") or evidence.start_error
    if text:
        return _short(last_error(text))
    if death is None or not death.trace:
        return ""
    frames = [line.strip() for line in death.trace.splitlines() if line.strip()]
    where = next((line for line in frames if line.startswith("File ")), "")
    return _short(f"{frames[0]}; {where}" if where else frames[0])


def _stacks(stalled: Sequence[Stalled]) -> str:
    workers = []
    for worker in stalled[:_MOST_STACKS]:
        # The worker's own thread stands last, after those of libraries.
        own = worker.stack.rpartition("Current thread 0x")[2]
        frames = [line.strip() for line in own.splitlines() if line.strip().startswith("File ")]
        state = "stopped by a signal" if worker.state in {"T", "t"} else "waiting"
        where = "; ".join(frames[:2]) or "its stack could not be had"
        workers.append(_short(f"{worker.pid} {state}: {where}"))
    return "\n           ".join(workers)


def _others(evidence: Evidence) -> str:
    gone = [f"{_name(death)} {_end(death)}" for death in evidence.deaths[1:4]]
    return _short("; ".join(gone)) if gone else ""


def _decided(decision: Decision | None) -> str:
    if decision is None:
        return ""
    way = f" by {decision.start_method}" if decision.workers else ""
    return _short(f"{count_of(decision.workers)}{way} ({decision.binding.code.value}: {sentence(decision.binding)})")


def _fewer(decision: Decision | None) -> str | None:
    """The setting for half the workers, never for 1, which is a pool too; `None` where there were as few as can be."""
    if decision is None:
        return f"DATASET_NUM_PROC={FEWEST}"
    return f"DATASET_NUM_PROC={max(decision.workers // 2, FEWEST)}" if decision.workers > FEWEST else None


def _next(verdict: Verdict, evidence: Evidence, fewer: str | None) -> str:
    stopped = next((worker.pid for worker in evidence.stalled if worker.state in {"T", "t"}), None)
    if verdict is Verdict.STALLED and stopped is not None:
        return f"see who stops worker {stopped}; `kill -CONT {stopped}` lets it go on"
    if verdict is Verdict.STALLED and evidence.importing is not None:
        return (
            f"move the map under a function: it runs while {evidence.importing} is imported, and waits for that import"
        )
    if verdict is Verdict.START_FAILED:
        return _next_of_start(evidence, fewer)
    if _with_one_row(evidence) is not None:
        return "see what the encoder does with that row; where it may take so long, allow more: item_timeout"
    if verdict is Verdict.OUT_OF_MEMORY:
        return f"use fewer workers ({fewer}), or {_SMALLER}" if fewer else f"have one worker hold less: {_SMALLER}"
    return _NEXT[verdict]


def _next_of_start(evidence: Evidence, fewer: str | None) -> str:
    text = evidence.start_error + "".join(death.error for death in evidence.deaths[:1])
    if _TEXT_OF_START in text:
        return 'put the work of the main script under `if __name__ == "__main__":`'
    if "AF_UNIX" in text or "_get_default_tempdir" in text:  # the latter is Python 3.13.0 on the way to the former
        return "set TMPDIR to a short path, such as /tmp: the manager's socket lives there"
    return f"use fewer workers: {fewer}" if fewer else "map in this process: DATASET_NUM_PROC=0"


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


_SMALLER = "a smaller batch_size and writer_batch_size"
_ONE_ROW = "One row has taken longer than the time that was allowed for it."
_ALONE = "map a few of these rows with num_proc=None"
_NEXT = {
    Verdict.KILLED: "look for who sent it: `dmesg | tail`, the scheduler's log, earlyoom or systemd-oomd",
    Verdict.SEGFAULT: f"{_ALONE} in a process of its own: `python -X faulthandler`",
    Verdict.BUS_ERROR: "free /dev/shm (docker: --shm-size) or the disk, or find who truncates a file in use",
    Verdict.ABORTED: f"{_ALONE} in a process of its own: what it wrote to stderr says why",
    Verdict.SIGNALLED: "look for who sent it: a scheduler, a preemption, a time limit",
    Verdict.EXITED: "look for os._exit or sys.exit in the function and in the libraries that it calls",
    Verdict.IMPORT_FAILED: "move the function to a module that a fresh interpreter can import, or use fork",
    Verdict.MANAGER_DIED: "see what ended it: `dmesg | tail`",
    Verdict.STALLED: "start clean workers: DATASET_NUM_PROC_START_METHOD=forkserver",
    Verdict.UNKNOWN: f"{_ALONE} in a process of its own",
}

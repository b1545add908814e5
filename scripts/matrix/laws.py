"""The laws, each checked on one cell.

One job: to say what must hold of an answer, reckoned here from the facts alone. It shares no arithmetic and no table
with the rules, or a mistake in them would be one here as well.
"""

from __future__ import annotations

from collections.abc import Callable

from dataset_num_proc.errors import SiteError
from dataset_num_proc.policy.decision import Decision, ReasonCode
from dataset_num_proc.policy.facts import MainModule
from matrix.answers import Cell

LAWS = {
    1: "no workers on a start method that cannot support them",
    2: "never 1 at a map site, on any datasets release",
    3: 'never None at a config site whose reader takes it for "choose for me", while workers are usable',
    4: "never more workers than memory covers, over all local ranks together",
    5: "never over the cap on the automatic path",
    6: "the override is verbatim, except where it cannot run, and then said",
    7: "deterministic, and the same on every local rank",
    8: "monotone: more cpus, memory or rows never gives fewer workers, a new limit never gives more",
    9: "idempotent: asking for the answer gives it; config followed by site keeps in-process in-process and n at n",
    10: "round trip: decide after decode after encode is the identity",
    11: "the binding reason's limit is the answer, and every lowered request has a reason",
    12: "replayable: from_json(to_json(snapshot)) == snapshot",
}

STDLIB_POOLS = frozenset(
    {
        "to_json",
        "to_csv",
        "to_sql",
        "axolotl.multipack",
        "ms_swift.packing_num_proc",
        "dataloader",
        "executor",
    }
)
"""Sites whose workers the standard library starts; `multiprocess` starts those of all others."""
SELF_STARTING = frozenset({"joblib"})
"""Sites whose workers are fresh interpreters of their own making, whatever either module says."""
BOTH_POOLS = frozenset({"load_dataset", "ms_swift.dataset_num_proc"})
"""Sites that start workers by both: the download step of `load_dataset` has a pool of the standard library's."""
SPAWNED_SAVES = frozenset({"save_to_disk", "push_to_hub"})
POOL_AT_ONE = frozenset(
    {
        "map",
        "filter",
        "batch",
        "flatten_indices",
        "save_to_disk",
        "push_to_hub",
        "load_dataset",
        "trl.config",
        "unsloth.config",
    }
)
"""Map sites, and configs that hand their value to one as it is. On some releases 1 builds a pool there, or 0 raises."""
CHOOSES_AT_NONE = frozenset({"unsloth.sft_config", "unsloth.responses_only", "axolotl.config", "executor"})
SPEECHLESS = {"ms_swift.dataset_num_proc": (4, 1), "ms_swift.packing_num_proc": (0,), "executor": (0,)}
"""Sites that cannot say "in this process", from this `datasets` release on."""
READERS = {
    "trl.config": ("map",),
    "unsloth.config": ("map",),
    "unsloth.sft_config": ("map",),
    "unsloth.responses_only": ("map", "filter"),
    "axolotl.config": ("map", "filter"),
    "ms_swift.dataset_num_proc": ("load_dataset", "map"),
}
"""Where the value of a config site is read."""
MAP_CAP, WAITING_MAP_CAP, WINDOWS_CAP = 32, 64, 60


def modules_of(site: str, workload: str) -> tuple[str, ...]:
    """The modules that start the workers of a site, the one that the decision speaks of first."""
    if site in SELF_STARTING:
        return ()
    first = "multiprocessing" if site in STDLIB_POOLS or workload == "packing" else "multiprocess"
    return (first, "multiprocessing") if site in BOTH_POOLS else (first,)


def obstacle(cell: Cell) -> str | None:
    """Why no worker could be started or used here, by the start method of the decision; `None` where it could."""
    process, request, method = cell.machine.process, cell.request, cell.decision.start_method
    if process.importing or request.streaming or request.side_effects:
        return "an import in progress, a streamed data set or side effects"
    if method == "fork" and request.touches_accelerator and process.accelerators:
        return "the accelerator is of no use in a forked child"
    if method != "fork" and request.spawn_ready is False:
        return "a fresh interpreter could not import the function"
    methods = cell.machine.snapshot.start_methods
    used = [
        (module, getattr(methods, module).method if place else method)
        for place, module in enumerate(modules_of(request.site, request.workload.value))
    ]
    return next((why for module, its in used if (why := _unsupported(cell, module, its))), None)


def _unsupported(cell: Cell, module: str, method: str | None) -> str | None:
    """Why `module` could not start workers by `method`."""
    process = cell.machine.process
    if process.daemonic[module]:
        return f"a daemon of {module}"
    if method is None or method not in getattr(cell.machine.snapshot.start_methods, module).offered:
        return f"{module} does not offer {method}"
    if method == "fork":
        return "fork is not safe here" if process.platform == "darwin" or "xpu" in process.accelerators else None
    main_is_needed = cell.request.workload.value == "map"
    if main_is_needed and process.main not in {MainModule.MODULE, MainModule.FILE}:
        return "a fresh interpreter could not import the main module"
    return None


def law_1(cell: Cell) -> str | None:
    """Workers only where they can be started, and by the method that the site would really use."""
    if not cell.decision.workers:
        return None
    if cell.settings.override is None and (why := obstacle(cell)):
        return why
    return None if cell.request.site in SELF_STARTING else _wrong_method(cell)


def _wrong_method(cell: Cell) -> str | None:
    """How the method of the decision is not the one that the site would use; `None` where it is."""
    request, method = cell.request, cell.decision.start_method
    mapping = request.workload.value == "map"
    if mapping and request.site in SPAWNED_SAVES and cell.machine.datasets >= (4, 8):
        return None if method == "spawn" else f"{method}, but the site spawns"
    first = modules_of(request.site, request.workload.value)[0]
    real = getattr(cell.machine.snapshot.start_methods, first).method
    if mapping and request.start_method is None and method != real:
        return f"{method}, but the site would use {real}"
    if request.start_method not in (None, "auto") and method not in (None, request.start_method):
        return f"{method}, but {request.start_method} was asked for"
    return None


def law_2(cell: Cell) -> str | None:
    """A map site gets `None` or at least two."""
    if cell.decision.workers == 1 or cell.decision.workers < 0:
        return f"{cell.decision.workers} workers"
    if cell.request.site in POOL_AT_ONE and cell.word is not None and cell.word in (0, 1):
        return f"the site is handed {cell.word!r}"
    if cell.request.site == "ms_swift.dataset_num_proc" and cell.word == 1 and cell.machine.datasets >= (4, 1):
        return "the site is handed 1, and hands it to map"
    return None


def law_3(cell: Cell) -> str | None:
    """Nothing is left to the reader's own choice."""
    if cell.word is None and cell.request.site in CHOOSES_AT_NONE and not obstacle(cell):
        return "None is written"
    return None


def law_4(cell: Cell) -> str | None:
    """Workers × ranks × bytes fit in the operator's share of the memory."""
    machine, settings, workers = cell.machine, cell.settings, cell.decision.workers
    if not workers or settings.override is not None or machine.memory is None:
        return None
    profile = cell.request.profile
    each = cell.request.bytes_per_worker or (profile and profile.bytes_per_worker) or settings.bytes_per_worker
    if workers * machine.process.local_world_size * each > machine.memory * settings.memory_share:
        ranks = machine.process.local_world_size
        return f"{ranks} × {workers} workers × {each} bytes; {settings.memory_share} of {machine.memory} bytes is there"
    return None


def law_5(cell: Cell) -> str | None:
    """The operator's cap, or the fixed one where the work was measured."""
    request = cell.request
    if request.workers is not None or cell.settings.override is not None:
        return None
    cap, profile = cell.settings.auto_cap, request.profile
    if profile is not None and request.rows is not None:
        mostly_waits = 2 * profile.cpu_seconds_per_row < profile.wall_seconds_per_row
        cap = WAITING_MAP_CAP if mostly_waits else MAP_CAP
    return None if cell.decision.workers <= cap else f"{cell.decision.workers} workers, the cap is {cap}"


def law_6(cell: Cell) -> str | None:
    """The override is granted, or what makes that impossible is the binding reason."""
    override, decision, process = cell.settings.override, cell.decision, cell.machine.process
    if override is None:
        return "an override that nobody set" if _has(decision, ReasonCode.OVERRIDE) else None
    wanted = most = 0 if override == 1 else override
    daemonic = any(process.daemonic[module] for module in modules_of(cell.request.site, cell.request.workload.value))
    if daemonic or process.importing or cell.request.streaming:
        most = 0
    elif process.platform == "win32":
        most = min(wanted, WINDOWS_CAP)
    if decision.workers != most:
        return f"{decision.workers} workers, {override} is set"
    said = _has(decision, ReasonCode.OVERRIDE) and (most == wanted or decision.binding.code is not ReasonCode.OVERRIDE)
    return None if said else "it is not said"


def _has(decision: Decision, code: ReasonCode) -> bool:
    return code in [reason.code for reason in decision.reasons]


def law_7(cell: Cell) -> str | None:
    """The last local rank gives the same answer for the same reasons."""
    return None if cell.twin_decision == cell.decision else f"the last rank answers {cell.twin_decision.workers}"


def law_8(cell: Cell) -> str | None:
    """A tighter limit gives no more."""
    workers = cell.decision.workers
    for what, less in cell.tighter:
        if less > workers:
            return f"{less} workers with {what}"
    return None


def law_9(cell: Cell) -> str | None:
    """The answer, asked for, is the answer; and so is a config's at the site that reads it, unless memory shrank."""
    workers = cell.decision.workers
    if (again := cell.asked_for(workers)) != workers:
        return f"asking for {workers} gives {again}"
    for what, reader, granted, no_less_memory in cell.moved:
        if granted > workers or (no_less_memory and granted != workers):
            return f"{granted} at {reader}, with {what}"
    return None


def law_10(cell: Cell) -> str | None:
    """Read back at its site, the word is the answer; where there is none, the error says so and names the nearest."""
    workers, site, word = cell.decision.workers, cell.request.site, cell.word
    if isinstance(word, SiteError):
        if workers or site not in SPEECHLESS or cell.machine.datasets < SPEECHLESS[site]:
            return f"there is a word for {workers} at this site"
        return None if word.nearest == 1 and "1" in str(word) and word.site == site else "the nearest is not named"
    back = cell.asked_for(cell.decoded)
    return None if back == workers else f"{word!r} is read as {back}"


def law_11(cell: Cell) -> str | None:
    """The binding reason is first, is the lowest, and is the answer."""
    decision = cell.decision
    if decision.binding.limit != decision.workers:
        return f"the binding limit is {decision.binding.limit}"
    for reason in decision.reasons:
        if reason.limit is not None and reason.limit < decision.workers:
            return "another limit is lower"
    asked = cell.settings.override if cell.settings.override is not None else cell.request.workers
    lowered = asked is not None and asked > 1 and decision.workers < asked
    if lowered != decision.reduced:
        return "it is lowered, and does not say so" if lowered else "it says that it is lowered, and is not"
    if lowered and decision.binding.code in (ReasonCode.ASKED, ReasonCode.OVERRIDE):
        return "it is lowered for no reason"
    return None


CELL_LAWS: tuple[tuple[int, Callable[[Cell], str | None]], ...] = tuple(
    enumerate((law_1, law_2, law_3, law_4, law_5, law_6, law_7, law_8, law_9, law_10, law_11), start=1)
)
"""Law 12 is about a machine, and is checked where machines are made."""

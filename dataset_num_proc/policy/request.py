"""What the caller and the operator say, as values: `Request` and `Settings`.

One job: to turn what people write (an argument, an environment variable) into checked values. Nothing is read here: the
environment comes in as a mapping, and what was ignored in it goes out as data, for the caller to warn about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from dataset_num_proc.errors import SettingsError
from dataset_num_proc.policy.counts import AUTO, count, whole
from dataset_num_proc.policy.facts import FORK, FORKSERVER, SPAWN

if TYPE_CHECKING:
    from dataset_num_proc.policy.cost import Profile

GIB = 1 << 30
START_METHODS = (FORK, SPAWN, FORKSERVER)

OVERRIDE_VARIABLES = ("DATASET_NUM_PROC", "UNSLOTH_DATASET_NUM_PROC")
START_METHOD_VARIABLE = "DATASET_NUM_PROC_START_METHOD"
SETTINGS_VARIABLES = frozenset({*OVERRIDE_VARIABLES, START_METHOD_VARIABLE})
IN_PROCESS_WORDS = frozenset({"", "none", "null", "false"})
OVERRIDE_FORMS = 'a whole number; "", 0, 1, none, null or false for "in this process"'


class Workload(str, Enum):
    """What the workers do."""

    MAP = "map"
    """One call that starts a pool, uses it and ends it."""
    PACKING = "packing"
    """Long-lived workers beside a training loop."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one call site asks for.

    Attributes:
        workers: `None` for "choose for me", 0 for "in this process", else the count asked for.
        workload: what the workers do.
        rows: rows of the data set, `None` where they cannot be counted.
        bytes_per_worker: private memory that one more worker takes, where the caller knows.
        profile: a measurement of the work, which takes the place of the fixed cap.
        side_effects: the function changes state of this process (a closure it appends to), so it must run here.
        touches_accelerator: the function uses an accelerator.
        spawn_ready: whether the function can be sent to a fresh interpreter; `None` where nobody checked.
        site: name of the call site in the dialect table.
        start_method: a method that the caller wants and can apply, "auto" to let us choose one, `None` for what is
            there.
        streaming: the data set is streamed, and its `map` takes no workers.
        threads_per_worker: native threads that each worker will start besides its own.
        spawn_problem: why `spawn_ready` is false, in words.
    """

    workers: int | None = None
    workload: Workload = Workload.MAP
    rows: int | None = None
    bytes_per_worker: int | None = None
    profile: Profile | None = None
    side_effects: bool = False
    touches_accelerator: bool = False
    spawn_ready: bool | None = None
    site: str = "map"
    start_method: str | None = None
    streaming: bool = False
    threads_per_worker: int = 1
    spawn_problem: str | None = None

    def __post_init__(self) -> None:
        """Refuse a count that no pool could have; `of` says more kindly what is accepted."""
        workers = self.workers
        if workers is not None and (type(workers) is not int or workers < 0):
            message = f"Request.workers={workers!r}: accepted is None, or a whole number of at least 0"
            raise ValueError(message)
        if self.threads_per_worker < 0 or not isinstance(self.workload, Workload):
            message = f"Request: threads_per_worker={self.threads_per_worker!r}, workload={self.workload!r}"
            raise ValueError(message)

    @classmethod
    def of(cls, value: object = None, /, **fields: Any) -> Request:  # noqa: ANN401 - the fields above, each checked below
        """The single normaliser of a worker count.

        Args:
            value: `None` or "auto" → choose for me; an integer of any type, a digit string or an integral float → that
                count; 0 and 1 → in this process. A `Request` is taken as it is.
            **fields: the other fields of `Request`.

        Raises:
            ValueError: the count is negative, or a field is out of range.
            TypeError: a bool, another string, a float that is not whole, or any other type.
        """
        if isinstance(value, Request):
            return replace(value, **_checked(fields)) if fields else value
        workers = count(value)
        return cls(0 if workers == 1 else workers, **_checked(fields))


@dataclass(frozen=True, slots=True)
class Ignored:
    """A variable that was set to something that cannot be used."""

    variable: str
    text: str
    accepted: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator says, for the whole process.

    Attributes:
        auto_cap: most workers without being asked. 8: past it a tokenizing map gains little and can lose
            (8,000 rows: in process 6.3 s, 8 workers 8.1 s, 32 workers 14.2 s; https://github.com/unslothai/unsloth/pull/7831).
        memory_share: part of the available memory that workers may take; the rest is the parent's and the run's.
        bytes_per_worker: memory that one worker is taken to need where nobody measured. A forked text worker really
            costs 40–120 MB, an image worker gigabytes.
        min_rows: fewer rows than this are mapped in process unless somebody asks or measured: a forked pool costs 0.1
            s, a spawned one 1.5–5 s, and 5,000 rows of text are tokenized in about that.
        override: the operator's count, obeyed verbatim; 0 is "in this process"; `None` where not set.
        start_method: start method for packing workers and for scopes that may set one; `None` where not set.
        override_source: the variable that set `override`.
        ignored: variables that were set and could not be used.
    """

    auto_cap: int = 8
    memory_share: float = 0.5
    bytes_per_worker: int = GIB
    min_rows: int = 5000
    override: int | None = None
    start_method: str | None = None
    override_source: str | None = None
    ignored: tuple[Ignored, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that no decision could be made with."""
        checks = (
            ("auto_cap", self.auto_cap >= 0, "0 or more"),
            ("memory_share", 0 < self.memory_share <= 1, "above 0, at most 1"),
            ("bytes_per_worker", self.bytes_per_worker > 0, "above 0 bytes"),
            ("min_rows", self.min_rows >= 0, "0 or more"),
            ("override", self.override is None or self.override >= 0, "None, or 0 or more"),
            ("start_method", self.start_method in (None, *START_METHODS), f"None or one of {', '.join(START_METHODS)}"),
        )
        for name, valid, accepted in checks:
            if not valid:
                message = f"Settings.{name}={getattr(self, name)!r}: accepted is {accepted}"
                raise SettingsError(message)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Settings from environment variables; what cannot be used is listed in `ignored` and never counts as set.

        `DATASET_NUM_PROC` is read before `UNSLOTH_DATASET_NUM_PROC`; the first that can be used wins.
        """
        if environ.keys().isdisjoint(SETTINGS_VARIABLES):
            return NOTHING_SAID
        ignored: list[Ignored] = []
        override, source = None, None
        for variable in OVERRIDE_VARIABLES:
            text = environ.get(variable)
            if text is None:
                continue
            override = parse_override(text)
            if override is not None:
                source = variable
                break
            ignored.append(Ignored(variable, text, OVERRIDE_FORMS))
        method = environ.get(START_METHOD_VARIABLE, "").strip().lower() or None
        if method is not None and method not in START_METHODS:
            ignored.append(Ignored(START_METHOD_VARIABLE, environ[START_METHOD_VARIABLE], ", ".join(START_METHODS)))
            method = None
        return cls(override=override, override_source=source, start_method=method, ignored=tuple(ignored))


NOTHING_SAID = Settings()


def parse_override(text: str) -> int | None:
    """The count that an override's text says: 0 for "in this process", `None` where the text says nothing usable."""
    word = text.strip().lower()
    if word in IN_PROCESS_WORDS:
        return 0
    try:
        count = int(word)
    except ValueError:
        return None
    return None if count < 0 else 0 if count == 1 else count


_LEAST = {"rows": 0, "bytes_per_worker": 1, "threads_per_worker": 0}


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` with the workload as its enum; refuses what no decision could be made with."""
    for name in fields.keys() & _LEAST.keys():
        value, least = fields[name], _LEAST[name]
        if value is None:
            continue
        number = whole(value)
        if number is None or number < least:
            message = f"{name}={value!r}: accepted is a whole number of at least {least}"
            raise (TypeError if number is None else ValueError)(message)
        fields[name] = number
    method = fields.get("start_method")
    if method not in (None, AUTO, *START_METHODS):
        message = f"start_method={method!r}: accepted is None, auto, {', '.join(START_METHODS)}"
        raise ValueError(message)
    if "workload" in fields:
        fields["workload"] = Workload(fields["workload"])
    return fields

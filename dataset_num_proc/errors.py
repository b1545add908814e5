"""Every exception and warning category of the package; the lowest layer.

Imports nothing of ours, so that any layer may raise from here. What the messages say is composed where the facts are.
"""

from __future__ import annotations

from typing import Any


class DatasetNumProcError(Exception):
    """Base of every error this package raises on purpose."""


class SettingsError(DatasetNumProcError, ValueError):
    """A setting passed in code is out of range: the message names the value and what is accepted."""


class SiteError(DatasetNumProcError, ValueError):
    """An answer that a call site has no word for.

    Attributes:
        site: name of the call site, as in the dialect table.
        nearest: the nearest value that the site does accept.
    """

    def __init__(self, message: str, *, site: str, nearest: int | None = None) -> None:
        super().__init__(message)
        self.site = site
        self.nearest = nearest

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields are lost by the default reduction, and an error that does not unpickle hangs a pool.
        return _site_error, (str(self), self.site, self.nearest)


def _site_error(message: str, site: str, nearest: int | None) -> SiteError:
    return SiteError(message, site=site, nearest=nearest)


class ScopeBusy(DatasetNumProcError, RuntimeError):  # noqa: N818 - named for the state, as the warnings are
    """Another thread's workers hold a start method that this thread's scope would have to change under them."""


class PackingError(DatasetNumProcError, ValueError):
    """Rows cannot be packed as they are or as was asked; the message names the value and what is accepted."""


class OversizeRow(PackingError):  # noqa: N818 - named for what is wrong
    """A row is longer than a pack may be, and nothing was said about such rows; the message says what can be said."""


class RowsLost(DatasetNumProcError, RuntimeError):  # noqa: N818 - named for what happened
    """An encoder failed on so many rows that going on would train on something else; the message counts them.

    Attributes:
        stats: the counts, a `dataset_num_proc.packing.EncodeStats`.
    """

    def __init__(self, message: str, *, stats: object = None) -> None:
        super().__init__(message)
        self.stats: Any = stats

    def __reduce__(self) -> tuple[object, ...]:
        return _rows_lost, (str(self), self.stats)


def _rows_lost(message: str, stats: object) -> RowsLost:
    return RowsLost(message, stats=stats)


class DatasetNumProcWarning(UserWarning):
    """Base of every warning of this package, so that one filter catches them all."""


class WorkersReduced(DatasetNumProcWarning):
    """Fewer workers were granted than were asked for; the message names the bound. From local rank 0 only."""


class SettingsWarning(DatasetNumProcWarning):
    """A variable was ignored: the message names the variable, its text and the accepted forms."""


class UnsafeStartMethod(DatasetNumProcWarning):
    """Fork was asked for explicitly where live state makes it unsafe; the message lists the hazards."""


class StuckInTeardown(DatasetNumProcWarning):
    """The results are there, but workers did not end when told to, and were killed; the message says where each was."""


class UpstreamUnknown(DatasetNumProcWarning):
    """Another project is of a release that we do not know, so nothing of it was replaced; the message names both."""


class WorkerDied(DatasetNumProcError, RuntimeError):  # noqa: N818 - named for what happened
    """A worker, or the manager beside it, ended before its work did; the message says who, of what, and what was seen.

    A `RuntimeError`, which is what callers of `Dataset.map` catch today. It pickles with all its fields. It can be made
    of a message alone, as a DataLoader does to raise again what its worker raised.

    Attributes:
        verdict: what ended it, a `dataset_num_proc.policy.autopsy.Verdict`.
        exit_codes: exit status by pid of every worker and manager of the pool; negative is the signal, `None` is not
            known. Workers that the pool itself ended have -15 or -9 here; who died first is in `evidence.deaths`.
        evidence: all that was seen, a `dataset_num_proc.policy.autopsy.Evidence`.
        decision: the decision that the workers were started on, where there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        verdict: object = None,
        exit_codes: dict[int, int | None] | None = None,
        evidence: object = None,
        decision: object = None,
    ) -> None:
        super().__init__(message)
        self.verdict: Any = verdict
        self.exit_codes = exit_codes or {}
        self.evidence: Any = evidence
        self.decision: Any = decision

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields are lost by the default reduction.
        fields = {name: getattr(self, name) for name in ("verdict", "exit_codes", "evidence", "decision")}
        return _worker_died, (type(self), str(self), fields)


def _worker_died(kind: type[WorkerDied], message: str, fields: dict[str, Any]) -> WorkerDied:
    return kind(message, **fields)


class WorkerStalled(WorkerDied):
    """No worker made progress or used a processor or a disk for the time that was allowed; the pool was ended."""


class WorkerStartFailed(WorkerDied):
    """A worker or its manager could not start: it could not be forked, or not import what it needs."""

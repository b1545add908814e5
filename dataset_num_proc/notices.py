"""What is said while deciding: log lines and warnings.

One job: one INFO line a decision on the logger `dataset_num_proc`, and warnings that point at the line that called this
package. Wording is `report`'s; nothing is printed.
"""

from __future__ import annotations

import logging
import sys
import warnings

from dataset_num_proc.errors import SettingsWarning, WorkersReduced
from dataset_num_proc.policy.decision import Decision, ReasonCode
from dataset_num_proc.report import in_one_line, in_spite_of

_log = logging.getLogger("dataset_num_proc")
_log.addHandler(logging.NullHandler())
_NOT_THE_CALLER = frozenset({"dataset_num_proc", "contextlib"})


def tell(decision: Decision, site: str, local_rank: int | None) -> None:
    """One log line a decision; a warning where a request was lowered, or an override is obeyed against a rule.

    Warnings come from local rank 0 only: the ranks of a node all decide the same.
    """
    obeyed = decision.binding.code is ReasonCode.OVERRIDE
    if not decision.reduced and not obeyed and not _log.isEnabledFor(logging.INFO):
        return
    line = in_one_line(decision, site)
    _log.info(line)
    if local_rank:
        return
    if decision.reduced:
        warn(line, WorkersReduced)
    if obeyed and (against := in_spite_of(decision)):
        warn(against, SettingsWarning)


def warn(message: str, category: type[Warning]) -> None:
    """A warning at the line that called this package, through however many of its own frames."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 - `skip_file_prefixes` is Python 3.12's
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_CALLER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

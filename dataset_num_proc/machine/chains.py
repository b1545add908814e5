"""What an exception comes from: its causes and contexts.

One job: to walk them. A pool's teardown and a queue's end raise errors of their own over the one that matters.
"""

from __future__ import annotations

from collections.abc import Iterator


def chain_of(error: BaseException | None, before: BaseException | None) -> Iterator[BaseException]:
    """An exception and what led to it, up to one that was being handled before all this began."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        link = todo.pop()
        if link is not None and link is not before and id(link) not in seen:
            seen.add(id(link))
            yield link
            todo += [link.__context__, link.__cause__]


def cause_of(instead: BaseException, error: BaseException) -> BaseException | None:
    """What `instead` is raised from: a diagnosis from the original, a worker's own exception from what it brought."""
    return instead.__cause__ if instead.__cause__ is not None or instead in chain_of(error, None) else error

"""What people write for a worker count → the count.

One job: `None`, "auto", integers of every type, digits in text and whole floats in; a count out, or an error that names
the value and what is accepted.
"""

from __future__ import annotations

import operator

AUTO = "auto"
"""As a worker count and as a start method: choose for me."""
LONGEST_COUNT = 18
"""Digits of a count in text: Python refuses to read thousands of them."""
ACCEPTED_COUNTS = 'None or "auto" (choose for me), 0 or 1 (in this process), or a whole number of workers'


def count(value: object) -> int | None:
    """The worker count that `value` spells; `None` is "choose for me"."""
    if value is None:
        return None
    if isinstance(value, str):
        return _count_in_text(value)
    number = whole(value)
    if number is None:
        raise TypeError(_refusal(value))
    if number < 0:
        raise ValueError(_refusal(value))
    return number


def whole(value: object) -> int | None:
    """`value` as an integer where it is one, of whatever type (numpy's too, and a float without a fraction)."""
    if isinstance(value, type) or type(value).__name__ in {"bool", "bool_"}:  # numpy's own, which older releases index
        return None
    try:
        return int(operator.index(value))  # type: ignore[arg-type] # the TypeError is the answer
    except TypeError:
        pass
    is_integer = getattr(value, "is_integer", None)
    return int(value) if is_integer is not None and is_integer() else None  # type: ignore[call-overload] # it says so


def _count_in_text(text: str) -> int | None:
    word = text.strip()
    if word.lower() == AUTO:
        return None
    if word.removeprefix("-").isdecimal() and len(word) <= LONGEST_COUNT:
        return count(int(word))
    raise TypeError(_refusal(text))


def _refusal(value: object) -> str:
    return f"{value!r} is not a worker count: accepted is {ACCEPTED_COUNTS}"

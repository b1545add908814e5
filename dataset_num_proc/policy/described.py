"""An enum whose members carry their meaning for users.

One job: `Described`. A string under a member is no docstring at run time; the second part of its value is.
"""

from __future__ import annotations

from enum import Enum


class Described(str, Enum):
    """A code, with what it means to users as its docstring."""

    def __new__(cls, value: str, meaning: str) -> Described:  # noqa: PYI034 - `Self` is Python 3.11's
        """A member that equals its code, and has its meaning as its docstring."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.__doc__ = meaning
        return member

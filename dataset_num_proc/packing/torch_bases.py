"""Makes our data sets torch's, where torch is imported; without it they are plain objects.

One job: to give a data set its base. It may not import torch.
"""

from __future__ import annotations

import sys
import types
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self


class Plain:
    """A data set that is one of torch's as well, where torch is imported.

    A DataLoader asks `isinstance(dataset, IterableDataset)` to tell a stream from a list, and sorted imports have ours
    before torch's. So the base is looked for when a data set is made, which is late enough, and not when its class is.

    Attributes:
        torch_name: the class in `torch.utils.data`.
    """

    torch_name: ClassVar[str]

    def __new__(cls, *_: object, **__: object) -> Self:
        """Makes a data set, of a class of the same name that is torch's too if torch is imported."""
        base = getattr(sys.modules.get("torch.utils.data"), cls.torch_name, None)
        return object.__new__(cls if base is None or issubclass(cls, base) else _with_base(cls, base))  # type: ignore[arg-type] # classes are hashable

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __reduce__(self) -> tuple[Any, ...]:
        # The class that was made has the name of ours, under which pickle would not find it.
        return _new, (getattr(self, "ours", type(self)),), self.__getstate__()


@cache
def _with_base(cls: type, base: type) -> type:
    namespace = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__, "ours": cls}
    return types.new_class(cls.__name__, (cls, base), exec_body=lambda body: body.update(namespace))


def _new(cls: type[Plain]) -> Plain:
    return cls.__new__(cls)

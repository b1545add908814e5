"""A call of a data set's method, held until its worker count is known.

One job: to bind the arguments as the installed release does, and to make the call with a count. It may not choose one.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call of a data set's method, whose worker count is still open.

    Attributes:
        site: name of the method, and of its row in the dialect table.
        dataset: whose method it is.
        function: the first argument.
        asked: the worker count that was asked for.
        bound: all arguments but that.
        streamed: the method takes no worker count.
    """

    site: str
    dataset: Any
    function: Callable[..., Any] | None
    asked: object
    bound: inspect.BoundArguments
    streamed: bool

    @classmethod
    def of(
        cls,
        site: str,
        dataset: Any,  # noqa: ANN401 - any class of `datasets`
        function: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Call:
        """The call with these arguments, by the signature that the method has in the installed release."""
        signature = inspect.signature(getattr(type(dataset), site))
        streamed = "num_proc" not in signature.parameters
        asked = kwargs.pop("num_proc", None) if streamed else None
        bound = signature.bind(dataset, function, *args, **kwargs)
        return cls(site, dataset, function, bound.arguments.pop("num_proc", asked), bound, streamed)

    def __call__(self, workers: int) -> Any:  # noqa: ANN401 - the class of `dataset`
        """The call with that many workers; 0 is "in this process", for which every release has `None`."""
        count = {} if self.streamed else {"num_proc": workers or None}
        return getattr(type(self.dataset), self.site)(*self.bound.args, **self.bound.kwargs, **count)

    def folders(self) -> Iterator[str]:
        """Where `datasets` writes the output, and its temporary files beside it."""
        arguments = self.bound.arguments
        named = [arguments.get("cache_file_name"), *(arguments.get("cache_file_names") or {}).values()]
        yield from (os.path.dirname(name) for name in named if name)  # noqa: PTH120 - as `datasets` does: "" is "here"
        splits = self.dataset.values() if isinstance(self.dataset, dict) else [self.dataset]
        for split in splits:
            if split.cache_files:
                yield os.path.dirname(split._get_cache_file_path(""))  # noqa: PTH120, SLF001 - the folder, whatever the rule

"""Our packing data sets in place of ms-swift's.

One job: to put them where ms-swift has its own, and to take them away again. What they do is `packing`'s; what is said
here is only what they have to know of ms-swift: its plugins, who iterates, and the meaning of its default strategy.

    from dataset_num_proc.compat import ms_swift

    ms_swift.install()  # before the training is set up
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from dataset_num_proc import packing
from dataset_num_proc.errors import UpstreamUnknown
from dataset_num_proc.machine.replaced import replaced
from dataset_num_proc.notices import warn

if TYPE_CHECKING:
    from typing_extensions import Self

KNOWN = ("4.6.0",)
"""The releases whose packs ours were compared with."""
HOME = "swift.dataset.packing"
BINPACK = "binpack"
START_TIMEOUT = 300.0
"""Seconds. A fresh worker imports ms-swift and torch first: about 30 s for six of them on a busy machine
(https://github.com/modelscope/ms-swift/issues/10036), more on a slow disk."""


class PackingDataset(packing.PackingDataset):
    """Ours, with the packs that ms-swift would have made: with the installed binpacking, in as many processes."""

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as in the class above
        packing_strategy: str = BINPACK,
        legacy_chunks: bool = True,
        **options: Any,  # noqa: ANN401 - likewise
    ) -> None:
        strategy = as_installed(packing_strategy)
        super().__init__(*arguments, packing_strategy=strategy, legacy_chunks=legacy_chunks, **options)


class IterablePackingDataset(packing.IterablePackingDataset):
    """Ours, with ms-swift's plugins in the workers, and the packs that the installed binpacking gives.

    Where not `strict`, bad rows are left out whatever their share, as ms-swift leaves them out, but counted in `stats`
    and the first few logged. That every row of a source fails, or of a whole window of 128, is `RowsLost` all the same:
    ms-swift would train on nothing, without a word. `pool_options` sets both limits otherwise.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as in the class above
        packing_strategy: str = BINPACK,
        pool_options: dict[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - likewise
    ) -> None:
        from swift.utils import get_external_files

        # ms-swift's loader of streams has rank 0 read, and send the others their share; and it reads in a DataLoader's
        # worker by default, where num_proc would count for nothing.
        ours: dict[str, Any] = {"consumers": 1, "start_timeout": START_TIMEOUT, "in_daemon": True}
        # Who has bad rows in most of a data set, and asked for them to be left out, has no other place to say so.
        ours["max_drop_ratio"] = 1.0
        if files := get_external_files():
            ours |= {"init": replay_plugins, "init_args": (files,)}
        strategy = as_installed(packing_strategy)
        super().__init__(
            *arguments, packing_strategy=strategy, pool_options={**ours, **(pool_options or {})}, **options
        )


def replay_plugins(files: Iterable[str]) -> None:
    """Imports ms-swift's plugins in a worker, which starts without what they registered."""
    from swift.utils import import_external_file

    for file in files:
        import_external_file(file)


def as_installed(strategy: str) -> str:
    """ms-swift's default strategy, by the name that it has here with the binpacking that is installed.

    The library's 2.0.0 went from the fullest bin to the emptiest under the same name, and ms-swift does not pin it.
    """
    release = installed("binpacking") or "2"
    return strategy if strategy != BINPACK or int(release.partition(".")[0]) < 2 else "binpack-2"  # noqa: PLR2004 - that one


def installed(distribution: str) -> str | None:
    """The installed release of a package, if it is installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


class Installed:
    """Our classes, in place until `undo()` or the end of a `with` block.

    Attributes:
        places: the dotted names that are ours now; empty where ms-swift is not one that we know.
    """

    def __init__(self) -> None:
        self.places: tuple[str, ...] = ()
        self._stock = ExitStack()

    def put(self, module: Any, name: str, ours: type) -> None:  # noqa: ANN401 - a module
        """Puts a class of ours into a module."""
        self._stock.enter_context(replaced(module, name, ours))
        self.places += (f"{module.__name__}.{name}",)

    def undo(self) -> None:
        """Puts ms-swift's classes back. Data sets that were made meanwhile stay ours."""
        self._stock.close()
        self.places = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def install() -> Installed:
    """Puts our packing data sets in place of ms-swift's, in its module and wherever ms-swift has them from there.

    Where ms-swift is of a release that ours were not compared with, nothing is replaced, and a warning says so.
    """
    done, release = Installed(), installed("ms-swift")
    if release not in KNOWN:
        known = " and ".join(KNOWN)
        message = f"ms-swift is {release or 'not installed'}, and packs were compared with {known} alone: its own stay"
        warn(message, UpstreamUnknown)
        return done
    from importlib import import_module

    home = import_module(HOME)
    for ours in (PackingDataset, IterablePackingDataset):
        stock = vars(home)[ours.__name__]
        for module, name in () if stock is ours else tuple(_holders(stock)):
            done.put(module, name, ours)
    return done


def _holders(stock: object) -> Iterator[tuple[Any, str]]:
    """The modules of ms-swift that hold a class, each with the name that it has there."""
    for title, module in list(sys.modules.items()):
        if title.partition(".")[0] == "swift":
            yield from ((module, name) for name, value in list(vars(module).items()) if value is stock)

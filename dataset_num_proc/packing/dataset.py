"""Packs of a map-style data set, with the arguments and the packs of ms-swift's class of that name.

One job: to lay the rows out once, on one rank, in process, since that is work on whole numbers alone. It encodes
nothing and starts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dataset_num_proc.packing.layout import PackLayout, pack_lengths
from dataset_num_proc.packing.lengths import column
from dataset_num_proc.packing.rank_zero import on_rank_zero
from dataset_num_proc.packing.strategy import OWN_PACK
from dataset_num_proc.packing.template import told
from dataset_num_proc.packing.torch_bases import Plain

CHUNK = 1000
"""Rows for which ms-swift adds one packing process, as far as `packing_num_proc` allows."""


class PackingDataset(Plain):
    """Packs of a map-style data set: each is a list of its rows. The layout is made at once, on rank 0 for all.

    Attributes:
        template: gives `packing_length` where that is not said, and is told that its rows are packed; or `None`.
        dataset: `dataset[k]` is a row, and `dataset["lengths"]` has the tokens of all.
        num_proc: stands in ms-swift's signature and changes nothing, as do `strict`, `load_from_cache_file` and
            `multiprocessing_context`: no process is started.
        packing_length: most tokens of a pack.
        packing_num_proc: the processes of ms-swift, each of which packs its share of the rows apart; here it matters
            with `legacy_chunks` alone. Without that the layout is that of one process, whatever the count.
        packing_strategy: as in `pack_lengths`.
        layout: which rows are in which pack.

    Besides these there are `lengths`, the tokens of all rows where the data set has no such column, and `oversize`, as
    in `pack_lengths`; ms-swift packs a row that is too long alone, and so does this.

    Raises:
        PackingError: on rank 0 for what is wrong with an argument or a length, on the others if rank 0 failed.
    """

    torch_name = "Dataset"

    def __init__(  # noqa: PLR0913 - ms-swift's arguments, and three more
        self,
        template: Any,  # noqa: ANN401 - whatever has a `max_length`
        dataset: Any,  # noqa: ANN401 - whatever has rows by number
        num_proc: int = 1,
        *,
        strict: bool = False,
        load_from_cache_file: bool = True,
        packing_length: int | None = None,
        packing_num_proc: int = 1,
        packing_strategy: str = "binpack",
        multiprocessing_context: str | None = None,
        lengths: Iterable[object] | None = None,
        oversize: str = OWN_PACK,
        legacy_chunks: bool = False,
    ) -> None:
        self.template, self.dataset = template, dataset
        self.num_proc, self.strict, self.load_from_cache_file = num_proc, strict, load_from_cache_file
        self.packing_length = told(template, packing_length)
        self.packing_num_proc = min(packing_num_proc, math.ceil(len(dataset) / CHUNK))
        self.packing_strategy, self.multiprocessing_context = packing_strategy, multiprocessing_context
        chunks = max(self.packing_num_proc, 1) if legacy_chunks else 1
        self.layout = on_rank_zero(lambda: self._laid_out(lengths, oversize=oversize, legacy_chunks=chunks))

    def _laid_out(self, lengths: Iterable[object] | None, **options: Any) -> PackLayout:  # noqa: ANN401 - they are typed there
        with _bar(len(self.dataset)) as progress:
            return pack_lengths(
                column(self.dataset) if lengths is None else lengths,
                self.packing_length,
                strategy=self.packing_strategy,
                progress=progress,
                **options,
            )

    @property
    def packed_idx(self) -> list[list[int]]:
        """The row numbers of each pack."""
        return self.layout.indices

    @property
    def packed_length(self) -> list[int]:
        """The tokens of each pack."""
        return list(self.layout.lengths)

    def __getitem__(self, index: int) -> list[Any]:
        return [self.dataset[row] for row in self.layout[index]]

    def __len__(self) -> int:
        return len(self.layout)


@contextmanager
def _bar(rows: int) -> Iterator[Callable[[int], object] | None]:
    """A progress bar, where tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=rows, dynamic_ncols=True, desc="Packing: ") as bar:
        yield bar.update

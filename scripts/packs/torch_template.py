"""A template whose module imports torch, as those of training frameworks do: a fresh worker has to import it too."""

from __future__ import annotations

import torch

from packs.templates import Row, Template


class TorchTemplate(Template):
    """Encodes a row with a word from torch."""

    def encode(self, row: Row, *, return_length: bool = False) -> dict[str, object]:
        """So many tokens, counted by torch."""
        length = int(torch.tensor(row["length"]))
        return {"input_ids": [row["id"]] * length, **({"lengths": [length]} if return_length else {})}

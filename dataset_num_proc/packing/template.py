"""What packing asks of ms-swift's templates, or of anything like them.

One job: to tell a template that its rows are packed, and to make a pool that encodes by it. ms-swift is looked up among
the imported modules, and never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from dataset_num_proc.errors import PackingError
from dataset_num_proc.packing.pool import EncoderPool
from dataset_num_proc.packing.strategy import positive


def told(template: Any, packing_length: int | None) -> int:  # noqa: ANN401 - whatever has a `max_length`
    """Tells a template, if there is one, that its rows are packed; the most tokens of a pack.

    Raises:
        PackingError: neither the argument nor the template says how many.
    """
    if template is not None:
        template.packing = template.padding_free = True
    return positive("packing_length", packing_length or getattr(template, "max_length", None))


def encoder_pool(
    template: Any,  # noqa: ANN401 - whatever encodes
    encode: Callable[..., Any] | None,
    options: Mapping[str, Any],
) -> EncoderPool:
    """A pool that encodes by `encode`, else by the template, as ms-swift has its own do it.

    Raises:
        PackingError: there is neither.
    """
    if encode is None and template is None:
        message = "template is None; give one that has an `encode`, or say encode="
        raise PackingError(message)
    swift = sys.modules.get("swift.template")
    defaults: dict[str, Any] = {} if swift is None else {"skip": (swift.MaxLengthError,)}
    if encode is None:
        defaults["encode_kwargs"] = {"return_length": True}
        # The model stays behind when such a template is pickled.
        defaults["needs"] = ("model",) if getattr(template, "use_model", False) else ()
    return EncoderPool(encode or template.encode, **{**defaults, **options})

"""What programs tell torch.compile() alone, in a watched run.

Transformers' static caches mark their tensors so. The mark is an attribute of
the tensor that Dynamo reads; Mica has no use for it, and neither a watched run
nor a hit sets it.
"""

from __future__ import annotations

import torch

from mica import _mica


def _mark_static_address(t: torch.Tensor, guard: bool = False) -> None:
    """Checks what torch checks, and does nothing."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(
            f"mark_static_address expects a tensor but received {type(t)}"
        )


# Dynamo is imported when somebody asks for it.
_mica.call_in_place_of(
    "torch._dynamo.decorators", "mark_static_address", _mark_static_address
)

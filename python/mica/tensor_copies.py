"""`copy.deepcopy` of a tensor in a watched run.

torch's own takes the storage, and makes a tensor in a copy of that; what it
calls can't be followed. Of a tensor that fills its storage by itself a clone is
the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from mica.annotate import annotate

# As it is before the program replaces it.
_keep_alive: Callable[[Any, Any], None] = copy._keep_alive  # type: ignore[attr-defined]


@annotate(kind="pure")
def _fills_storage(tensor: torch.Tensor, copied: dict[int, Any]) -> bool:
    """Whether it has all of a storage of which there is no copy so far."""
    storage = tensor.untyped_storage()
    return (
        not tensor.__dict__
        and tensor.storage_offset() == 0
        and storage.nbytes() == tensor.numel() * tensor.element_size()
        and storage._cdata not in copied
    )


@annotate(kind="pure")
def _note(
    tensor: torch.Tensor, new: torch.Tensor, copied: dict[int, Any]
) -> None:
    """Has torch find the storage's copy for other tensors in it."""
    copied[tensor.untyped_storage()._cdata] = new.untyped_storage()


def deep(tensor: torch.Tensor, memo: dict[Any, Any]) -> torch.Tensor | None:
    """A deep copy, as `tensor.__deepcopy__(memo)` makes it.

    Args:
      tensor: Of exactly torch.Tensor, not in `memo`.
      memo: What `copy.deepcopy` notes.
    Returns:
      The copy, which `memo` knows; None where torch's own is to make it.
    """
    # There torch keeps storages, too.
    copied = memo.setdefault("torch", {})
    if (
        not tensor.is_leaf
        or tensor.layout is not torch.strided
        or tensor.device.type != "cpu"
        or tensor.is_quantized
        or tensor.is_conj()
        or tensor.is_neg()
        or not _fills_storage(tensor, copied)
    ):
        return None
    with torch.no_grad():
        new = tensor.clone()
        if new.stride() != tensor.stride():
            return None
        _note(tensor, new, copied)
        if tensor.requires_grad:
            new.requires_grad_()
        if tensor.grad is not None:
            new.grad = copy.deepcopy(tensor.grad, memo)
    memo[id(tensor)] = new
    _keep_alive(tensor, memo)
    return new

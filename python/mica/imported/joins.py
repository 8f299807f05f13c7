"""Operators that join tensors and take them apart."""

from __future__ import annotations

from typing import Any

import torch

from mica.imported.registry import operator

Tensor = torch.Tensor
Sizes = tuple[int, ...]


@operator("Concat")
def concat(*parts: Tensor, axis: int = 1) -> Tensor:
    """One after the other."""
    return torch.cat(parts, axis)


def _part(tensors: Any, outputs: int) -> Any:
    return tensors[0] if outputs == 1 else tuple(tensors)


def _equal_parts(size: int, count: int) -> list[int]:
    """Sizes of chunks, the last of which may be smaller."""
    each = -(-size // count)
    return [each] * (count - 1) + [size - each * (count - 1)]


@operator("Split", 13, sizes=(1,))
def split(
    x: Tensor,
    sizes: Any = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    outputs: int,
) -> Any:
    """Parts along a dim."""
    if sizes is None:
        sizes = _equal_parts(x.shape[axis], num_outputs or outputs)
    elif not isinstance(sizes, tuple):
        sizes = (sizes,)
    return _part(torch.split(x, list(sizes), axis), outputs)


@operator("Split")
def split_1(
    x: Tensor, *, axis: int = 0, split: Sizes | None = None, outputs: int
) -> Any:
    """Parts along a dim."""
    sizes = split or _equal_parts(x.shape[axis], outputs)
    return _part(torch.split(x, list(sizes), axis), outputs)

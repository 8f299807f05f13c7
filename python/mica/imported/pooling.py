"""Poolings."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator
from mica.imported.windows import (
    Pads,
    are_even,
    flat,
    pads_of,
    windows_of,
    with_ceil,
)

Tensor = torch.Tensor
Sizes = tuple[int, ...]

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _least(dtype: torch.dtype) -> Any:
    if dtype.is_floating_point:
        return float("-inf")
    return torch.iinfo(dtype).min


def _last(rank: int) -> Sizes:
    return tuple(range(-rank, 0))


def _are_small(around: Pads, kernel: Sizes) -> bool:
    """True of padding that torch's own poolings take."""
    return all(2 * b <= k for (b, _), k in zip(around, kernel, strict=True))


@operator("MaxPool")
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sizes | None = None,
    kernel_shape: Sizes,
    pads: Sizes | None = None,
    storage_order: int = 0,
    strides: Sizes | None = None,
    outputs: int,
) -> Any:
    """The greatest of each window; with a second output its place."""
    rank = len(kernel_shape)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    around = pads_of(x, kernel_shape, strides, dilations, pads, auto_pad)
    small = _are_small(around, kernel_shape)
    simple = are_even(around) and small and x.dtype.is_floating_point
    if outputs == 1 and simple and rank in _MAX and not ceil_mode:
        even = tuple([before for before, _ in around])
        return _MAX[rank](x, kernel_shape, strides, even, dilations)
    if ceil_mode:
        around = with_ceil(x, kernel_shape, strides, dilations, around)
    padded = F.pad(x, flat(around), value=_least(x.dtype))
    found = windows_of(padded, kernel_shape, strides, dilations)
    if outputs == 1:
        return found.amax(_last(rank))
    best = found.flatten(-rank).argmax(-1, True)
    places = _places(x, storage_order)
    places = F.pad(places, flat(around))
    places = windows_of(places, kernel_shape, strides, dilations)
    places = places.flatten(-rank).gather(-1, best).squeeze(-1)
    return found.flatten(-rank).gather(-1, best).squeeze(-1), places


def _places(x: Tensor, storage_order: int) -> Tensor:
    """The number of each element in the whole tensor."""
    places = torch.arange(x.numel()).reshape(x.shape)
    if not storage_order:
        return places
    n, c, *image = x.shape
    turned = torch.arange(x.numel()).reshape(n, c, *reversed(image))
    return turned.permute(0, 1, *range(x.dim() - 1, 1, -1))


@operator("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sizes | None = None,
    kernel_shape: Sizes,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Any:
    """The mean of each window."""
    rank = len(kernel_shape)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    around = pads_of(x, kernel_shape, strides, dilations, pads, auto_pad)
    small = _are_small(around, kernel_shape)
    if (
        are_even(around)
        and small
        and rank in _MEAN
        and not ceil_mode
        and set(dilations) == {1}
    ):
        even = tuple([before for before, _ in around])
        return _MEAN[rank](
            x, kernel_shape, strides, even, False, bool(count_include_pad)
        )
    ones = torch.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    whole: Pads = around
    if ceil_mode:
        whole = with_ceil(x, kernel_shape, strides, dilations, around)
    padded = F.pad(x, flat(whole))
    counted = F.pad(ones, flat(around), value=float(bool(count_include_pad)))
    rest = [(0, w[1] - a[1]) for w, a in zip(whole, around, strict=True)]
    counted = F.pad(counted, flat(rest))
    sums, counts = (
        windows_of(part, kernel_shape, strides, dilations).sum(_last(rank))
        for part in (padded, counted)
    )
    return sums / counts


@operator("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sizes | None = None,
    kernel_shape: Sizes,
    p: float = 2,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """The norm of each window."""
    rank = len(kernel_shape)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    around = pads_of(x, kernel_shape, strides, dilations, pads, auto_pad)
    if ceil_mode:
        around = with_ceil(x, kernel_shape, strides, dilations, around)
    padded = F.pad(x.abs() ** p, flat(around))
    found = windows_of(padded, kernel_shape, strides, dilations)
    return found.sum(_last(rank)) ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each channel."""
    return x.mean(tuple(range(2, x.dim())), True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The greatest of each channel."""
    return x.amax(tuple(range(2, x.dim())), True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    """The norm of each channel."""
    return (x.abs() ** p).sum(tuple(range(2, x.dim())), True) ** (1 / p)


@operator("MaxUnpool", sizes=(2,))
def max_unpool(
    x: Tensor,
    places: Tensor,
    output_shape: Sizes | None = None,
    *,
    kernel_shape: Sizes,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """Each greatest at its place, zero elsewhere."""
    rank = len(kernel_shape)
    strides = strides or (1,) * rank
    around = pads or (0,) * (2 * rank)
    own = [
        (x.shape[2 + d] - 1) * strides[d]
        + kernel_shape[d]
        - around[d]
        - around[rank + d]
        for d in range(rank)
    ]
    made = torch.zeros((*x.shape[:2], *own), dtype=x.dtype)
    made = made.reshape(-1).scatter(0, places.reshape(-1), x.reshape(-1))
    made = made.reshape(*x.shape[:2], *own)
    if output_shape is None:
        return made
    more = [(0, output_shape[2 + d] - own[d]) for d in range(rank)]
    return F.pad(made, flat(more))


@operator("LRN")
def lrn(
    x: Tensor,
    *,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    size: int,
) -> Tensor:
    """Divided by what neighbouring channels have."""
    before = (size - 1) // 2
    pads = [0, 0] * (x.dim() - 2) + [before, size - 1 - before]
    sums = F.pad(x * x, pads).unfold(1, size, 1).sum(-1)
    return x / (bias + alpha / size * sums) ** beta

"""Normalisations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator
from mica.imported.tensors import DTYPES

Tensor = torch.Tensor
Sizes = tuple[int, ...]


@operator("BatchNormalization")
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
    outputs: int,
) -> Any:
    """F.batch_norm; in training with the running mean and variance."""
    if not spatial:
        raise NotImplementedError("BatchNormalization with spatial=0")
    if not training_mode:
        return F.batch_norm(x, mean, variance, scale, bias, False, 0, epsilon)
    dims = (0, *range(2, x.dim()))
    wide = x.to(mean.dtype)
    now = wide.mean(dims)
    spread = wide.var(dims, unbiased=False)
    made = F.batch_norm(x, now, spread, scale, bias, False, 0, epsilon)
    running = (
        mean * momentum + now * (1 - momentum),
        variance * momentum + spread * (1 - momentum),
    )
    return made if outputs == 1 else (made, *running)[:outputs]


@operator("InstanceNormalization")
def instance_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """F.instance_norm."""
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@operator("GroupNormalization", 21)
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Tensor:
    """F.group_norm."""
    del stash_type
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("GroupNormalization", 18)
def group_normalization_18(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
) -> Tensor:
    """F.group_norm, with a scale and bias for each group."""
    each = x.shape[1] // num_groups
    scale, bias = (t.repeat_interleave(each) for t in (scale, bias))
    return F.group_norm(x, num_groups, scale, bias, epsilon)


def _wide(x: Tensor, stash_type: int) -> Tensor:
    return x.to(DTYPES[stash_type]) if x.dtype.itemsize == 2 else x


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int,
) -> Any:
    """F.layer_norm; also the mean, and one over the deviation."""
    axis = axis + x.dim() if axis < 0 else axis
    sizes = tuple(x.shape[axis:])
    plain = scale.dim() == len(sizes) and (
        bias is None or bias.dim() == len(sizes)
    )
    if outputs == 1 and plain:
        weight = scale if scale.dim() == 1 else scale.expand(sizes)
        if bias is not None and bias.dim() > 1:
            bias = bias.expand(sizes)
        return F.layer_norm(x, sizes, weight, bias, epsilon)
    dims = tuple(range(axis, x.dim()))
    wide = _wide(x, stash_type)
    mean = wide.mean(dims, True)
    spread = ((wide - mean) ** 2).mean(dims, True)
    inverse = torch.rsqrt(spread + epsilon)
    made = ((wide - mean) * inverse).to(x.dtype) * scale
    made = made if bias is None else made + bias
    return made if outputs == 1 else (made, mean, inverse)[:outputs]


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """F.rms_norm."""
    axis = axis + x.dim() if axis < 0 else axis
    dims = tuple(range(axis, x.dim()))
    wide = _wide(x, stash_type)
    mean = (wide * wide).mean(dims, True)
    return (wide * torch.rsqrt(mean + epsilon)).to(x.dtype) * scale


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divided by the norm; zero where that is zero."""
    norm = x.abs().sum(axis, True)
    if p == 2:
        norm = (x * x).sum(axis, True).sqrt()
    return torch.where(norm == 0, 0.0, x / norm)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(
    x: Tensor, *, axes: Sizes = (0, 2, 3)
) -> Tensor:
    """Less the mean, divided by the deviation."""
    mean = x.mean(axes, True)
    spread = (x * x).mean(axes, True) - mean * mean
    return (x - mean) / (spread.sqrt() + 1e-9)


@operator("Dropout", 12, sizes=(1, 2), is_random=True)
def dropout(
    x: Tensor,
    ratio: float | None = None,
    training_mode: bool | None = None,
    *,
    seed: int | None = None,
    outputs: int,
) -> Any:
    """The same, but in training; and a mask of what is kept."""
    del seed
    share = 0.5 if ratio is None else ratio
    if not training_mode or share == 0.0:
        made, mask = x, None
    else:
        mask = torch.rand_like(x) >= share
        made = x * mask / (1 - share)
    if outputs == 1:
        return made
    if mask is None:
        mask = torch.ones_like(x, dtype=torch.bool)
    return made, mask


@operator("Dropout")
def dropout_1(
    x: Tensor, *, ratio: float = 0.5, is_test: int = 1, outputs: int
) -> Any:
    """The same, and a mask of what is kept."""
    del ratio, is_test
    if outputs == 1:
        return x
    return x, torch.ones_like(x, dtype=torch.bool)

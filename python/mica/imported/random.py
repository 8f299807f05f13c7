"""Random numbers: of torch's generator, whatever seed a node has."""

from __future__ import annotations

import torch

from mica.imported.registry import operator
from mica.imported.tensors import DTYPES

Tensor = torch.Tensor


@operator("RandomNormal", is_random=True)
def random_normal(
    *,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Tensor:
    """Of a normal distribution."""
    del seed
    return torch.randn(shape, dtype=DTYPES[dtype]) * scale + mean


@operator("RandomUniform", is_random=True)
def random_uniform(
    *,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Tensor:
    """Between two numbers."""
    del seed
    return torch.rand(shape, dtype=DTYPES[dtype]) * (high - low) + low


@operator("RandomNormalLike", is_random=True)
def random_normal_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    """Of a normal distribution, in the sizes of another tensor."""
    del seed
    kind = x.dtype if dtype is None else DTYPES[dtype]
    return torch.randn(x.shape, dtype=kind) * scale + mean


@operator("RandomUniformLike", is_random=True)
def random_uniform_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    """Between two numbers, in the sizes of another tensor."""
    del seed
    kind = x.dtype if dtype is None else DTYPES[dtype]
    return torch.rand(x.shape, dtype=kind) * (high - low) + low


@operator("Bernoulli", is_random=True)
def bernoulli(
    x: Tensor, *, dtype: int | None = None, seed: float | None = None
) -> Tensor:
    """One with the probability that the input gives, else zero."""
    del seed
    kind = x.dtype if dtype is None else DTYPES[dtype]
    return torch.bernoulli(x).to(kind)


@operator("Multinomial", is_random=True)
def multinomial(
    x: Tensor,
    *,
    dtype: int = 6,
    sample_size: int = 1,
    seed: float | None = None,
) -> Tensor:
    """Classes with the probabilities of softmax."""
    del seed
    shares = torch.softmax(x, -1)
    return torch.multinomial(shares, sample_size, True).to(DTYPES[dtype])

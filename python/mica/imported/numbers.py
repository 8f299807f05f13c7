"""Constants, dtypes, and operators of any number of inputs."""

from __future__ import annotations

from typing import Any

import torch

from mica.imported.errors import WHO
from mica.imported.registry import operator
from mica.imported.tensors import DTYPES, dtype_of
from mica.imported.wide import ordered, widened

Tensor = torch.Tensor


@operator("Identity")
def identity(x: Any) -> Any:
    """The same."""
    return x


@operator("Shape")
def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    """The sizes of a constant; `hosts.shape` gives those of the rest."""
    return torch.tensor(x.shape[start:end], dtype=torch.int64)


@operator("Size")
def size(x: Tensor) -> Tensor:
    """The number of a constant's elements."""
    return torch.tensor(x.numel(), dtype=torch.int64)


@operator("Constant")
def make_constant(
    *,
    value: Tensor | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
    sparse_value: Tensor | None = None,
) -> Tensor:
    """A tensor that the graph holds."""
    for tensor in (value, sparse_value):
        if tensor is not None:
            return tensor
    if value_float is not None or value_floats is not None:
        numbers = value_floats if value_float is None else value_float
        return torch.tensor(numbers, dtype=torch.float32)
    ints = value_ints if value_int is None else value_int
    return torch.tensor(ints, dtype=torch.int64)


@operator("ConstantOfShape", sizes=(0,))
def constant_of_shape(
    sizes: tuple[int, ...], *, value: Tensor | None = None
) -> Tensor:
    """One value everywhere; by default a float32 of zero."""
    if value is None:
        return torch.zeros(sizes)
    return torch.full(sizes, value.reshape(()).item(), dtype=value.dtype)


@operator("Cast")
def cast(
    x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    """Another dtype."""
    del saturate, round_mode  # Of eight-bit floats alone.
    dtype = dtype_of(to, "what is cast")
    return _cast(x, dtype)


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    if x.dtype.is_floating_point and dtype == torch.uint64:
        return x.to(torch.int64).to(dtype)
    return x.to(dtype)


@operator("CastLike")
def cast_like(
    x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    """The dtype of another tensor."""
    del saturate, round_mode
    return _cast(x, like.dtype)


@operator("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    """The same bits as another dtype of that width."""
    dtype = DTYPES[to]
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(f"{WHO}: BitCast of {x.dtype} to {dtype}")
    return x.view(dtype)


@operator("Clip", 11)
@ordered
def clip(
    x: Tensor, least: Tensor | None = None, greatest: Tensor | None = None
) -> Tensor:
    """Cut off."""
    if least is not None and greatest is not None:
        return torch.minimum(torch.maximum(x, least), greatest)
    if least is not None:
        return torch.maximum(x, least)
    return x if greatest is None else torch.minimum(x, greatest)


@operator("Clip", 6)
def clip_6(
    x: Tensor,
    *,
    min: float = torch.finfo(torch.float32).min,
    max: float = torch.finfo(torch.float32).max,
) -> Tensor:
    """Cut off at attributes."""
    return torch.clamp(x, min, max)


@ordered
def _smaller(a: Tensor, b: Tensor) -> Any:
    return torch.minimum(a, b)


@ordered
def _larger(a: Tensor, b: Tensor) -> Any:
    return torch.maximum(a, b)


@widened
def _plus(a: Tensor, b: Tensor) -> Tensor:
    return a + b


@operator("Min")
def minimum(first: Tensor, *others: Tensor) -> Tensor:
    """The least of each place."""
    for other in others:
        first = _smaller(first, other)
    return first


@operator("Max")
def maximum(first: Tensor, *others: Tensor) -> Tensor:
    """The greatest of each place."""
    for other in others:
        first = _larger(first, other)
    return first


@operator("Sum")
def total(first: Tensor, *others: Tensor) -> Tensor:
    """The sum of each place."""
    for other in others:
        first = _plus(first, other)
    return first


@operator("Mean")
def mean(first: Tensor, *others: Tensor) -> Tensor:
    """The mean of each place."""
    return total(first, *others) / (1 + len(others))


@operator("Range")
def make_range(
    start: Any,
    limit: Any,
    step: Any,
    *,
    dtype_of_sizes: torch.dtype | None,
    stash_type: int = 1,
) -> Any:
    """Numbers from `start` on, before `limit`."""
    del stash_type
    dtype = dtype_of_sizes
    for value in (start, limit, step):
        if isinstance(value, torch.Tensor):
            dtype = value.dtype
    first, end, by = _number(start), _number(limit), _number(step)
    if dtype is not None and not dtype.is_floating_point:
        if (by > 0 and end <= first) or (by < 0 and end >= first):
            return torch.empty((0,), dtype=dtype)
        return torch.arange(first, end, by, dtype=dtype)
    count = -((first - end) // by)
    count = int(count) if count > 0 else 0
    wide = torch.arange(count, dtype=torch.float64) * by + first
    return wide.to(dtype)


def _number(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.reshape(()).item()
    return value[0] if isinstance(value, tuple) else value


@operator("EyeLike")
def eye_like(x: Tensor, *, k: int = 0, dtype: int | None = None) -> Tensor:
    """Ones on a diagonal."""
    kind = x.dtype if dtype is None else DTYPES[dtype]
    rows = torch.arange(x.shape[0])[:, None]
    columns = torch.arange(x.shape[1])[None]
    return (columns - rows == k).to(kind)

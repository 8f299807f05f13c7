"""Operators over dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mica.imported.registry import operator

Tensor = torch.Tensor
Axes = tuple[int, ...]
Reduce = Callable[[Tensor, Axes, bool], Tensor]


def _all_axes(x: Tensor) -> Axes:
    return tuple(range(x.dim()))


def _enter(name: str, reduce: Reduce, since: int = 18) -> None:
    """Enters a reduction: axes are an attribute first, then an input."""

    def by_attribute(
        x: Tensor, *, axes: Axes | None = None, keepdims: int = 1
    ) -> Tensor:
        return reduce(x, axes or _all_axes(x), bool(keepdims))

    def by_input(
        x: Tensor,
        axes: Any = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        if axes is not None and not isinstance(axes, tuple):
            axes = (axes,)
        if not axes:
            if noop_with_empty_axes:
                return reduce(x, (), True)
            axes = _all_axes(x)
        return reduce(x, axes, bool(keepdims))

    by_attribute.__name__ = name.lower()
    by_input.__name__ = name.lower()
    operator(name)(by_attribute)
    operator(name, since, sizes=(1,))(by_input)


def _sum(x: Tensor, axes: Axes, keeps: bool) -> Tensor:
    if not axes:
        return x
    return torch.sum(x, axes, keeps, dtype=x.dtype)


def _mean(x: Tensor, axes: Axes, keeps: bool) -> Tensor:
    if not axes:
        return x
    if x.dtype.is_floating_point:
        return torch.mean(x, axes, keeps)
    return torch.mean(x.to(torch.float64), axes, keeps).to(x.dtype)


def _prod(x: Tensor, axes: Axes, keeps: bool) -> Tensor:
    for axis in sorted([a % x.dim() for a in axes], reverse=True):
        x = torch.prod(x, axis, keeps, dtype=x.dtype)
    return x


def _is_empty(x: Tensor, axes: Axes) -> bool:
    return any(x.shape[axis] == 0 for axis in axes)


def _fill(x: Tensor, axes: Axes, keeps: bool, value: Any) -> Tensor:
    """What a reduction over nothing gives."""
    axes = tuple([axis % x.dim() for axis in axes])
    sizes = [
        1 if axis in axes else x.shape[axis]
        for axis in range(x.dim())
        if keeps or axis not in axes
    ]
    return torch.full(sizes, value, dtype=x.dtype)


def _extreme(dtype: torch.dtype, sign: int) -> Any:
    if dtype == torch.bool:
        return sign > 0
    if dtype.is_floating_point:
        return sign * float("inf")
    limits = torch.iinfo(dtype)
    return limits.max if sign > 0 else limits.min


def _max(x: Tensor, axes: Axes, keeps: bool) -> Tensor:
    if not axes:
        return x
    if _is_empty(x, axes):
        return _fill(x, axes, keeps, _extreme(x.dtype, -1))
    return torch.amax(x, axes, keeps)


def _min(x: Tensor, axes: Axes, keeps: bool) -> Tensor:
    if not axes:
        return x
    if _is_empty(x, axes):
        return _fill(x, axes, keeps, _extreme(x.dtype, 1))
    return torch.amin(x, axes, keeps)


def _log_sum_exp(x: Tensor, axes: Axes, keeps: bool) -> Tensor:
    if not axes:
        return x
    return torch.logsumexp(x, axes, keeps)


def _l2(x: Tensor, axes: Axes, keeps: bool) -> Tensor:
    return torch.sqrt(_sum(x * x, axes, keeps).to(_real(x))).to(x.dtype)


def _real(x: Tensor) -> torch.dtype:
    return x.dtype if x.dtype.is_floating_point else torch.float64


_enter("ReduceSum", _sum, 13)
_enter("ReduceMean", _mean)
_enter("ReduceProd", _prod)
_enter("ReduceMax", _max)
_enter("ReduceMin", _min)
_enter("ReduceL1", lambda x, axes, keeps: _sum(x.abs(), axes, keeps))
_enter("ReduceL2", _l2)
_enter("ReduceSumSquare", lambda x, axes, keeps: _sum(x * x, axes, keeps))
_enter("ReduceLogSum", lambda x, axes, keeps: torch.log(_sum(x, axes, keeps)))
_enter("ReduceLogSumExp", _log_sum_exp)


def _extreme_place(
    find: Callable[..., Tensor], x: Tensor, axis: int, keeps: int, last: int
) -> Tensor:
    if not last:
        return find(x, axis, bool(keeps))
    return x.shape[axis] - 1 - find(x.flip(axis), axis, bool(keeps))


@operator("ArgMax")
def argmax(
    x: Tensor,
    *,
    axis: int = 0,
    keepdims: int = 1,
    select_last_index: int = 0,
) -> Tensor:
    """The place of the greatest; the first one, or the last."""
    return _extreme_place(torch.argmax, x, axis, keepdims, select_last_index)


@operator("ArgMin")
def argmin(
    x: Tensor,
    *,
    axis: int = 0,
    keepdims: int = 1,
    select_last_index: int = 0,
) -> Tensor:
    """The place of the least; the first one, or the last."""
    return _extreme_place(torch.argmin, x, axis, keepdims, select_last_index)


def _in_rows(
    f: Callable[[Tensor, int], Tensor], x: Tensor, axis: int
) -> Tensor:
    """`f` over all dims from `axis` on, as before opset 13."""
    axis = axis % x.dim() if x.dim() > 0 else 0
    return f(x.flatten(axis), axis).reshape(x.shape)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    place = torch.argmax(x, axis, True)
    return torch.zeros_like(x).scatter(axis, place, 1)


@operator("Softmax", 13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """torch.softmax."""
    return torch.softmax(x, axis)


@operator("LogSoftmax", 13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """torch.log_softmax."""
    return torch.log_softmax(x, axis)


@operator("Hardmax", 13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """One at the first of the greatest, else zero."""
    return _hardmax(x, axis)


@operator("Softmax")
def softmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    """torch.softmax over all dims from `axis` on."""
    return _in_rows(torch.softmax, x, axis)


@operator("LogSoftmax")
def log_softmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    """torch.log_softmax over all dims from `axis` on."""
    return _in_rows(torch.log_softmax, x, axis)


@operator("Hardmax")
def hardmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    """One at the first of the greatest of all dims from `axis` on."""
    return _in_rows(_hardmax, x, axis)


def _cumulative(
    f: Callable[..., Tensor],
    start: int,
    x: Tensor,
    axis: Any,
    exclusive: int,
    reverse: int,
) -> Tensor:
    axis = axis[0] if isinstance(axis, tuple) else axis
    if reverse:
        x = x.flip(axis)
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), start)
        rest = x.narrow(axis, 0, x.shape[axis] - 1)
        x = torch.cat([first, rest], axis)
    x = f(x, axis, dtype=x.dtype)
    return x.flip(axis) if reverse else x


@operator("CumSum", sizes=(1,))
def cumsum(
    x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    """Sums up to each place, or before it."""
    return _cumulative(torch.cumsum, 0, x, axis, exclusive, reverse)


@operator("CumProd", sizes=(1,))
def cumprod(
    x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    """Products up to each place, or before it."""
    return _cumulative(torch.cumprod, 1, x, axis, exclusive, reverse)


@operator("TopK", 10, sizes=(1,))
def topk(
    x: Tensor,
    k: Any,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
) -> tuple[Tensor, Tensor]:
    """The greatest or least; of equal ones those that come first."""
    del sorted
    count = k[0] if isinstance(k, tuple) else k
    values, places = torch.sort(
        x, dim=axis, descending=bool(largest), stable=True
    )
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


@operator("TopK")
def topk_1(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The greatest, with their number as an attribute."""
    return topk(x, k, axis=axis)

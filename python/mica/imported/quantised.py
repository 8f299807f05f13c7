"""Quantised numbers, in integers."""

from __future__ import annotations

from typing import Any

import torch

from mica.imported.convolutions import conv, less_by_channel
from mica.imported.errors import WHO
from mica.imported.registry import operator
from mica.imported.tensors import DTYPES

Tensor = torch.Tensor


def _spread(t: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point in the sizes of what it is for."""
    if t.dim() == 0 or t.numel() == 1 and x.dim() != t.dim():
        return t.reshape(())
    axis = axis % x.dim()
    if block:
        size = x.shape[axis]
        return t.repeat_interleave(block, axis).narrow(axis, 0, size)
    if t.dim() > 1:
        return t
    return t.reshape([-1 if dim == axis else 1 for dim in range(x.dim())])


def _rounded(x: Tensor, zero: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The nearest of the dtype's numbers, moved by a zero point."""
    limits = torch.iinfo(dtype)
    whole = torch.round(x)
    if zero is not None:
        whole = whole + zero.to(whole.dtype)
    return torch.clamp(whole, limits.min, limits.max).to(torch.int64).to(dtype)


@operator("QuantizeLinear")
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Numbers in steps of a scale, as ints."""
    del saturate
    dtype = torch.uint8 if zero is None else zero.dtype
    if output_dtype:
        dtype = DTYPES.get(output_dtype, torch.float32)
    if dtype.is_floating_point:
        raise NotImplementedError(f"{WHO}: QuantizeLinear to type {dtype}")
    kind = DTYPES[precision] if precision else scale.dtype
    step = _spread(scale, x, axis, block_size).to(kind)
    if zero is not None:
        zero = _spread(zero, x, axis, block_size).to(torch.int64)
    return _rounded(x.to(kind) / step, zero, dtype)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """Ints as the numbers that they stand for."""
    step = _spread(scale, x, axis, block_size)
    wide = x.to(torch.int32)
    if zero is not None:
        wide = wide - _spread(zero, x, axis, block_size).to(torch.int32)
    dtype = DTYPES[output_dtype] if output_dtype else scale.dtype
    return (wide.to(scale.dtype) * step).to(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As uint8, with a scale and zero point that fit."""
    least = torch.clamp(x.amin(), max=0.0)
    greatest = torch.clamp(x.amax(), min=0.0)
    scale = (greatest - least) / 255
    zero = torch.where(scale == 0, 0.0, -least / scale)
    zero = torch.clamp(torch.round(zero), 0, 255)
    made = torch.clamp(torch.round(x / scale) + zero, 0, 255)
    return made.to(torch.uint8), scale, zero.to(torch.uint8)


def _less(x: Tensor, zero: Tensor | None, is_rows: bool) -> Tensor:
    """Ints less their zero point, in float64, whose products are exact."""
    wide = x.to(torch.float64)
    if zero is None:
        return wide
    moved = zero.to(torch.float64)
    if zero.dim() == 1 and zero.numel() > 1 and is_rows:
        moved = moved[:, None]
    return wide - moved


@operator("MatMulInteger")
def matmul_integer(
    a: Tensor,
    b: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
) -> Tensor:
    """A product of ints, as int32."""
    wide = _less(a, a_zero, True) @ _less(b, b_zero, False)
    return wide.to(torch.int32)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    """A product of quantised matrices."""
    wide = _less(a, a_zero, True) @ _less(b, b_zero, False)
    factor = a_scale.double() * b_scale.double() / y_scale.double()
    return _rounded(wide * factor, y_zero.to(torch.int64), y_zero.dtype)


@operator("QLinearConv", like=conv)
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Tensor:
    """A convolution of quantised images."""
    kernel = less_by_channel(weight, w_zero)
    wide_bias = None if bias is None else bias.to(torch.float64)
    wide = conv(_less(x, x_zero, False), kernel, wide_bias, **attributes)
    factor = x_scale.double() * w_scale.double() / y_scale.double()
    if factor.numel() > 1:
        factor = factor.reshape([1, -1] + [1] * (weight.dim() - 2))
    return _rounded(wide * factor, y_zero.to(torch.int64), y_zero.dtype)

"""Convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.errors import WHO
from mica.imported.registry import operator
from mica.imported.windows import are_even, flat, pads_of

Tensor = torch.Tensor
Sizes = tuple[int, ...]

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {
    1: F.conv_transpose1d,
    2: F.conv_transpose2d,
    3: F.conv_transpose3d,
}


def _of_rank(functions: dict[int, Any], x: Tensor) -> Any:
    rank = x.dim() - 2
    if rank not in functions:
        raise ValueError(
            f"{WHO}: convolutions want 1 to 3 dims of space, got {rank}"
        )
    return functions[rank]


@operator("Conv")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sizes | None = None,
    group: int = 1,
    kernel_shape: Sizes | None = None,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Any:
    """F.conv1d to F.conv3d."""
    del kernel_shape  # The weight's.
    rank = x.dim() - 2
    strides = strides or (1,) * rank
    dilations = dilations or (1,) * rank
    kernel = tuple(weight.shape[2:])
    around = pads_of(x, kernel, strides, dilations, pads, auto_pad)
    run = _of_rank(_CONVOLUTIONS, x)
    if are_even(around):
        even = tuple([before for before, _ in around])
        return run(x, weight, bias, strides, even, dilations, group)
    x = F.pad(x, flat(around))
    return run(x, weight, bias, strides, 0, dilations, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sizes | None = None,
    group: int = 1,
    kernel_shape: Sizes | None = None,
    output_padding: Sizes | None = None,
    output_shape: Sizes | None = None,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Any:
    """F.conv_transpose1d to F.conv_transpose3d."""
    del kernel_shape
    rank = x.dim() - 2
    strides = strides or (1,) * rank
    dilations = dilations or (1,) * rank
    extra = output_padding or (0,) * rank
    run = _of_rank(_TRANSPOSED, x)
    around = [
        _transposed_pads(
            dim,
            x.shape[2 + dim],
            strides[dim],
            (weight.shape[2 + dim] - 1) * dilations[dim] + 1 + extra[dim],
            pads,
            auto_pad,
            output_shape[dim - rank] if output_shape else None,
        )
        for dim in range(rank)
    ]
    if are_even(around) and all(before >= 0 for before, _ in around):
        even = tuple([before for before, _ in around])
        return run(x, weight, bias, strides, even, extra, group, dilations)
    whole = run(x, weight, bias, strides, 0, 0, group, dilations)
    around = [
        (-before, more - after)
        for (before, after), more in zip(around, extra, strict=True)
    ]
    return F.pad(whole, flat(around))


def _transposed_pads(
    dim: int,
    size: int,
    stride: int,
    span: int,
    pads: Sizes | None,
    auto_pad: str,
    wanted: int | None,
) -> tuple[int, int]:
    """What is cut off of a dim of a transposed convolution's result."""
    if wanted is None:
        if not auto_pad.startswith("SAME"):
            if pads is None or auto_pad == "VALID":
                return 0, 0
            return pads[dim], pads[len(pads) // 2 + dim]
        wanted = size * stride
    whole = (size - 1) * stride + span - wanted
    less, more = whole // 2, whole - whole // 2
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


@operator("ConvInteger", like=conv)
def conv_integer(
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    **attributes: Any,
) -> Any:
    """A convolution of ints, less their zero points; exact in float64."""
    wide = x.to(torch.float64)
    if x_zero is not None:
        wide = wide - x_zero.to(torch.float64)
    kernel = less_by_channel(weight, weight_zero)
    return conv(wide, kernel, None, **attributes).to(torch.int32)


def less_by_channel(weight: Tensor, zero: Tensor | None) -> Tensor:
    """A kernel of ints less its zero point, of all or each channel's; f64."""
    kernel = weight.to(torch.float64)
    if zero is None:
        return kernel
    first = -1 if zero.numel() > 1 else 1
    sizes = [first] + [1] * (weight.dim() - 1)
    return kernel - zero.to(torch.float64).reshape(sizes)


@operator("DeformConv")
def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sizes | None = None,
    group: int = 1,
    kernel_shape: Sizes | None = None,
    offset_group: int = 1,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """A convolution of which each element is read beside its place."""
    del kernel_shape
    strides, dilations = strides or (1, 1), dilations or (1, 1)
    top, left = (pads or (0, 0))[:2]
    n, channels = x.shape[:2]
    kh, kw = weight.shape[2:]
    oh, ow = offset.shape[2:]
    moved = offset.reshape(n, offset_group, kh * kw, 2, oh, ow)
    i, j = torch.arange(kh * kw) // kw, torch.arange(kh * kw) % kw
    rows = (
        (i * dilations[0] - top)[:, None, None]
        + (torch.arange(oh) * strides[0])[None, :, None]
        + moved[:, :, :, 0]
    )
    columns = (
        (j * dilations[1] - left)[:, None, None]
        + (torch.arange(ow) * strides[1])[None, None]
        + moved[:, :, :, 1]
    )
    parts = x.reshape(n, offset_group, channels // offset_group, *x.shape[2:])
    read = bilinear(parts, rows, columns)
    if mask is not None:
        read = read * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    read = read.reshape(n, group, channels // group, kh * kw, oh, ow)
    kernel = weight.reshape(group, -1, channels // group, kh * kw)
    made = torch.einsum("ngckhw,gock->ngohw", read, kernel)
    made = made.reshape(n, -1, oh, ow)
    return made if bias is None else made + bias[:, None, None]


def bilinear(
    x: Tensor, rows: Tensor, columns: Tensor, of_one: bool = False
) -> Tensor:
    """Reads images between their pixels; zero outside of them.

    Args:
      x: [n, g, c, h, w].
      rows: [n, g, …], numbers of rows.
      columns: As `rows`.
      of_one: The greatest share of a pixel, not the sum of four.
    Returns:
      [n, g, c, …].
    """
    n, g, c, h, w = x.shape
    pixels = x.reshape(n, g, c, h * w)
    row, column = rows.floor(), columns.floor()
    shares = []
    for dy in (0, 1):
        for dx in (0, 1):
            y, z = row + dy, column + dx
            share = (1 - (rows - y).abs()) * (1 - (columns - z).abs())
            inside = (y >= 0) & (y < h) & (z >= 0) & (z < w)
            place = (y.clamp(0, h - 1) * w + z.clamp(0, w - 1)).to(torch.int64)
            share = torch.where(inside, share, 0.0).reshape(n, g, 1, -1)
            place = place.reshape(n, g, 1, -1).expand(n, g, c, -1)
            shares.append(pixels.gather(3, place) * share)
    result = shares[0]
    for share in shares[1:]:
        result = torch.maximum(result, share) if of_one else result + share
    return result.reshape(n, g, c, *rows.shape[2:])


@operator("Col2Im", sizes=(1, 2))
def col2im(
    x: Tensor,
    image: Sizes,
    block: Sizes,
    *,
    dilations: Sizes | None = None,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """Adds blocks into an image: what F.fold does, with any dims."""
    rank = len(image)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    around = pads or (0,) * (2 * rank)
    places = torch.zeros((1, 1), dtype=torch.int64)
    inside = torch.ones((1, 1), dtype=torch.bool)
    for dim in range(rank):
        span = (block[dim] - 1) * dilations[dim] + 1
        whole = image[dim] + around[dim] + around[rank + dim]
        count = (whole - span) // strides[dim] + 1
        at = (
            torch.arange(block[dim])[:, None] * dilations[dim]
            + torch.arange(count)[None] * strides[dim]
            - around[dim]
        )
        fits = (at >= 0) & (at < image[dim])
        at = at.clamp(0, image[dim] - 1)
        both = places[:, None, :, None] * image[dim] + at[None, :, None, :]
        fit = inside[:, None, :, None] & fits[None, :, None, :]
        rows, columns = both.shape[0] * both.shape[1], -1
        places = both.reshape(rows, columns)
        inside = fit.reshape(rows, columns)
    n = x.shape[0]
    elements = x.reshape(n, -1, places.numel())
    elements = torch.where(inside.reshape(-1), elements, 0)
    total = 1
    for size in image:
        total = total * size
    made = torch.zeros((n, elements.shape[1], total), dtype=x.dtype)
    made = made.index_add(2, places.reshape(-1), elements)
    return made.reshape(n, elements.shape[1], *image)

"""Operators that lay elements out otherwise."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator

Tensor = torch.Tensor
Sizes = tuple[int, ...]
# A slice object hides from capture which sizes it was made of.
_part = torch.ops.aten.slice.Tensor
# Ends from here on mean a dim's own.
_FAR = 2**31 - 1


@operator("Reshape", 5, sizes=(1,))
def reshape(x: Tensor, sizes: Sizes, *, allowzero: int = 0) -> Tensor:
    """Other sizes; 0 stands for the size that was there."""
    if allowzero:
        return x.reshape(sizes)
    return x.reshape(
        [
            x.shape[place] if size == 0 else size
            for place, size in enumerate(sizes)
        ]
    )


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Two dims, of those before `axis` and of the rest."""
    if axis == 1 and x.dim() > 1:
        return torch.flatten(x, 1)
    axis = axis + x.dim() if axis < 0 else axis
    rows = 1
    for size in x.shape[:axis]:
        rows = rows * size
    columns = 1
    for size in x.shape[axis:]:
        columns = columns * size
    return x.reshape(rows, columns)


def _tuple(axes: Any) -> Sizes:
    return axes if isinstance(axes, tuple) else (axes,)


@operator("Squeeze", 13, sizes=(1,))
def squeeze(x: Tensor, axes: Any = None) -> Tensor:
    """Without dims of size 1."""
    return x.squeeze() if axes is None else x.squeeze(_tuple(axes))


@operator("Squeeze")
def squeeze_1(x: Tensor, *, axes: Sizes | None = None) -> Tensor:
    """Without dims of size 1."""
    return squeeze(x, axes)


@operator("Unsqueeze", 13, sizes=(1,))
def unsqueeze(x: Tensor, axes: Any) -> Tensor:
    """With further dims of size 1."""
    axes = _tuple(axes)
    rank = x.dim() + len(axes)
    for axis in sorted([axis % rank for axis in axes]):
        x = x.unsqueeze(axis)
    return x


@operator("Unsqueeze")
def unsqueeze_1(x: Tensor, *, axes: Sizes) -> Tensor:
    """With further dims of size 1."""
    return unsqueeze(x, axes)


@operator("Transpose")
def transpose(x: Tensor, *, perm: Sizes | None = None) -> Tensor:
    """Dims in another order; by default the reverse one."""
    return x.permute(tuple(range(x.dim()))[::-1] if perm is None else perm)


@operator("Expand", sizes=(1,))
def expand(x: Tensor, sizes: Sizes) -> Tensor:
    """Broadcast with a tensor of some sizes."""
    short = len(sizes) - x.dim()
    own = (1,) * short + tuple(x.shape) if short > 0 else tuple(x.shape)
    extra = -short if short < 0 else 0
    target = [
        size
        if place < extra or sizes[place - extra] == 1
        else sizes[place - extra]
        for place, size in enumerate(own)
    ]
    return x.expand(target)


@operator("Tile", 6, sizes=(1,))
def tile(x: Tensor, repeats: Sizes) -> Tensor:
    """Repeated along dims."""
    return x.repeat(repeats)


def _slice(
    x: Tensor, starts: Sizes, ends: Sizes, axes: Sizes | None, steps: Sizes
) -> Tensor:
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = place if axes is None else axes[place]
        step = steps[place] if steps else 1
        if step < 0:
            x, start, end = _backwards(x, axis, start, end, step)
            step = -step
        x = _part(x, axis, start, None if end >= _FAR else end, step)
    return x


def _backwards(
    x: Tensor, axis: int, start: int, end: int, step: int
) -> tuple[Tensor, int, int]:
    """The reversed tensor, and the slice of it."""
    size = x.shape[axis]
    start = start + size if start < 0 else start
    start = size - 1 if start >= size else start
    end = end + size if end < 0 else end
    end = -1 if end < -1 else end
    first = size - 1 - start
    last = size - 1 - end
    return x.flip(axis), first, last if last > first else first


@operator("Slice", 10, sizes=(1, 2, 3, 4))
def take_slice(
    x: Tensor,
    starts: Sizes,
    ends: Sizes,
    axes: Sizes | None = None,
    steps: Sizes | None = None,
) -> Tensor:
    """A part of each dim."""
    return _slice(x, starts, ends, axes, steps or ())


@operator("Slice")
def take_slice_1(
    x: Tensor, *, starts: Sizes, ends: Sizes, axes: Sizes | None = None
) -> Tensor:
    """A part of each dim."""
    return _slice(x, starts, ends, axes, ())


@operator("Trilu", sizes=(1,))
def trilu(x: Tensor, k: Any = None, *, upper: int = 1) -> Tensor:
    """A triangle of a matrix."""
    diagonal = (k[0] if isinstance(k, tuple) else k) if k is not None else 0
    if upper:
        return torch.triu(x, diagonal)
    return torch.tril(x, diagonal)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels as blocks of pixels."""
    b = blocksize
    n, c, h, w = x.shape
    if mode == "CRD":
        return F.pixel_shuffle(x, b)
    x = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // (b * b), h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels as channels."""
    b = blocksize
    n, c, h, w = x.shape
    if mode == "CRD":
        return F.pixel_unshuffle(x, b)
    x = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * b * b, h // b, w // b)


@operator("CenterCropPad", sizes=(1,))
def center_crop_pad(
    x: Tensor, sizes: Any, *, axes: Sizes | None = None
) -> Tensor:
    """The middle of each dim, or zeros around it."""
    chosen = tuple(range(x.dim())) if axes is None else axes
    pads = [0] * (2 * x.dim())
    for axis, size in zip(chosen, _tuple(sizes), strict=True):
        axis = axis % x.dim()
        missing = size - x.shape[axis]
        if missing >= 0:
            before, after = missing // 2, missing - missing // 2
        else:
            before = -(-missing // 2)
            after = missing - before
        place = 2 * (x.dim() - 1 - axis)
        pads[place], pads[place + 1] = before, after
    return F.pad(x, pads)


@operator("Pad", 11, sizes=(1, 2, 3))
def pad(
    x: Tensor,
    pads: Sizes,
    value: Any = None,
    axes: Sizes | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """More elements at the ends of dims; fewer, if a pad is negative."""
    value = value[0] if isinstance(value, tuple) and value else value or 0
    chosen = tuple(range(x.dim())) if axes is None else _tuple(axes)
    around = {
        axis % x.dim(): (pads[place], pads[place + len(chosen)])
        for place, axis in enumerate(chosen)
    }
    if mode == "constant":
        flat: list[int] = []
        for axis in range(x.dim() - 1, -1, -1):
            flat.extend(around.get(axis, (0, 0)))
        return F.pad(x, flat, value=value)
    for axis, (before, after) in around.items():
        if before != 0 or after != 0:
            x = _pad_by_place(x, axis, before, after, mode)
    return x


def _pad_by_place(
    x: Tensor, axis: int, before: int, after: int, mode: str
) -> Tensor:
    size = x.shape[axis]
    places = torch.arange(-before, size + after)
    if mode == "edge":
        places = places.clamp(0, size - 1)
    elif mode == "wrap":
        places = torch.remainder(places, size)
    elif mode == "reflect":
        places = (
            torch.remainder(places, 2 * (size - 1)) if size > 1 else places * 0
        )
        places = torch.where(places < size, places, 2 * (size - 1) - places)
    else:
        raise ValueError(f"Pad: unknown mode '{mode}'")
    return x.index_select(axis, places)


@operator("Pad", 2)
def pad_2(
    x: Tensor, *, pads: Sizes, mode: str = "constant", value: float = 0.0
) -> Tensor:
    """More elements at the ends of dims."""
    return pad(x, pads, value, mode=mode)


@operator("ReverseSequence")
def reverse_sequence(
    x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Sequences of a batch, each reversed up to its length."""
    steps = torch.arange(x.shape[time_axis])[:, None]
    ends = lengths.to(torch.int64)[None]
    places = torch.where(steps < ends, ends - 1 - steps, steps)
    moved = x.movedim((time_axis, batch_axis), (0, 1))
    batch = torch.arange(moved.shape[1])[None]
    return moved[places, batch].movedim((0, 1), (time_axis, batch_axis))

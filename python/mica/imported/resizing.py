"""Images at other sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.errors import WHO
from mica.imported.registry import operator

Tensor = torch.Tensor
Sizes = tuple[int, ...]
Scales = tuple[float, ...]


def _coordinates(
    mode: str,
    size: int,
    new: int,
    scale: float,
    roi: tuple[float, float],
) -> Tensor:
    """Where in the old dim each place of the new one lies, in float64."""
    x = torch.arange(new, dtype=torch.float64)
    if mode == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if new > 1 else x * 0
    if mode == "half_pixel_symmetric":
        moved = size / 2 * (1 - new / (scale * size))
        return moved + (x + 0.5) / scale - 0.5
    if mode == "align_corners":
        # By the scale, what the new size is before it is rounded.
        whole = scale * size
        return x * (size - 1) / (whole - 1) if new > 1 else x * 0
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        if new > 1:
            step = (end - start) * (size - 1) / (new - 1)
            return start * (size - 1) + x * step
        return x * 0 + 0.5 * (start + end) * (size - 1)
    raise NotImplementedError(f"{WHO}: Resize with coordinates '{mode}'")


def _nearest(x: Tensor, mode: str) -> Tensor:
    if mode == "round_prefer_ceil":
        return torch.floor(x + 0.5)
    if mode == "floor":
        return torch.floor(x)
    return torch.ceil(x) if mode == "ceil" else torch.ceil(x - 0.5)


def _cubic(x: Tensor, a: float) -> Tensor:
    """The kernel of cubic convolution (Keys 1981)."""
    x = x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))


def _along(
    x: Tensor,
    axis: int,
    at: Tensor,
    scale: float,
    mode: str,
    nearest: str,
    coefficient: float,
    outside: int,
) -> Tensor:
    """A dim read at coordinates.

    Args:
      x: The tensor.
      axis: The dim.
      at: [new], in float64.
      scale: Below 1 the kernel is so much wider.
      mode: nearest, linear or cubic.
      nearest: How coordinates are rounded.
      coefficient: Of the cubic kernel.
      outside: If 1, what lies outside doesn't count; else the edge does.
    """
    size = x.shape[axis]
    if mode == "nearest":
        rows = _nearest(at, nearest).clamp(0, size - 1)
        return x.index_select(axis, rows.to(torch.int64))
    reach = int((1 if mode == "linear" else 2) / scale + 0.999999)
    base = torch.floor(at)
    sizes = [1] * x.dim()
    sizes[axis] = -1
    shares, places = [], []
    for step in range(1 - reach, reach + 1):
        gap = (base + step - at) * scale
        if mode == "linear":
            share = (1 - gap.abs()).clamp(min=0)
        else:
            share = _cubic(gap, coefficient)
        place = base + step
        if outside:
            share = torch.where((place >= 0) & (place < size), share, 0.0)
        shares.append(share)
        places.append(place.clamp(0, size - 1).to(torch.int64))
    whole = torch.stack(shares).sum(0)
    kind = x.dtype if x.dtype.is_floating_point else torch.float64
    made = torch.zeros((), dtype=kind)
    for share, place in zip(shares, places, strict=True):
        part = (share / whole).to(kind).reshape(sizes)
        made = made + x.index_select(axis, place) * part
    return made


def _plain(
    x: Tensor, scales: Scales | None, sizes: Sizes | None, how: str
) -> Tensor:
    """F.interpolate over all dims but the first two."""
    corners = {"align": True, "half": False}.get(how.split()[-1])
    mode = how.split()[0]
    if mode == "linear":
        mode = {3: "linear", 4: "bilinear", 5: "trilinear"}[x.dim()]
    if scales is not None:
        return F.interpolate(
            x, scale_factor=list(scales), mode=mode, align_corners=corners
        )
    return F.interpolate(x, list(sizes or ()), mode=mode, align_corners=corners)


def _plain_way(
    mode: str, coordinates: str, nearest: str, coefficient: float, rank: int
) -> str | None:
    """How F.interpolate does what a node asks for; None if it can't."""
    if mode == "nearest":
        fits = coordinates == "asymmetric" and nearest == "floor"
        return "nearest" if fits and 3 <= rank <= 5 else None
    if mode == "cubic" and (rank != 4 or coefficient != -0.75):
        return None
    if not 3 <= rank <= 5:
        return None
    name = "bicubic" if mode == "cubic" else "linear"
    if coordinates == "align_corners":
        return f"{name} align"
    if coordinates == "half_pixel":
        return f"{name} half"
    return None


def _is_whole(x: Tensor, scales: Scales, way: str) -> bool:
    """True if F.interpolate takes the scales as they are meant."""
    if scales[0] != 1 or scales[1] != 1:
        return False
    if not way.endswith("align"):
        return True
    return all(
        int(scale * size) == scale * size
        for scale, size in zip(scales, x.shape, strict=True)
    )


def _new_sizes(
    x: Tensor,
    axes: Sizes,
    scales: Scales | None,
    sizes: Sizes | None,
    policy: str,
    rois: list[tuple[float, float]],
) -> tuple[list[int], list[float]]:
    """The sizes of the axes, and what they are scaled by."""
    old = [x.shape[axis] for axis in axes]
    if scales is not None:
        new = [
            int(n * (end - start) * s)
            for n, s, (start, end) in zip(old, scales, rois, strict=True)
        ]
        return new, list(scales)
    assert sizes is not None
    factors = [s / n for s, n in zip(sizes, old, strict=True)]
    if policy == "stretch":
        return list(sizes), factors
    chosen = min(factors) if policy == "not_larger" else max(factors)
    return [int(chosen * n + 0.5) for n in old], [chosen] * len(old)


@operator("Resize", 11, sizes=(1, 2, 3))
def resize(
    x: Tensor,
    roi: Scales | None = None,
    scales: Scales | None = None,
    sizes: Sizes | None = None,
    *,
    antialias: int = 0,
    axes: Sizes | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """F.interpolate, and all that it doesn't know."""
    scales, sizes = scales or None, sizes or None
    coordinates = coordinate_transformation_mode
    axes = axes or tuple(range(x.dim()))
    axes = tuple([axis % x.dim() for axis in axes])
    way = None
    if (
        not (antialias or exclude_outside)
        and keep_aspect_ratio_policy == "stretch"
        and axes == tuple(range(x.dim()))
        and x.dtype == torch.float32
    ):
        rounds = (nearest_mode, cubic_coeff_a)
        way = _plain_way(mode, coordinates, *rounds, x.dim())
    if way is not None and scales is not None and _is_whole(x, scales, way):
        return _plain(x, scales[2:], None, way)
    if way is not None and sizes and sizes[:2] == tuple(x.shape[:2]):
        return _plain(x, None, sizes[2:], way)
    crops = coordinates == "tf_crop_and_resize"
    count = len(axes)
    rois = [(0.0, 1.0)] * count
    if crops and roi:
        rois = [(roi[i], roi[count + i]) for i in range(count)]
    new, factors = _new_sizes(
        x, axes, scales, sizes, keep_aspect_ratio_policy, rois
    )
    made = x
    how = (mode, nearest_mode, cubic_coeff_a, exclude_outside)
    for place, axis in enumerate(axes):
        size, factor = x.shape[axis], factors[place]
        if new[place] == size and factor == 1 and not crops:
            continue
        at = _coordinates(coordinates, size, new[place], factor, rois[place])
        wide = factor if antialias and factor < 1 else 1.0
        made = _along(made, axis, at, wide, *how)
        if crops:
            inside = (at >= 0) & (at <= size - 1)
            dims = [-1 if d == axis else 1 for d in range(x.dim())]
            made = torch.where(inside.reshape(dims), made, extrapolation_value)
    if x.dtype.is_floating_point:
        return made.to(x.dtype)
    if mode != "nearest":
        made = made.round()
    return made.to(x.dtype)


@operator("Resize", 10, sizes=(1,))
def resize_10(x: Tensor, scales: Scales, *, mode: str = "nearest") -> Tensor:
    """By scales, from the first pixel on."""
    return resize(
        x,
        None,
        scales,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


@operator("Upsample", 9, sizes=(1,))
def upsample(x: Tensor, scales: Scales, *, mode: str = "nearest") -> Tensor:
    """By scales, from the first pixel on."""
    return resize_10(x, scales, mode=mode)


@operator("Upsample", 7)
def upsample_7(x: Tensor, *, scales: Scales, mode: str = "nearest") -> Tensor:
    """By scales, from the first pixel on."""
    return resize_10(x, scales, mode=mode)


_GRID_MODES = {"linear": "bilinear", "cubic": "bicubic"}


@operator("GridSample")
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """F.grid_sample."""
    return F.grid_sample(
        x,
        grid,
        _GRID_MODES.get(mode, mode),
        padding_mode,
        bool(align_corners),
    )


@operator("AffineGrid", sizes=(1,))
def affine_grid(theta: Tensor, sizes: Any, *, align_corners: int = 0) -> Tensor:
    """F.affine_grid."""
    return F.affine_grid(theta, list(sizes), bool(align_corners))

"""Operators of object detection."""

from __future__ import annotations

from typing import Any

import torch

from mica.imported.convolutions import bilinear
from mica.imported.registry import operator

Tensor = torch.Tensor


def _corners(boxes: Tensor, center_point_box: int) -> Tensor:
    """Boxes as least and greatest coordinates: [count, 4]."""
    a, b = boxes[:, :2], boxes[:, 2:]
    if center_point_box:
        return torch.cat([a - b / 2, a + b / 2], 1)
    return torch.cat([torch.minimum(a, b), torch.maximum(a, b)], 1)


def _overlaps(boxes: Tensor) -> Tensor:
    """Intersection over union of each two: [count, count]."""
    least = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    greatest = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both = (greatest - least).clamp(min=0).prod(2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    whole = area[:, None] + area[None] - both
    return torch.where(whole > 0, both / whole, 0.0)


@operator("NonMaxSuppression", sizes=(2, 3, 4))
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: Any = 0,
    overlap: Any = 0.0,
    least: Any = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """The best boxes that don't overlap: [count, (batch, class, box)]."""
    most, overlap, least = (
        value[0] if isinstance(value, tuple) else value
        for value in (most, overlap, least)
    )
    chosen: list[list[int]] = []
    for n in range(boxes.shape[0]):
        corners = _corners(boxes[n], center_point_box)
        covers = (_overlaps(corners) > (overlap or 0.0)).tolist()
        for c in range(scores.shape[1]):
            row = scores[n, c]
            order = torch.sort(row, descending=True, stable=True)[1].tolist()
            values = row.tolist()
            kept: list[int] = []
            for box in order:
                if len(kept) >= (most or 0):
                    break
                if least is not None and values[box] <= least:
                    break
                if not any(covers[box][other] for other in kept):
                    kept.append(box)
            chosen += [[n, c, box] for box in kept]
    return torch.tensor(chosen, dtype=torch.int64).reshape(-1, 3)


@operator("RoiAlign", 16)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batches: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Regions in one size, read between pixels."""
    half = coordinate_transformation_mode == "half_pixel"
    moved = rois * spatial_scale - (0.5 if half else 0.0)
    sizes = moved[:, 2:] - moved[:, :2]
    if not half:
        sizes = sizes.clamp(min=1.0)
    steps = sizes / torch.tensor(
        [output_width, output_height], dtype=sizes.dtype
    )
    results = []
    for number in range(rois.shape[0]):
        if sampling_ratio > 0:
            counts = (sampling_ratio, sampling_ratio)
        else:
            across, down = steps[number].ceil().to(torch.int64).tolist()
            counts = (max(across, 1), max(down, 1))
        columns, rows = (
            moved[number, d] + _samples(steps[number, d], out, counts[d])
            for d, out in ((0, output_width), (1, output_height))
        )
        image = x[batches[number].to(torch.int64)]
        read = _read(image, rows, columns, mode != "avg")
        read = read.reshape(
            x.shape[1], output_height, counts[1], output_width, counts[0]
        )
        dims = (2, 4)
        made = read.mean(dims) if mode == "avg" else read.amax(dims)
        results.append(made)
    return torch.stack(results)


def _samples(step: Tensor, out: int, count: int) -> Tensor:
    """Coordinates of samples in a region: [out * count]."""
    at = torch.arange(out)[:, None] + (torch.arange(count) + 0.5) / count
    return at.reshape(-1) * step


def _read(image: Tensor, rows: Tensor, columns: Tensor, of_one: bool) -> Tensor:
    """An image at each row and column; zero a pixel outside of it.

    With `of_one`, the greatest share of a pixel instead of the sum of four.
    """
    h, w = image.shape[1:]
    y, x = rows[:, None], columns[None]
    inside = (y >= -1) & (y <= h) & (x >= -1) & (x <= w)
    y = y.clamp(0, h - 1).expand(inside.shape)
    x = x.clamp(0, w - 1).expand(inside.shape)
    read = bilinear(image[None, None], y[None, None], x[None, None], of_one)
    return torch.where(inside, read[0, 0], 0.0)


@operator("RoiAlign", 10, like=roi_align)
def roi_align_10(
    x: Tensor, rois: Tensor, batches: Tensor, **attributes: Any
) -> Tensor:
    """Regions whose corners are those of pixels."""
    return roi_align(
        x,
        rois,
        batches,
        coordinate_transformation_mode="output_half_pixel",
        **attributes,
    )

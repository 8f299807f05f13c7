"""Where the windows of convolutions and poolings lie."""

from __future__ import annotations

import torch

Sizes = tuple[int, ...]
Pads = list[tuple[int, int]]


def pads_of(
    x: torch.Tensor,
    kernel: Sizes,
    strides: Sizes,
    dilations: Sizes,
    pads: Sizes | None,
    auto_pad: str,
) -> Pads:
    """The padding before and behind each dim of an image.

    Args:
      x: [batch, channels, …].
      kernel: The window's sizes.
      strides: From window to window.
      dilations: From element to element of a window.
      pads: Those of all dims before it, then those behind it.
      auto_pad: NOTSET takes `pads`; VALID has none; SAME_UPPER and SAME_LOWER
        give as many windows as strides.
    """
    rank = len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        found = []
        for dim in range(rank):
            size = x.shape[2 + dim]
            count = -(-size // strides[dim])
            span = (kernel[dim] - 1) * dilations[dim] + 1
            whole = (count - 1) * strides[dim] + span - size
            whole = whole if whole > 0 else 0
            less, more = whole // 2, whole - whole // 2
            upper = auto_pad == "SAME_UPPER"
            found.append((less, more) if upper else (more, less))
        return found
    if pads is None or auto_pad == "VALID":
        return [(0, 0)] * rank
    return [(pads[dim], pads[rank + dim]) for dim in range(rank)]


def flat(pads: Pads) -> list[int]:
    """Pads as F.pad wants them: the last dim's first."""
    return [pad for before_after in reversed(pads) for pad in before_after]


def are_even(pads: Pads) -> bool:
    """True if each dim has as much before it as behind it."""
    return all(before == after for before, after in pads)


def with_ceil(
    x: torch.Tensor,
    kernel: Sizes,
    strides: Sizes,
    dilations: Sizes,
    pads: Pads,
) -> Pads:
    """Pads with which a last window that isn't whole is one.

    Windows that would begin behind the image and its pad before are none.
    """
    found = []
    for dim, (before, after) in enumerate(pads):
        size = x.shape[2 + dim]
        span = (kernel[dim] - 1) * dilations[dim] + 1
        count = -(-(size + before + after - span) // strides[dim]) + 1
        if (count - 1) * strides[dim] >= size + before:
            count = count - 1
        missing = (count - 1) * strides[dim] + span - size - before - after
        found.append((before, after + (missing if missing > 0 else 0)))
    return found


def windows_of(
    x: torch.Tensor, kernel: Sizes, strides: Sizes, dilations: Sizes
) -> torch.Tensor:
    """All windows: [batch, channels, windows…, kernel…], a view."""
    for dim, size in enumerate(kernel):
        span = (size - 1) * dilations[dim] + 1
        x = x.unfold(2 + dim, span, strides[dim])
        if dilations[dim] > 1:
            x = x[..., :: dilations[dim]]
    return x

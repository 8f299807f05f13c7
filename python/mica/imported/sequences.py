"""Sequences, which are lists, and optional values, of which None is empty."""

from __future__ import annotations

from typing import Any

import torch

from mica.imported.registry import operator

Tensor = torch.Tensor


def _place(at: Any) -> int:
    return int(at[0] if isinstance(at, tuple) else at)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Tensor]:
    """No items."""
    del dtype
    return []


@operator("SequenceConstruct")
def sequence_construct(*items: Tensor) -> list[Tensor]:
    """Items."""
    return list(items)


@operator("SequenceInsert", sizes=(2,))
def sequence_insert(
    items: list[Tensor], item: Tensor, at: Any = None
) -> list[Tensor]:
    """With a further item, by default behind all."""
    if at is None:
        return [*items, item]
    place = _place(at)
    place = place + len(items) if place < 0 else place
    return [*items[:place], item, *items[place:]]


@operator("SequenceErase", sizes=(1,))
def sequence_erase(items: list[Tensor], at: Any = None) -> list[Tensor]:
    """Without an item, by default the last one."""
    place = -1 if at is None else _place(at)
    place = place + len(items) if place < 0 else place
    return [*items[:place], *items[place + 1 :]]


@operator("SequenceAt", sizes=(1,))
def sequence_at(items: list[Tensor], at: Any) -> Tensor:
    """An item."""
    return items[_place(at)]


@operator("SequenceLength")
def sequence_length(items: list[Tensor]) -> Tensor:
    """The number of items."""
    return torch.tensor(len(items))


@operator("SplitToSequence", sizes=(1,))
def split_to_sequence(
    x: Tensor, sizes: Any = None, *, axis: int = 0, keepdims: int = 1
) -> list[Tensor]:
    """Parts along a dim."""
    if sizes is None:
        parts = torch.split(x, 1, axis)
        return [part if keepdims else part.squeeze(axis) for part in parts]
    if isinstance(sizes, tuple):
        return list(torch.split(x, list(sizes), axis))
    return list(torch.split(x, sizes, axis))


@operator("ConcatFromSequence")
def concat_from_sequence(
    items: list[Tensor], *, axis: int, new_axis: int = 0
) -> Tensor:
    """One tensor of all items."""
    return torch.stack(items, axis) if new_axis else torch.cat(items, axis)


@operator("Optional")
def make_optional(x: Any = None, *, type: Any = None) -> Any:
    """A value, or none."""
    del type
    return x


@operator("OptionalGetElement")
def optional_get_element(x: Any) -> Any:
    """The value."""
    if x is None:
        raise ValueError("OptionalGetElement: the value is empty")
    return x


@operator("OptionalHasElement")
def optional_has_element(x: Any = None) -> Tensor:
    """Whether there is a value."""
    return torch.tensor(x is not None)

"""Operators that choose elements by tensors of places."""

from __future__ import annotations

from typing import Any

import torch

from mica.imported.registry import operator

Tensor = torch.Tensor

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _from_the_start(places: Tensor, size: int) -> Tensor:
    """Places of which negative ones counted from the end."""
    places = places.to(torch.int64)
    return torch.where(places < 0, places + size, places)


@operator("Gather", numbers=(1,))
def gather(x: Tensor, places: Any, *, axis: int = 0) -> Tensor:
    """Rows of a dim; a place may count from the end."""
    if isinstance(places, int):
        return x.select(axis, places)
    axis = axis + x.dim() if axis < 0 else axis
    return x[(slice(None),) * axis + (places.to(torch.int64),)]


@operator("GatherElements")
def gather_elements(x: Tensor, places: Tensor, *, axis: int = 0) -> Tensor:
    """torch.gather."""
    return torch.gather(x, axis, _from_the_start(places, x.shape[axis]))


@operator("GatherND")
def gather_nd(x: Tensor, places: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Elements or parts, by tuples of places."""
    parts = list(places.to(torch.int64).unbind(-1))
    rank = places.dim() - 1
    for dim in range(batch_dims - 1, -1, -1):
        sizes = [1] * rank
        sizes[dim] = -1
        parts.insert(0, torch.arange(x.shape[dim]).reshape(sizes))
    return x[tuple(parts)]


def _scatter(
    x: Tensor, places: Tensor, updates: Tensor, axis: int, reduction: str
) -> Tensor:
    places = _from_the_start(places, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCTIONS[reduction])


@operator("ScatterElements")
def scatter_elements(
    x: Tensor,
    places: Tensor,
    updates: Tensor,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> Tensor:
    """torch.scatter."""
    return _scatter(x, places, updates, axis, reduction)


@operator("Scatter")
def scatter(
    x: Tensor, places: Tensor, updates: Tensor, *, axis: int = 0
) -> Tensor:
    """torch.scatter."""
    return _scatter(x, places, updates, axis, "none")


@operator("ScatterND")
def scatter_nd(
    x: Tensor, places: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """A tensor with some elements or parts replaced, or computed with."""
    count = places.shape[-1]
    sizes = x.shape[:count]
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step = step * size
    parts = places.to(torch.int64).unbind(-1)
    rows = torch.zeros(places.shape[:-1], dtype=torch.int64)
    for part, size, stride in zip(parts, sizes, strides, strict=True):
        rows = rows + _from_the_start(part, size) * stride
    rest = tuple(x.shape[count:])
    flat = x.reshape(-1, *rest) if rest else x.reshape(-1)
    rows = rows.reshape(-1)
    new = updates.reshape(-1, *rest) if rest else updates.reshape(-1)
    if reduction == "none":
        made = flat.index_put((rows,), new)
    elif reduction == "add":
        made = flat.index_put((rows,), new, accumulate=True)
    else:
        made = flat.index_reduce(0, rows, new, _REDUCTIONS[reduction])
    return made.reshape(x.shape)


@operator("OneHot", sizes=(1,))
def one_hot(
    places: Tensor, depth: Any, values: Tensor, *, axis: int = -1
) -> Tensor:
    """One value at a place, the other elsewhere."""
    number = depth[0] if isinstance(depth, tuple) else depth
    number = int(number)
    wide = places.to(torch.int64)
    axis = axis + places.dim() + 1 if axis < 0 else axis
    wide = _from_the_start(wide, number).unsqueeze(axis)
    sizes = [1] * wide.dim()
    sizes[axis] = number
    hot = wide == torch.arange(number).reshape(sizes)
    return torch.where(hot, values[1], values[0])


@operator("Compress")
def compress(
    x: Tensor, condition: Tensor, *, axis: int | None = None
) -> Tensor:
    """The rows for which a condition holds."""
    places = condition.nonzero().flatten()
    if axis is None:
        return x.reshape(-1)[places]
    return x.index_select(axis, places)


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    """The places of what isn't zero, a column each."""
    return x.nonzero().T


@operator("Unique")
def unique(
    x: Tensor, *, axis: int | None = None, sorted: int = 1, outputs: int
) -> Any:
    """What occurs, where it does first, which is where, and how often."""
    rows = x.reshape(-1) if axis is None else x.movedim(axis, 0)
    values, inverse, counts = torch.unique(
        rows, sorted=True, return_inverse=True, return_counts=True, dim=0
    )
    places = torch.arange(rows.shape[0])
    first = torch.full((values.shape[0],), rows.shape[0], dtype=torch.int64)
    first = first.scatter_reduce(0, inverse, places, "amin")
    if not sorted:
        order = torch.argsort(first)
        back = torch.argsort(order)
        values, first, counts = values[order], first[order], counts[order]
        inverse = back[inverse]
    if axis is not None:
        values = values.movedim(0, axis)
    made = (values, first, inverse, counts)
    return made[0] if outputs == 1 else made[:outputs]


@operator("TensorScatter")
def tensor_scatter(
    past: Tensor,
    update: Tensor,
    starts: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """A cache with new rows, each batch's from a place of its own."""
    axis = axis % past.dim()
    if starts is None:
        starts = torch.zeros(past.shape[0], dtype=torch.int64)
    steps = torch.arange(update.shape[axis])
    rows = starts.to(torch.int64)[:, None] + steps[None]
    if mode == "circular":
        rows = torch.remainder(rows, past.shape[axis])
    sizes = [1] * past.dim()
    sizes[0], sizes[axis] = rows.shape[0], rows.shape[1]
    return past.scatter(axis, rows.reshape(sizes).expand(update.shape), update)


@operator("TfIdfVectorizer", sizes=(0,))
def count_ngrams(
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...],
    weights: tuple[float, ...] | None = None,
) -> Tensor:
    """How often sequences of ints occur, with skips."""
    grams: dict[tuple[int, ...], int] = {}
    ends = (*ngram_counts[1:], len(pool_int64s))
    number = 0
    pairs = zip(ngram_counts, ends, strict=True)
    for length, (begin, end) in enumerate(pairs, 1):
        for at in range(begin, end, length):
            grams[pool_int64s[at : at + length]] = number
            number += 1
    rows = x if x and isinstance(x[0], tuple) else (x,)
    result = torch.zeros(len(rows), max(ngram_indexes) + 1)
    for place, row in enumerate(rows):
        for length in range(min_gram_length, max_gram_length + 1):
            skips = range(max_skip_count + 1) if length > 1 else (0,)
            for skip in skips:
                span = (length - 1) * (skip + 1)
                for at in range(len(row) - span):
                    found = tuple(row[at : at + span + 1 : skip + 1])
                    if found in grams:
                        result[place, ngram_indexes[grams[found]]] += 1
    scale = torch.zeros(result.shape[1])
    for gram, index in enumerate(ngram_indexes):
        scale[index] = weights[gram] if weights else 1.0
    if mode == "IDF":
        result = (result > 0) * scale
    elif mode == "TFIDF":
        result = result * scale
    return result if x and isinstance(x[0], tuple) else result[0]

"""Calls of ordinary operators and layers on rows of any length.

Samples of torch's own tests have sizes that suit its tests. What a program has
is `[4000, 80] + [80]`, or three coordinates of each of many points: few
elements in a row, and many rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from op_cases import DTYPES, Case

LENGTHS = (3, 10, 33, 80, 200, 500)
ELEMENTS = 160_000  # Of the largest operand.
LONGEST_SQUARE = 300  # Rows that are multiplied with each other are shorter.


def _masked(x: torch.Tensor) -> torch.Tensor:
    x[..., x.shape[-1] // 2 :] = -torch.inf
    return x


# What floats there are, by name, made of ordinary ones from -9 to 9.
VALUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ordinary": lambda x: x,
    "masked": _masked,  # As keys that attention leaves out.
    "spread": lambda x: x * 20,  # exp() of differences is 0, or denormal.
    "denormal": lambda x: x * (torch.finfo(x.dtype).tiny / 10),
}

# By name of a parameter, what `operands` gives for it: x, y [m, n] are rows,
# b [n] is one row, c [m, 1] a column, i [m] numbers rows, k [m] elements of a
# row, j [m, n] each row's elements.
CALLS: dict[str, Callable[..., Any]] = {
    # One operand, element by element.
    "neg": lambda x: -x,
    "exp": lambda x: x.exp(),
    "gelu": lambda x: F.gelu(x),
    "silu": lambda x: F.silu(x),
    "clamp": lambda x: x.clamp(min=0),
    "mask": lambda x: x.masked_fill(x > 0, 0),
    "to_f64": lambda x: x.double(),
    "to_f32": lambda x: x.float(),
    "to_i64": lambda x: x.long(),
    # Reductions of rows and of columns.
    "sum": lambda x: x.sum(-1),
    "sum_columns": lambda x: x.sum(0),
    "mean": lambda x: x.mean(-1),
    "mean_columns": lambda x: x.mean(0),
    "amax": lambda x: x.amax(-1),
    "amax_columns": lambda x: x.amax(0),
    "argmax": lambda x: x.argmax(-1),
    "argmin_columns": lambda x: x.argmin(0),
    "max": lambda x: x.max(-1),
    "min_columns": lambda x: x.min(0),
    "prod": lambda x: x.prod(-1),
    "var": lambda x: x.var(-1),
    "std_columns": lambda x: x.std(0),
    "norm": lambda x: x.norm(dim=-1),
    "all": lambda x: (x > 0).all(-1),
    "any_columns": lambda x: (x > 0).any(0),
    "count": lambda x: (x > 0).sum(-1),
    "range": lambda x: x.max() - x.min(),
    "cumsum": lambda x: x.cumsum(-1),
    "cumsum_columns": lambda x: x.cumsum(0),
    "cummax": lambda x: x.cummax(-1),
    # Normalisations.
    "softmax": lambda x: x.softmax(-1),
    "softmax_columns": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "by_sum": lambda x: x / x.sum(-1, keepdim=True),
    "centred": lambda x: x - x.mean(0),
    "standard": lambda x: (
        (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
    ),
    "normalize": lambda x: F.normalize(x, dim=-1),
    # Elements that go elsewhere.
    "transposed": lambda x: x.t().contiguous(),
    "flip": lambda x: x.flip(-1),
    "flip_rows": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, -1),
    "repeat": lambda x: x.repeat(1, 2),
    "tile_rows": lambda x: x.repeat(2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, -1),
    "tril": lambda x: x.tril(),
    "tail": lambda x: x[:, 1:].contiguous(),
    "every_second_row": lambda x: x[::2].clone(),
    "every_third": lambda x: x[:, ::3].clone(),
    "pad": lambda x: F.pad(x, (1, 1)),
    "halves": lambda x: torch.cat(x.chunk(2, -1)[::-1], -1),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "cat_rows": lambda x, y: torch.cat([x, y], 0),
    "stack": lambda x, y: torch.stack([x, y], -1),
    "stack_rows": lambda x, y: torch.stack([x, y], 1),
    # Two operands and more.
    "add": lambda x, y: x + y,
    "add_row": lambda x, b: x + b,
    "mul_column": lambda x, c: x * c,
    "add_first": lambda x, y: x[:, :1] + y,
    "outer": lambda b, c: b * c,
    "where": lambda x, y: torch.where(x > y, x, y),
    "where_row": lambda x, b: torch.where(x > b, x, b),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "maximum": lambda x, y: torch.maximum(x, y),
    "less": lambda x, y: x < y,
    "less_row": lambda x, b: x < b,
    "remainder": lambda x: x % 3,
    "pow": lambda x: x**2,
    "equal": lambda x, y: (x == y).sum(),
    "relu_bias": lambda x, b: (x * 2 + b).relu(),
    "dot": lambda x, y: (x * y).sum(-1),
    "distance": lambda x, y: (x - y).pow(2).sum(-1).sqrt(),
    "cosine": lambda x, y: F.cosine_similarity(x, y),
    "mse": lambda x, y: F.mse_loss(x, y),
    "l1": lambda x, y: F.l1_loss(x, y),
    "huber": lambda x, y: F.smooth_l1_loss(x, y),
    "bce": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "cross_entropy": lambda x, k: F.cross_entropy(x, k),
    # Indices.
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "pick": lambda x, i, k: x[i, k],
    "gather": lambda x, j: x.gather(1, j),
    "index_add": lambda x, y, i: x.index_add(0, i, y),
    "scatter_add": lambda x, y, j: x.scatter_add(1, j, y),
    "embedding": lambda x, i: F.embedding(i, x),
    "one_hot": lambda x, k: F.one_hot(k, x.shape[1]),
    # Products.
    "times_vector": lambda x, b: x @ b,
    "gram": lambda x: x.t() @ x,
}
LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "LayerNorm": nn.LayerNorm,
    "RMSNorm": nn.RMSNorm,
    "BatchNorm1d": nn.BatchNorm1d,
    "Linear": lambda n: nn.Linear(n, n),
    "Linear_to_one": lambda n: nn.Linear(n, 1),
    "Linear_ReLU": lambda n: nn.Sequential(nn.Linear(n, 64), nn.ReLU()),
}
SQUARES = {"gram", "Linear"}


def operands(
    dtype: str, length: int, grad: bool, values: str
) -> dict[str, torch.Tensor]:
    """Returns what calls may take, by name: ELEMENTS in rows of `length`."""
    is_float = DTYPES[dtype].is_floating_point
    rows = ELEMENTS // length
    shapes = {
        "x": (rows, length),
        "y": (rows, length),
        "b": (length,),
        "c": (rows, 1),
    }
    made = {
        name: torch.testing.make_tensor(
            shape, dtype=DTYPES[dtype], device="cpu", low=-9, high=9
        )
        for name, shape in shapes.items()
    }
    if is_float:
        made = {
            name: VALUES[values](x).requires_grad_(grad)
            for name, x in made.items()
        }
    made["i"] = torch.randint(0, rows, (rows,))
    made["k"] = torch.randint(0, length, (rows,))
    made["j"] = torch.randint(0, length, (rows, length))
    return made


def cases(
    lengths: list[int],
    dtype: str,
    grad: bool,
    only: str = "",
    values: str = "ordinary",
) -> Iterator[Case]:
    """Yields the calls whose name has `only` in it, by length of their rows."""
    for length in lengths:
        torch.manual_seed(0)
        made = operands(dtype, length, grad, values)
        size = f"{'' if values == 'ordinary' else values + ' '}rows of {length}"
        found: dict[str, Callable[..., Any]] = dict(CALLS)
        if DTYPES[dtype].is_floating_point:
            for name, layer in LAYERS.items():
                found[name] = layer(length).to(DTYPES[dtype]).train(grad)
        for name, call in found.items():
            if only not in name:
                continue
            if name in SQUARES and length > LONGEST_SQUARE:
                continue
            is_layer = isinstance(call, nn.Module)
            wanted = "x" if is_layer else inspect.signature(call).parameters
            yield Case(
                name,
                dtype,
                size,
                "dense",
                call,
                tuple(made[one] for one in wanted),
                {},
            )

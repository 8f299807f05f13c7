"""Calls of the native ops that no OpInfo sample reaches.

Some operators are only made by a compiler or by an in-place form, others only
by what torch decides to call on some machines. Each is called directly, as a
partial of the overload itself.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

aten = torch.ops.aten

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.int64,
    torch.bool,
)
SHAPES = ((), (3,), (0, 2), (4, 5), (2, 3, 4))


def _tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype == torch.int64:
        return torch.randint(-5, 6, shape)
    return torch.randn(shape, dtype=torch.float64).mul(3).to(dtype)


def _tensors() -> Iterator[torch.Tensor]:
    """One of each dtype and shape, and some that don't lie row by row."""
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        yield _tensor(dtype, shape)
    for dtype in DTYPES:
        yield _tensor(dtype, (5, 4)).t()
        yield _tensor(dtype, (4, 9))[:, 1::2]


def _unary(op: Any) -> Iterator[functools.partial[Any]]:
    for x in _tensors():
        yield functools.partial(op, x)


def _with_number(op: Any, *numbers: Any) -> Iterator[functools.partial[Any]]:
    for x, number in itertools.product(_tensors(), numbers):
        yield functools.partial(op, x, number)


def _number_first(op: Any) -> Iterator[functools.partial[Any]]:
    for x, number in itertools.product(_tensors(), (7, -2.5, True)):
        yield functools.partial(op, number, x)


def _divisions(op: Any) -> Iterator[functools.partial[Any]]:
    modes: tuple[str | None, ...] = (None, "floor", "trunc")
    for x, mode in itertools.product(_tensors(), modes):
        for number in (3, -2, 1.5):
            yield functools.partial(op, x, number, rounding_mode=mode)


def _choices(
    op: Any, first: str, second: str
) -> Iterator[functools.partial[Any]]:
    numbers = (2, -1.5, True)
    for dtype, number in itertools.product(DTYPES, numbers):
        condition = torch.rand(4, 5) > 0.5
        given = {"tensor": _tensor(dtype, (4, 5)), "number": number}
        yield functools.partial(op, condition, given[first], given[second])


def _copies() -> Iterator[functools.partial[Any]]:
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = _tensor(a, (4, 5)), _tensor(b, (5,))
        yield functools.partial(aten.copy.default, x, y)


def _fills() -> Iterator[functools.partial[Any]]:
    for x, dtype in itertools.product(_tensors(), DTYPES):
        yield functools.partial(aten.fill.Tensor, x, _tensor(dtype, ()))


def _batch_norms() -> Iterator[functools.partial[Any]]:
    for dtype, shape in itertools.product(
        DTYPES[:3], ((4, 3), (2, 3, 5), (2, 3, 4, 4))
    ):
        x = _tensor(dtype, shape)
        weight, bias, mean = (_tensor(dtype, (3,)) for _ in range(3))
        var = mean.square() + 0.5
        op = aten._native_batch_norm_legit_no_training.default
        yield functools.partial(op, x, weight, bias, mean, var, 0.1, 1e-3)
        yield functools.partial(op, x, None, None, mean, var, 0.1, 1e-3)


def _aliases() -> Iterator[functools.partial[Any]]:
    for x in _tensors():
        yield functools.partial(
            aten._reshape_alias.default, x, list(x.shape), list(x.stride())
        )


def _indices(op: Any) -> Iterator[functools.partial[Any]]:
    for dtype in DTYPES:
        x = _tensor(dtype, (4, 5))
        rows, columns = torch.tensor([3, -1, 0]), torch.tensor([0, 2, -5])
        yield functools.partial(op, x, [rows])
        yield functools.partial(op, x, [None, columns])
        yield functools.partial(op, x, [rows[:, None], columns])


def _masked_puts() -> Iterator[functools.partial[Any]]:
    """Values that fit a mask, wherever it stands; and one beside indices."""
    op = aten.index_put.default
    for dtype, accumulate in itertools.product(DTYPES, (False, True)):
        x = _tensor(dtype, (3, 4, 5))
        for lead, rank in ((0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)):
            mask = torch.rand(x.shape[lead : lead + rank]) > 0.4
            chosen = int(mask.sum())
            before, after = x.shape[:lead], x.shape[lead + rank :]
            for shape in ((*before, chosen, *after), after, (1, *after)):
                indices = [None] * lead + [mask]
                values = _tensor(dtype, shape)
                yield functools.partial(op, x, indices, values, accumulate)
        mask = torch.tensor([True, False, True])
        indices = [mask, torch.tensor([1, 2])]
        yield functools.partial(op, x, indices, _tensor(dtype, (2, 5)))


def _dropouts() -> Iterator[functools.partial[Any]]:
    for dtype, p in itertools.product(DTYPES[:3], (0.0, 0.5)):
        x = _tensor(dtype, (4, 5))
        for train in (False, True, None):
            yield functools.partial(aten.native_dropout.default, x, p, train)


def _norms() -> Iterator[functools.partial[Any]]:
    for dtype, p in itertools.product(DTYPES[:3], (0, 1, 2, 3.5)):
        yield functools.partial(aten.norm.Scalar, _tensor(dtype, (4, 5)), p)


def _attention() -> Iterator[functools.partial[Any]]:
    width, heads = 8, 2
    for dtype, masked in itertools.product(DTYPES[:2], (False, True)):
        x = torch.randn(3, 5, width, dtype=dtype)
        qkv = torch.randn(3 * width, width, dtype=dtype)
        out = torch.randn(width, width, dtype=dtype)
        mask = torch.rand(3, 5) > 0.7 if masked else None
        if mask is not None:
            mask[:, 0] = False
        yield functools.partial(
            aten._native_multi_head_attention.default,
            x, x, x, width, heads, qkv,
            torch.randn(3 * width, dtype=dtype), out,
            torch.randn(width, dtype=dtype), mask, False, True,
            1 if masked else None,
        )  # fmt: skip


def _recurrent() -> Iterator[functools.partial[Any]]:
    for backward, train in itertools.product((False, True), (False,)):
        inputs, hidden = 6, 8
        yield functools.partial(
            aten.mkldnn_rnn_layer.default, torch.randn(5, 3, inputs),
            torch.randn(4 * hidden, inputs), torch.randn(4 * hidden, hidden),
            torch.randn(4 * hidden), torch.randn(4 * hidden),
            torch.randn(3, hidden), torch.randn(3, hidden), backward,
            [], 2, hidden, 1, True, False, False, train,
        )  # fmt: skip


CALLS: dict[str, Callable[[], Iterator[functools.partial[Any]]]] = {
    "aten._native_batch_norm_legit_no_training": _batch_norms,
    "aten._native_multi_head_attention": _attention,
    "aten._reshape_alias": _aliases,
    "aten._unsafe_index.Tensor": functools.partial(
        _indices, aten._unsafe_index.Tensor
    ),
    "aten.copy": _copies,
    "aten.fill.Tensor": _fills,
    "aten.index_put": _masked_puts,
    "aten.isfinite": functools.partial(_unary, aten.isfinite.default),
    "aten.lift_fresh_copy": functools.partial(
        _unary, aten.lift_fresh_copy.default
    ),
    "aten.mkldnn_rnn_layer": _recurrent,
    "aten.native_dropout": _dropouts,
    "aten.norm.Scalar": _norms,
    "aten.remainder.Scalar_Tensor": functools.partial(
        _number_first, aten.remainder.Scalar_Tensor
    ),
    "aten.square": functools.partial(_unary, aten.square.default),
    "aten.zero": functools.partial(_unary, aten.zero.default),
    "aten.div.Scalar_mode": functools.partial(_divisions, aten.div.Scalar_mode),
    "aten.where.Scalar": functools.partial(
        _choices, aten.where.Scalar, "number", "number"
    ),
    "aten.where.ScalarOther": functools.partial(
        _choices, aten.where.ScalarOther, "tensor", "number"
    ),
    "aten.where.ScalarSelf": functools.partial(
        _choices, aten.where.ScalarSelf, "number", "tensor"
    ),
} | {
    f"aten.{name}".removesuffix(".default"): functools.partial(
        _with_number,
        functools.reduce(getattr, name.split("."), aten),
        *((1, 3) if "shift" in name else (2, -3, 1.5, True)),
    )
    for name in (
        "bitwise_and.Scalar",
        "bitwise_or.Scalar",
        "bitwise_xor.Scalar",
        "bitwise_left_shift.Tensor_Scalar",
        "bitwise_right_shift.Tensor_Scalar",
        "clamp_max.default",
        "floor_divide.Scalar",
        "fmod.Scalar",
    )
}

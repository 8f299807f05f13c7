"""Arguments written in place, however they lie, are as eager leaves them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import mica

DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool]

# What a tensor of 24 by 35 is cut from, and how.
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x.flatten()[:840].view(24, 35),
    "turned": lambda x: x.flatten()[:840].view(35, 24).t(),
    "columns apart": lambda x: x[:24, :105:3],
    "rows apart": lambda x: x[:72:3, 5:40],
    "turned and apart": lambda x: x[:105:3, :48:2].t(),
}

WRITES: dict[str, Callable[[Tensor], object]] = {
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(1),
    "tril_": lambda x: x.tril_(),
    "triu_": lambda x: x.triu_(2),
    "logical_not_": lambda x: x.logical_not_(),
}
NUMBERS: dict[str, Callable[[Tensor], object]] = {
    "neg_": lambda x: x.neg_(),
    "abs_": lambda x: x.abs_(),
    "relu_": lambda x: x.relu_(),
    "clamp_": lambda x: x.clamp_(-2, 3),
    "add_": lambda x: x.add_(3),
    "mul_": lambda x: x.mul_(x),
    "add_row": lambda x: x.add_(torch.ones(35, dtype=x.dtype)),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 4),
}


def _memory(dtype: torch.dtype) -> Tensor:
    x = torch.randint(-9, 9, (120, 120), generator=torch.manual_seed(0))
    return x.to(dtype)


def _check(
    write: Callable[[Tensor], object], layout: str, dtype: torch.dtype
) -> None:
    compiled = mica.compile(write)
    for _ in range(3):
        want, got = _memory(dtype), _memory(dtype)
        write(LAYOUTS[layout](want))
        x = LAYOUTS[layout](got)
        assert compiled(x) is x
        # What lies between the elements is left as it is.
        assert torch.equal(got, want)
    assert mica.explain(compiled).graphs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITES)
def test_arguments_are_filled(
    name: str, layout: str, dtype: torch.dtype
) -> None:
    _check(WRITES[name], layout, dtype)


@pytest.mark.parametrize("dtype", DTYPES[:4])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NUMBERS)
def test_arguments_are_computed_in_place(
    name: str, layout: str, dtype: torch.dtype
) -> None:
    _check(NUMBERS[name], layout, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_second_copy_is_made(layout: str) -> None:
    compiled = mica.compile(lambda x: x.relu_())
    for _ in range(2):
        compiled(LAYOUTS[layout](_memory(torch.float32)))
    (graph,) = mica.explain(compiled).graphs
    assert graph.arena_bytes == 0


def test_rows_meet_a_row_of_another_type() -> None:
    """As long a row as is joined, and longer ones."""
    for n in (13, 53, 64, 65, 200):
        mask = torch.arange(n) % 3 == 0
        x = torch.randn(37, 5, n).transpose(0, 1)
        compiled = mica.compile(lambda x, mask: (x * mask, x + mask))
        for _ in range(2):
            got, want = compiled(x, mask), (x * mask, x + mask)
            assert all(map(torch.equal, got, want))

"""Elements that indices place are where eager puts them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import mica

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
]
Scatter = Callable[[Tensor, int, Tensor, Tensor], Tensor]
SCATTERS: dict[str, Scatter] = {
    "value": lambda x, dim, i, s: x.scatter(dim, i, 3),
    "src": lambda x, dim, i, s: x.scatter(dim, i, s),
    "add": lambda x, dim, i, s: x.scatter_add(dim, i, s),
    "add to zeros": lambda x, dim, i, s: torch.zeros_like(x).scatter_add(
        dim, i, s
    ),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SCATTERS)
def test_scattered_elements_are_eagers(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    one = SCATTERS[name]
    for shape in [(5, 7, 6), (1, 40, 3), (30,)]:
        for dim in range(len(shape)):
            x = (torch.randn(shape) * 5).abs().to(dtype)
            s = (torch.randn(shape) * 5).abs().to(dtype)
            i = torch.randint(0, shape[dim], shape)
            if name == "src":  # Of several at one place nobody knows the last.
                i = torch.rand(shape).argsort(dim)
            want = one(x, dim, i, s)
            compiled = mica.compile(
                lambda x, i, s: one(x, dim, i, s), fullgraph=True
            )
            for _ in range(2):
                got = compiled(x, i, s)
            assert torch.equal(got, want)


@pytest.mark.parametrize("index", [-1, 6, 2**62])
def test_an_index_outside_is_an_error(index: int) -> None:
    compiled = mica.compile(lambda x, i: x.scatter_add(1, i, x))
    x, i = torch.ones(4, 6), torch.zeros(4, 6, dtype=torch.int64)
    for _ in range(2):
        compiled(x, i)
    i[2, 3] = index
    with pytest.raises(RuntimeError, match="out of"):
        compiled(x, i)
    i[2, 3] = 0
    assert torch.equal(compiled(x, i), x.scatter_add(1, i, x))

"""Functions of one number that have loops of their own give eager's bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import mica

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "frac": torch.frac,
    "sign": torch.sign,
    "sgn": torch.sgn,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "hardshrink": lambda x: F.hardshrink(x, 0.7),
    "threshold": lambda x: F.threshold(x, -0.1, 4.7),
}
SPECIAL = [0.0, -0.0, torch.nan, torch.inf, -torch.inf, 0.5, -0.5, 1.5, 2.5]
SPECIAL += [-3.0, 3.0, 0.7, -0.7, -0.1, 1e-42, -1e-42, 1e9, -8388609.5, 1e38]


def _numbers(dtype: torch.dtype, count: int, seed: int) -> Tensor:
    torch.manual_seed(seed)
    x = torch.randn(count, dtype=dtype) * 3
    at = torch.randperm(count)[: len(SPECIAL)]
    x[at] = torch.tensor(SPECIAL, dtype=dtype)[: len(at)]
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("count", [1, 7, 16, 333, 40000])
def test_eagers_bits(name: str, dtype: torch.dtype, count: int) -> None:
    function = FUNCTIONS[name]
    compiled = mica.compile(function, fullgraph=True)
    bits = torch.int32 if dtype == torch.float32 else torch.int64
    for seed in range(3):
        x = _numbers(dtype, count, seed)
        got, want = compiled(x), function(x)
        # Of a nan nothing but that is told.
        assert torch.equal(got.isnan(), want.isnan())
        got, want = got.nan_to_num(nan=7.0), want.nan_to_num(nan=7.0)
        assert torch.equal(got.view(bits), want.view(bits))
    (graph,) = mica.explain(compiled).graphs
    assert set(graph.kernels) == {"cpu"}, graph.plan_text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides_and_numbers_that_vary(name: str) -> None:
    function = FUNCTIONS[name]

    def program(x: Tensor, slope: float) -> tuple[Tensor, Tensor]:
        return function(x[:, ::2].t()), F.leaky_relu(x, slope)

    compiled = mica.compile(program, fullgraph=True)
    for seed in range(3):
        x = _numbers(torch.float32, 37 * 84, seed).reshape(37, 84)
        torch.testing.assert_close(
            compiled(x, 0.25 * seed),
            program(x, 0.25 * seed),
            rtol=0,
            atol=0,
            equal_nan=True,
        )

"""Results that are too large for the caches are eager's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import mica

# Of x and y [n], of some 10 MB each, and one row of them.
PROGRAMS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "lone": lambda x, y: x + y,
    "alone with a number": lambda x, y: x * 3,
    "compared": lambda x, y: x < y,
    "fused": lambda x, y: (x + y) * x - 1,
    "two results": lambda x, y: ((x + y) * x, (x - y) * y),
    "of several sizes": lambda x, y: ((x + y) * x, (x - y) * 2 > y),
    "rows": lambda x, y: (x[:-1].view(-1, 1000) + y[:1000]) * 2,
    "short rows": lambda x, y: (x[:-1].view(-1, 20) + y[:20]) * 2,
    "in place": lambda x, y: (x * 2 + 1).add_(y).mul_(y),
    "written to an argument": lambda x, y: x.mul_(0.5).add_(y),
    "not aligned": lambda x, y: (x[1:] + y[1:]) * y[:-1],
    "gaps": lambda x, y: x[::2] + y[::2],
    "gaps, compared": lambda x, y: x[:-1:2] < y[1::2],
    "gaps, fused": lambda x, y: (x[:-1:2] * 2 - y[1::2]) * y[:-1:2],
    "softmax": lambda x, y: x[:-1].view(-1, 200).softmax(-1),
    "of columns": lambda x, y: (
        x[:-1].view(1000, -1).sub(x[:-1].view(1000, -1).mean(0))
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_large_results(name: str, dtype: torch.dtype) -> None:
    program = PROGRAMS[name]
    compiled = mica.compile(program, fullgraph=True)
    count = 10_000_000 // dtype.itemsize // 1000 * 1000 + 1
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = torch.randn(2, count, dtype=dtype)
        mine = (x.clone(), y.clone())
        want, got = program(x, y), compiled(*mine)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(mine, (x, y))
    (graph,) = mica.explain(compiled).graphs
    assert graph.hits == 2
    assert set(graph.kernels) == {"cpu"}, graph.plan_text

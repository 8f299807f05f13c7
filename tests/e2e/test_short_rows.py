"""Many rows of few elements, broadcast in all ways, give eager's results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import mica

DTYPES = [torch.float32, torch.float64, torch.float16]

# Of x [m, k, n], a row r [n], columns c [m, 1, 1] and d [k, 1], one element e.
PROGRAMS: dict[str, Callable[..., object]] = {
    "rows": lambda x, r, c, d, e: (x * r + r).relu() - x,
    "columns": lambda x, r, c, d, e: (x * c - d).abs() + d,
    "all": lambda x, r, c, d, e: ((x + r) * c - d).clamp(-2, 2) * e + x,
    "no full operand": lambda x, r, c, d, e: (r * c + d).relu() - r * e,
    "two results": lambda x, r, c, d, e: ((x + r) * 2 - c, (x > d) & (r < c)),
    "several sizes": lambda x, r, c, d, e: (x * r + d).double() * c - e,
    "sum": lambda x, r, c, d, e: ((x - r) * c + d).square().mean(),
    "sum of rows": lambda x, r, c, d, e: ((x - r) * c + d).square().mean(-1),
    "sum of all but rows": lambda x, r, c, d, e: ((x - r) * c).sum((0, 1)),
    "sum of all but columns": lambda x, r, c, d, e: ((x - r) * c).mean((0, 2)),
    "normalised": lambda x, r, c, d, e: x * r - (x * r + d).mean((1, 2), True),
}


def _spread(x: Tensor) -> Tensor:
    return torch.stack((x, x), -1)[..., 0]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("n", [1, 3, 8, 40, 81])
def test_short_rows(
    name: str, dtype: torch.dtype, has_gaps: bool, n: int
) -> None:
    program = PROGRAMS[name]
    for m, k in [(300, 2), (31, 57)]:
        dims = [(m, k, n), (n,), (m, 1, 1), (k, 1), ()]
        compiled = mica.compile(program, fullgraph=True)
        for seed in range(3):
            torch.manual_seed(seed)
            given = [(torch.randn(d) * 4).round().to(dtype) / 4 for d in dims]
            if has_gaps:
                given = [_spread(x) if x.dim() > 0 else x for x in given]
            # Sums of 16 bits are of another order than eager's.
            is_low = dtype.itemsize == 2 and "two" not in name
            bounds = {"rtol": 2e-2, "atol": 2e-2} if is_low else {}
            torch.testing.assert_close(
                compiled(*given), program(*given), **bounds
            )
        (graph,) = mica.explain(compiled).graphs
        assert graph.hits == 2
        assert "reference" not in graph.kernels


# Of x [m, k, 3, 2] in any order, c [k, 1, 1] and r [2], along one dimension.
TINY: dict[str, Callable[..., object]] = {
    "softmax": lambda x, c, r, dim: x.log_softmax(dim),
    "centred": lambda x, c, r, dim: x * c - (x * c).mean(dim, True) + r,
    "sum alone": lambda x, c, r, dim: ((x - c) * r).sum(dim),
    "two results": lambda x, c, r, dim: ((x - c) * 2, ((x - c) * r).amax(dim)),
    "two reductions": lambda x, c, r, dim: (
        (x * r - x.amax(dim, True)).sum(dim, True) - c
    ),
    "of two": lambda x, c, r, dim: ((x - c) * r).square().sum((0, dim)),
    "broadcast": lambda x, c, r, dim: (c * r).expand_as(x) + x.mean(dim, True),
}


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", ["dense", "turned", "gaps", "channels last"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_reductions_of_few_elements(
    name: str, dtype: torch.dtype, order: str, dim: int
) -> None:
    program = TINY[name]
    compiled = mica.compile(program, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x, c, r = (
            (torch.randn(dims) * 4).round().to(dtype) / 4
            for dims in [(40, 7, 3, 2), (7, 1, 1), (2,)]
        )
        if order == "turned":
            x = x.mT.contiguous().mT
        elif order == "channels last":
            x = x.contiguous(memory_format=torch.channels_last)
        elif order == "gaps":
            x, c, r = _spread(x), _spread(c), _spread(r)
        bounds = {"rtol": 2e-2, "atol": 2e-2} if dtype.itemsize == 2 else {}
        got, want = compiled(x, c, r, dim), program(x, c, r, dim)
        torch.testing.assert_close(got, want, check_stride=True, **bounds)
    (graph,) = mica.explain(compiled).graphs
    assert graph.hits == 2
    assert "reference" not in graph.kernels


@pytest.mark.parametrize("n", [2, 3, 7])
def test_short_rows_of_a_step(n: int) -> None:
    def step(*given: Tensor) -> object:
        x, r, c, d, e = given
        y = (((x * r + d).sigmoid() - c) * e).tanh()
        return y, torch.autograd.grad(y.square().sum(), given)

    compiled = mica.compile(step, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        given = [
            torch.randn(d, dtype=torch.float64).requires_grad_()
            for d in [(50, 40, n), (n,), (50, 1, 1), (40, 1), ()]
        ]
        torch.testing.assert_close(compiled(*given), step(*given))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lanes", [1, 2, 20, 255, 256, 300])
def test_running_sums_of_few_columns(dtype: torch.dtype, lanes: int) -> None:
    compiled = mica.compile(
        lambda x: (x.cumsum(1), x.cumprod(1)), fullgraph=True
    )
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randint(-1, 2, (3, 41, lanes)).to(dtype)
        torch.testing.assert_close(
            compiled(x), (x.cumsum(1), x.cumprod(1)), rtol=0, atol=0
        )


# Of x [5, 7, 50].
POOLS: dict[str, Callable[[Tensor], Tensor]] = {
    "as they lie": lambda x: F.max_pool1d(x, 2),
    "in steps of one": lambda x: F.max_pool1d(x, 5, 1),
    "part of each row": lambda x: F.max_pool1d(x[:, :, 3:44], 3, 2),
    "part of the rows": lambda x: F.max_pool1d(x[1:, 2:5], 3, 3),
    "turned": lambda x: F.max_pool1d(x.transpose(0, 1), 3, 2, 1),
    "dilated": lambda x: F.max_pool1d(x[::2], 3, 1, 1, 2, ceil_mode=True),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_windows_along_rows(name: str, dtype: torch.dtype) -> None:
    compiled = mica.compile(POOLS[name], fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(5, 7, 50).to(dtype)
        x[0, 0, :9] = float("-inf")
        x[1, 2, 7] = float("nan")
        want = POOLS[name](x)
        assert torch.equal(compiled(x).nan_to_num(9), want.nan_to_num(9))
    (graph,) = mica.explain(compiled).graphs
    assert set(graph.kernels) == {"cpu"}, graph.plan_text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_lone_operators_of_operands_that_lie_otherwise(
    dtype: torch.dtype,
) -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x.mT + y, x.mT - y, x.mT * y[0], x[:, :1].mT / y

    for pick in range(4):
        compiled = mica.compile(lambda x, y: program(x, y)[pick])
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(3, 9, 40).to(dtype)
            y = torch.randn(3, 40, 9).to(dtype)
            got, want = compiled(x, y), program(x, y)[pick]
            torch.testing.assert_close(got, want, check_stride=True)

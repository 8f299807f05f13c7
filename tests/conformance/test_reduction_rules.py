"""Reductions become part of regions, and give what eager gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import mica

# What rounding and another order of a sum may do, of the largest number.
NEAR = {
    torch.float64: 1e-12,
    torch.float32: 2e-6,
    torch.bfloat16: 1.6e-2,
    torch.float16: 2e-3,
}
# One reduction of x over dims.
REDUCTIONS: dict[str, Callable[[Tensor, Any, bool], Tensor]] = {
    "sum": lambda x, d, k: x.sum(d, keepdim=k) / 32,
    "mean": lambda x, d, k: x.mean(d, keepdim=k),
    "var": lambda x, d, k: x.var(d, keepdim=k),
    "population var": lambda x, d, k: x.var(d, correction=0, keepdim=k),
    "std": lambda x, d, k: x.std(d, keepdim=k),
    "norm": lambda x, d, k: torch.linalg.vector_norm(x, 2, d, k),
    "absolute norm": lambda x, d, k: torch.linalg.vector_norm(x, 1, d, k) / 9,
    "largest norm": lambda x, d, k: torch.linalg.vector_norm(
        x, float("inf"), d, k
    ),
    "logsumexp": lambda x, d, k: x.logsumexp(d, k),
    "root of squares": lambda x, d, k: x.square().mean(d, keepdim=k).sqrt(),
}
DIMS: list[Any] = [-1, 0, 1, (0, 2), (1, 2), (0, 1, 2)]
# Whole programs of x [6, 5, 40], a tensor like it, and a row.
PROGRAMS: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "softmax": lambda x, y, r: (x * 0.5 + r).softmax(-1) * y,
    "softmax of columns": lambda x, y, r: (x * 0.5 + r).softmax(1) * y,
    "log_softmax": lambda x, y, r: (x - y).log_softmax(-1) * 0.5,
    "any": lambda x, y, r: ((x > 1.5).any(-1), (x > -5).all(-1)),
    "mse": lambda x, y, r: functional.mse_loss(x * r, y),
    "squares": lambda x, y, r: (x - y).square().mean(),
    "smooth": lambda x, y, r: functional.smooth_l1_loss(x, y, beta=0.7),
    "sum of smooth": lambda x, y, r: functional.smooth_l1_loss(
        x, y, reduction="sum"
    ),
    "smooth elements": lambda x, y, r: functional.smooth_l1_loss(
        x, y * r, reduction="none"
    ),
    "huber": lambda x, y, r: functional.huber_loss(x, y, delta=0.6),
    "cross entropy": lambda x, y, r: (
        functional.binary_cross_entropy_with_logits(x, y.sigmoid())
    ),
    "cross entropy elements": lambda x, y, r: (
        functional.binary_cross_entropy_with_logits(x, y, reduction="none")
    ),
    "unsqueezed": lambda x, y, r: x / x.abs().sum(1).unsqueeze(1),
    "pairs": lambda x, y, r: (x[:, :1] - y[:1]).square().sum(-1) / 40,
    "pairs of columns": lambda x, y, r: (x[:, :1] * y[:1]).mean(0),
    "turned pairs": lambda x, y, r: (
        (x[:, 0, :, None] - y[0].t()[None]).abs().mean(1)
    ),
    "outer": lambda x, y, r: (r[:, None] * r[None, :7]).logsumexp(0),
    "expanded": lambda x, y, r: functional.normalize(x, dim=1),
    "cosine": lambda x, y, r: (
        (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1))
    ),
    "reduced twice": lambda x, y, r: (x * r).sum(-1).mean(),
    "in turns": lambda x, y, r: (x - x.mean(-1, True)).mean(0) * r,
    "two of one": lambda x, y, r: (x.sum(-1, True) + x.mean(-1, True)) * y,
    "views": lambda x, y, r: x.mean(-1).view(6, 5, 1) * y,
    "transposed": lambda x, y, r: (x.transpose(0, 2) * 2).sum(0).t() - 1,
    "of a slice": lambda x, y, r: (x[:, 1:, ::2] * 2).mean((0, 2)),
    "of one element": lambda x, y, r: (x[:, :1] * 2).sum(1).tanh() * y[:, 0],
    "of what is expanded": lambda x, y, r: (
        x.mean(-1, True).expand(6, 5, 40) * 2 + y
    ),
    "expanded alone": lambda x, y, r: (
        (z := x.abs().mean(-1, True).expand(6, 5, 40)).sqrt() + 1,
        z,
    ),
    "truths": lambda x, y, r: (
        torch.signbit(x) | torch.isposinf(y / r.relu()) | torch.isneginf(y)
    ).sum(-1),
    "counted": lambda x, y, r: (x.relu().count_nonzero(-1), (x * r).nansum(0)),
    "softmax of other axes": lambda x, y, r: (
        x.softmax(1),
        x.log_softmax(0),
        x.logsumexp(1),
    ),
    "of integers": lambda x, y, r: ((x > 0).sum(-1), (x * 3).int().sum(0) + 1),
    "loss and what it reads": lambda x, y, r: (
        (z := (x * r).tanh()),
        z.square().mean(),
        z.mean(-1),
    ),
}


def close(got: Any, want: Any, dtype: torch.dtype) -> None:
    if isinstance(want, (tuple, list)):
        for g, w in zip(got, want, strict=True):
            close(g, w, dtype)
        return
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.stride() == want.stride()
    most = want.double().abs().max().item()
    assert torch.allclose(
        got.double(), want.double(), rtol=0, atol=NEAR[dtype] * max(most, 1)
    )


def check(program: Callable[..., Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    operands = [
        torch.randn(6, 5, 40).to(dtype),
        torch.randn(6, 5, 40).to(dtype),
        torch.randn(40).to(dtype),
    ]
    with torch.no_grad():
        want = program(*operands)
        compiled = mica.compile(program, fullgraph=True)
        for _ in range(3):
            close(compiled(*operands), want, dtype)
    (graph,) = mica.explain(compiled).graphs
    regions = ("mica.reduce", "mica.elementwise")
    assert any(region in graph.plan_text for region in regions)


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction_between_elementwise_ops(
    name: str, dtype: torch.dtype
) -> None:
    reduce = REDUCTIONS[name]
    for dims in DIMS:
        for keepdim in (True, False):

            def program(
                x: Tensor,
                y: Tensor,
                r: Tensor,
                dims: Any = dims,
                keepdim: bool = keepdim,
            ) -> Any:
                reduced = reduce(x * 1.5 - y, dims, keepdim)
                scaled = reduced * 0.5 + 1
                return scaled, (x * scaled if keepdim else scaled.abs())

            check(program, dtype)


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, dtype: torch.dtype) -> None:
    check(PROGRAMS[name], dtype)

"""What no fast kernel takes runs ATen's kernel in its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import mica

X = torch.randn(6, 8, 10)

Function = Callable[[Tensor], object]

# Ops, types and layouts that Mica has an op for.
PROGRAMS: dict[str, Function] = {
    "hardshrink": F.hardshrink,
    "leaky_relu": F.leaky_relu,
    "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "mse_loss none": lambda x: F.mse_loss(x, x * 2, reduction="none"),
    "vector_norm": torch.linalg.vector_norm,
    "group_norm": lambda x: F.group_norm(x, 4),
    "roll": lambda x: x.roll(3, 1),
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(3, 1),
    "std": lambda x: x.std(1),
    "erfinv": lambda x: x.tanh().erfinv(),
    "arange": lambda x: x + torch.arange(10, dtype=x.dtype),
    "a number for a tensor": lambda x: torch.where(x > 0, x, 2),
    "strided": lambda x: F.hardshrink(x.transpose(0, 2)[::2]),
    "linear": lambda x: F.linear(x, x[0]),
    "attention": lambda x: F.scaled_dot_product_attention(*(x[None],) * 3),
    "median": lambda x: x.median(1),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.max(2),
    "nothing": lambda x: F.hardshrink(x[:0]),
}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def _agree(got: object, want: object) -> None:
    rtol = 2e-2 if torch.finfo(_dtype(want)).bits == 16 else 1e-5
    torch.testing.assert_close(got, want, rtol=rtol, atol=rtol)


def _dtype(value: object) -> torch.dtype:
    first = value[0] if isinstance(value, tuple) else value
    assert isinstance(first, Tensor)
    return first.dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_step_runs_the_reference(name: str, dtype: torch.dtype) -> None:
    program = PROGRAMS[name]
    compiled = mica.compile(program, fullgraph=True)
    with torch.no_grad():
        for scale in (1.0, 2.0, 0.5):
            x = (X * scale).to(dtype)
            _agree(compiled(x), program(x))
    explained = mica.explain(compiled)
    assert explained.hits == 2
    (graph,) = explained.graphs
    assert sum(graph.kernels.values()) > 0
    assert "reference" not in graph.kernels, graph.plan_text


def test_explain_counts_steps_by_who_runs_them() -> None:
    compiled = mica.compile(lambda x: F.hardshrink(x.exp()))
    for _ in range(2):
        compiled(X)
    explained = mica.explain(compiled)
    assert explained.graphs[0].kernels == {"aten": 1, "cpu": 1}
    assert "kernels: aten 1, cpu 1" in explained.details("ops")


def test_results_that_aten_needs_for_something_else_are_copied() -> None:
    # Its mse_loss.out resizes the result to what it computes on the way.
    compiled = mica.compile(lambda x: F.mse_loss(x, x * 2), fullgraph=True)
    for scale in range(1, 5):
        x = X * scale
        torch.testing.assert_close(compiled(x), F.mse_loss(x, x * 2))
    assert mica.explain(compiled).hits == 3

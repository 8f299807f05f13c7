"""Products in bfloat16: oneDNN's where the processor has such instructions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import mica

HAS_BF16 = "avx512_bf16" in Path("/proc/cpuinfo").read_text()

PROGRAMS = {
    "mm": lambda x, w: x @ w,
    "transposed": lambda x, w: x.t().contiguous().t() @ w,
    "gaps": lambda x, w: x[:, ::2] @ w[::2],
    "addmm": lambda x, w: torch.addmm(w[0], x, w),
    "a sum": lambda x, w: torch.addmm(x @ w, x, w),
    "linear": lambda x, w: torch.nn.functional.linear(x, w.t(), w[0]),
    "bmm": lambda x, w: torch.bmm(x.expand(3, -1, -1), w.expand(3, -1, -1)),
    "one row": lambda x, w: x[:1] @ w,
    "nothing": lambda x, w: x[:0] @ w,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_are_close_to_exact_ones(name):
    program = PROGRAMS[name]
    x, w = torch.randn(24, 32), torch.randn(32, 40)
    x, w = x.bfloat16(), w.bfloat16()
    compiled = mica.compile(program, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            got = compiled(x, w)
        want = program(x.double(), w.double())
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), want, rtol=2e-2, atol=0.1)
    (graph,) = mica.explain(compiled).graphs
    assert "reference" not in graph.kernels


@pytest.mark.parametrize("frozen", [False, True])
def test_layers_run_on_onednn(frozen):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 32))
    half = model.eval().bfloat16()
    x = torch.randn(8, 64, dtype=torch.bfloat16)
    compiled = mica.compile(half, frozen=frozen)
    with torch.no_grad():
        for _ in range(3):
            got = compiled(x)
        want = half(x)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    if HAS_BF16:
        (graph,) = mica.explain(compiled).graphs
        assert graph.kernels["onednn"] == 2
    if frozen:
        with torch.no_grad():
            half[0].weight.mul_(2)
            torch.testing.assert_close(
                compiled(x), half(x), rtol=2e-2, atol=2e-2
            )

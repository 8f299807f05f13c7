"""Norms at the ends of a dtype's range are eager's."""

from __future__ import annotations

import pytest
import torch

import mica


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [-0.6, -0.5, 0.0, 0.5, 0.6])
def test_small_and_large_elements(power, dtype, p):
    # Squares of the smallest are lost, those of the largest are infinite.
    scale = torch.finfo(dtype).max ** power

    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, p, dim=-1)

    torch.manual_seed(0)
    compiled = mica.compile(norm, exact=False)
    for _ in range(3):
        x = (torch.randn(4, 640, dtype=torch.float64) * scale).to(dtype)
        torch.testing.assert_close(compiled(x), norm(x), rtol=1e-5, atol=0)
    assert mica.explain(compiled).hits

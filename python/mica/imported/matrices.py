"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator
from mica.imported.wide import UNSIGNED

Tensor = torch.Tensor


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """torch.matmul."""
    if a.dtype in UNSIGNED:
        return torch.matmul(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)
    return torch.matmul(a, b)


@operator("Linear", domain="mica")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A product with a matrix of [in, out], and a bias."""
    return F.linear(x, weight.T, bias)


@operator("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Alpha a b + beta c."""
    a = a.T if transA else a
    simple = alpha == 1.0 and beta == 1.0 and a.dtype.is_floating_point
    if simple and (
        c is None or c.dim() == 1 and c.shape[0] == b.shape[1 - transB]
    ):
        return F.linear(a, b if transB else b.T, c)
    result = torch.matmul(a, b.T if transB else b)
    if alpha != 1.0:
        result = (alpha * result).to(a.dtype)
    if c is None or beta == 0.0:
        return result
    return result + (c if beta == 1.0 else (beta * c).to(c.dtype))


@operator("Einsum")
def einsum(*operands: Tensor, equation: str) -> Any:
    """torch.einsum."""
    return torch.einsum(equation, *operands)


@operator("Det")
def det(x: Tensor) -> Any:
    """torch.linalg.det."""
    return torch.linalg.det(x)

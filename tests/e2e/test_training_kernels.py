"""Training steps run fast kernels, whatever the gradients' layouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mica

torch.manual_seed(0)

Loss = Callable[[Tensor], Tensor]
Function = Callable[..., Tensor]

# A sum's gradient is one number expanded, as is a mean's before its division.
LOSSES: dict[str, Loss] = {
    "sum": lambda y: y.sum(),
    "mean": lambda y: y.mean(),
    "squares": lambda y: y.square().mean(),
    "row sums": lambda y: y.sum(-1).tanh().sum() if y.dim() else y.tanh(),
}
A, B = torch.randn(24, 32), torch.randn(32, 40)
Q = torch.randn(2, 3, 16, 8)
IMAGE = torch.randn(2, 8, 10, 10)
PROGRAMS: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "mm": (torch.mm, (A, B)),
    "addmm": (torch.addmm, (B[0], A, B)),
    "bmm": (torch.bmm, (Q[0], Q[1].mT)),
    "row": (torch.mm, (A[:1], B)),
    "outer": (torch.outer, (A[0], B[0])),
    "linear": (nn.Linear(32, 16), (A,)),
    "two layers": (
        nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 8)),
        (A,),
    ),
    "attention": (F.scaled_dot_product_attention, (Q, Q, Q)),
    "attention layer": (
        lambda x: _MHA(x, x, x, need_weights=False)[0],
        (torch.randn(2, 6, 16),),
    ),
    "conv": (nn.Conv2d(8, 4, 3, padding=1), (IMAGE,)),
    "layer norm": (nn.LayerNorm(32), (A,)),
    "sum": (lambda x: x.sum(-1, keepdim=True), (A,)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (A, A[:, :8])),
    "transpose": (lambda x: x.t().contiguous(), (A,)),
    "permute": (lambda x: x.permute(0, 2, 3, 1).contiguous(), (IMAGE,)),
    "cumsum": (lambda x: x.cumsum(0), (A,)),
    "cumprod": (lambda x: x.cumprod(1), (A,)),
    "add": (torch.add, (A, A[0])),
    "hardtanh": (F.hardtanh, (A,)),
    "squared error": (F.mse_loss, (A, A * 2)),
    "squared errors": (
        lambda x, y: F.mse_loss(x, y, reduction="none"),
        (A, A.t().contiguous().t()),
    ),
    "sum of squared errors": (
        lambda x, y: F.mse_loss(x, y, reduction="sum"),
        (A, A * 2),
    ),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), (IMAGE,)),
    "cholesky": (
        lambda x: torch.linalg.cholesky(x @ x.t() + torch.eye(24)),
        (A,),
    ),
}
_MHA = nn.MultiheadAttention(16, 4, batch_first=True)


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_step_runs_the_reference(name: str, loss_name: str) -> None:
    program, tensors = PROGRAMS[name]
    loss_of = LOSSES[loss_name]
    params = (
        list(program.parameters()) if isinstance(program, nn.Module) else []
    )

    def step(*args: Tensor) -> tuple[Tensor, ...]:
        for leaf in (*args, *params):
            leaf.grad = None
        loss = loss_of(program(*args))
        loss.backward()
        grads = [leaf.grad for leaf in (*args, *params)]
        return loss.detach(), *(grad for grad in grads if grad is not None)

    leaves = [t.clone().requires_grad_() for t in tensors]
    want = [t.clone() for t in step(*leaves)]
    compiled = mica.compile(step, fullgraph=True)
    for _ in range(3):
        got = compiled(*leaves)
    explained = mica.explain(compiled)
    assert explained.hits > 0
    for graph in explained.graphs:
        assert "reference" not in graph.kernels, graph.plan_text
    for one, other in zip(got, want, strict=True):
        scale = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * scale)
        assert one.stride() == other.stride()


def test_gradients_are_memory_of_their_own() -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.grad = y.grad = None
        loss = (x + y).square().mean()
        loss.backward()
        return loss.detach()

    x, y = (
        torch.randn(8, 4).requires_grad_(),
        torch.randn(8, 4).requires_grad_(),
    )
    compiled = mica.compile(step, fullgraph=True)
    for _ in range(4):
        compiled(x, y)
        assert x.grad is not None
        assert y.grad is not None
        assert x.grad.data_ptr() != y.grad.data_ptr()
        assert x.grad.equal(y.grad)
        x.grad.zero_()
        assert bool(y.grad.any())


def test_a_first_power_is_a_tensor_of_its_own() -> None:
    compiled = mica.compile(lambda x: x**1, fullgraph=True)
    x = torch.randn(5)
    for _ in range(3):
        y = compiled(x)
        assert y.data_ptr() != x.data_ptr()
        assert y.equal(x)

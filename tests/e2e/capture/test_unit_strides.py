"""Strides of dims of one element: ATen chooses its routines by them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import mica

PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mm": lambda a, b: a @ b.t(),
    "linear": lambda a, b: functional.linear(a, b, b[:, 0]),
    "linear_1d": lambda a, b: functional.linear(a[0], b),
    "bmm": lambda a, b: torch.bmm(a[None], b[None].transpose(1, 2)),
    "addmm_": lambda a, b: torch.ones(len(a), len(b)).addmm_(a, b.t()),
    "einsum": lambda a, b: torch.einsum("ij,kj->ik", a, b),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_eagers_bits(name: str) -> None:
    product = PRODUCTS[name]
    torch.manual_seed(0)
    for rows in (1, 2, 3):
        fast = mica.compile(product, exact=True, fullgraph=True)
        for _ in range(24):
            a, b = torch.randn(rows, 2), torch.randn(1, 2)
            assert torch.equal(fast(a, b), product(a, b)), rows


def test_a_layer_with_one_output_trains_with_eagers_bits() -> None:
    @torch.enable_grad()
    def steps(compiled: bool) -> Tensor:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = mica.compile(step, exact=True) if compiled else step
        return torch.stack([run(torch.randn(1, 3)) for _ in range(40)])

    assert torch.equal(steps(True), steps(False))


@pytest.mark.once("torch.fx keeps what it has printed")
def test_a_graph_of_fx_knows_the_operators_by_their_names() -> None:
    def product(a: Tensor, b: Tensor) -> Tensor:
        return a @ b.t()

    a, b = torch.randn(2, 3), torch.randn(1, 3)
    fast = mica.compile(product, exact=True)
    fast(a, b)
    (graph,) = mica.explain(fast).graphs
    assert graph.ops == ["aten.t", "torch.strides.p_1x3.aten.mm"]
    (record,) = mica.records(fast)
    (result,) = mica.to_fx(record)(a, b)
    assert torch.equal(result, product(a, b))

"""rrelu: the noise is an argument that it fills, in training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from e2e.capture.two_worlds import check_training, with_grad
from torch import Tensor, nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("learns", [False, True])
def test_it_draws_what_eager_draws(
    training: bool, inplace: bool, learns: bool
) -> None:
    def step(x: Tensor) -> tuple[Tensor, ...]:
        y = F.rrelu(x * 1.0, 0.1, 0.4, training=training, inplace=inplace)
        if not learns:
            return (y,)
        return y, *torch.autograd.grad((y * y).sum(), x)

    compiled = mica.compile(step)
    for seed in range(4):
        x = torch.linspace(-2, 1, 9).add(seed / 8).requires_grad_(learns)
        found = []
        for run in (compiled, step):
            torch.manual_seed(seed)
            found.append((*run(x), torch.rand(1)))
        torch.testing.assert_close(*found, rtol=0, atol=0)
    assert mica.explain(compiled).hits == 3


def test_nets_with_it_learn_as_in_eager() -> None:
    def make_net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.RReLU(), nn.Linear(8, 2))

    def draw() -> tuple[Tensor, Tensor]:
        return torch.randn(6, 4), torch.randint(2, (6,))

    assert check_training(make_net, draw, exact=False) >= 4

"""`exact`: eager's numbers, bit for bit."""

from __future__ import annotations

import copy

import pytest
import torch
from e2e.training import Step, make_step
from torch import nn

import mica


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.Conv2d(16, 16, 3, stride=2),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
        nn.LayerNorm(10),
        nn.Softmax(-1),
    )


@pytest.mark.parametrize("training", [False, True])
def test_results_are_eagers(training: bool) -> None:
    mine = _net().train(training)
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine, exact=True)
    with torch.no_grad():
        for seed in range(4):
            a = torch.randn(
                2, 3, 9, 9, generator=torch.Generator().manual_seed(seed)
            )
            assert torch.equal(compiled(a), plain(a))
        for name, state in mine.state_dict().items():
            assert torch.equal(state, plain.state_dict()[name]), name
    told = mica.explain(compiled)
    assert told.is_one_graph and told.hits == 3
    assert sum(told.graphs[0].opaque.values()) > 5


def test_a_training_step_is_eagers() -> None:
    mine, plain = _net(), _net()

    def make(net: nn.Module) -> Step:
        return make_step(
            torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
            lambda a, labels: nn.functional.cross_entropy(net(a), labels),
        )

    compiled = mica.compile(make(mine), exact=True)
    eager = make(plain)
    for seed in range(5):
        torch.manual_seed(seed)
        a, labels = torch.randn(4, 3, 9, 9), torch.randint(10, (4,))
        assert torch.equal(compiled(a, labels), eager(a, labels))
    for name, state in mine.state_dict().items():
        assert torch.equal(state, plain.state_dict()[name]), name
    assert mica.explain(compiled).hits >= 2


def test_norms_that_learn_and_frozen_ones_are_one_graph() -> None:
    """Only the former write their statistics, which ATen's schema conceals."""
    torch.manual_seed(0)
    mine = nn.Sequential(
        nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
    )
    mine.train()[2].eval()
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine, exact=True, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 3, 8, 8)
            assert torch.equal(compiled(x), plain(x))
    for key, value in plain.state_dict().items():
        assert torch.equal(mine.state_dict()[key], value), key
    assert mica.explain(compiled).hits == 2

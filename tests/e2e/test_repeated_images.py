"""Repeated layers of images pass them on as they lie: channels last."""

import re

import pytest
import torch
from torch import nn

import mica

CHANNELS = 16


class Block(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.inner = nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1, groups=groups)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.outer = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.last = nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1, groups=groups)

    def forward(self, x):
        h = torch.relu(self.norm(self.inner(x)))
        h = torch.tanh(self.outer(h)) * torch.sigmoid(h)
        return torch.relu(self.last(h) + x)


class Tokens(nn.Module):
    """Wants the recorded order."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(CHANNELS, CHANNELS)
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x):
        h = self.mix(x.flatten(2).transpose(1, 2)).transpose(1, 2)
        return self.conv(h.reshape(x.shape)) + x


def net_of(*blocks):
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(3, CHANNELS, 3, 2), *blocks)


NETS = {
    "plain": lambda: net_of(*[Block(1) for _ in range(6)]),
    "grouped": lambda: net_of(*[Block(4) for _ in range(6)]),
    "tokens": lambda: net_of(*[Tokens() for _ in range(6)]),
    "both": lambda: net_of(
        *[Block(1) for _ in range(5)], *[Tokens() for _ in range(5)]
    ),
}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_computes_as_eager(name, frozen):
    net = NETS[name]().eval()
    compiled = mica.compile(net, frozen=frozen)
    with torch.no_grad():
        for seed in range(4):
            x = torch.randn(
                2, 3, 17, 19, generator=torch.Generator().manual_seed(seed)
            )
            got, want = compiled(x), net(x)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
            assert got.stride() == want.stride()
    assert mica.explain(compiled).hits == 3
    [graph] = mica.explain(compiled).graphs
    assert graph.functions, "nothing was found to be repeated"


@pytest.mark.parametrize("name", NETS)
def test_trains_as_eager(name):
    def step_of(net):
        optimizer = torch.optim.SGD(net.parameters(), 0.01)

        def step(x):
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    twins = [NETS[name](), NETS[name]()]
    compiled, eager = mica.compile(step_of(twins[0])), step_of(twins[1])
    for seed in range(3):
        x = torch.randn(
            2, 3, 17, 19, generator=torch.Generator().manual_seed(seed)
        )
        torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5)
    for got, want in zip(*[net.parameters() for net in twins], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-5)


def test_nothing_is_copied_between_blocks():
    net = NETS["plain"]().eval()
    compiled = mica.compile(net, frozen=True)
    with torch.no_grad():
        for _ in range(3):
            compiled(torch.randn(1, 3, 17, 19))
    [graph] = mica.explain(compiled).graphs
    assert graph.functions
    copies = re.findall(r"^ +\d+: aten.clone", graph.plan_text, re.MULTILINE)
    assert len(copies) <= 1, graph.plan_text

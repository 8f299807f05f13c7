"""Modules that tests compile, and how a compiled one is like a plain one."""

from __future__ import annotations

import torch
from torch import nn

import mica


class Net(nn.Module):
    """State of each kind, a property, and a method that calls the module."""

    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.scale = 2.0
        self.register_buffer("shift", torch.ones(width))

    @property
    def twice(self):
        return self.scale * 2

    @twice.setter
    def twice(self, value):
        self.scale = value / 2

    def generate(self, a):
        return self(a) + 1

    def forward(self, a):
        return self.fc(a) * self.scale + self.shift


class Outer(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.body = wrap(Net())
        self.head = nn.Linear(4, 2)

    def forward(self, a):
        return self.head(self.body(a))


def plain(module):
    return module


def x(seed=0):
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))


def made(make, *args):
    torch.manual_seed(0)
    return make(*args)


def hits(compiled):
    return mica.explain(compiled).hits


def served(compiled, *args):
    """Calls often enough that the last call has to be a hit."""
    for _ in range(3):
        compiled(*args)
    before = hits(compiled)
    result = compiled(*args)
    assert hits(compiled) == before + 1, str(mica.explain(compiled))
    return result


def agree(compiled, twin):
    """A compiled module does and holds what a plain one does, and is served."""
    with torch.no_grad():
        torch.testing.assert_close(served(compiled, x()), twin(x()))
    ours, theirs = compiled.state_dict(), twin.state_dict()
    assert list(ours) == list(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name])

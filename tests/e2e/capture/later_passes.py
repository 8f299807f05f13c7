"""What the tests of later backward passes share."""

import torch
from torch import nn

import mica


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.first = nn.Linear(8, 4)
        self.second = nn.Linear(8, 3)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return {"first": self.first(h), "second": self.second(h), "h": h}


class States(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        states = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            states.append(x)
        return x, tuple(states)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        del context
        return x * 2

    @staticmethod
    def backward(context, *gradients):
        context.times = 2  # No pass that is made again may set that.
        return gradients[0] * context.times


def mlp():
    return nn.Sequential(
        nn.Linear(8, 16),
        nn.LayerNorm(16),
        nn.GELU(),
        nn.Dropout(0.3),
        nn.Linear(16, 4),
    )


def square(y):
    return y.square().mean()


def gradients_of(module):
    return [
        None if p.grad is None else p.grad.clone() for p in module.parameters()
    ]


def same(want, got):
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert torch.equal(a, b)


def served_twice(compiled, *args):
    """A callable with a record that serves such arguments."""
    for _ in range(2):
        compiled(*args)
    assert mica.explain(compiled).hits > 0, str(mica.explain(compiled))
    return compiled


def grad_is_on():
    """A fixture: nothing is left of gradients of gradients elsewhere."""
    mica.reset(mica.compile(mlp))
    with torch.enable_grad():
        yield

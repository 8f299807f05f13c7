"""Results that were made of other results: gradients pass through these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from torch import nn

import mica


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield
        # Autograd keeps the graph of an error until it runs again.
        torch.ones(1, requires_grad=True).sum().backward()


def two(x, w):
    y = x * w
    return y, y * 2


def three(x, w):
    y = torch.tanh(x * w)
    z = y.exp()
    return y, z, (y * z).sum() * 3


def sum_of_both(x, w):
    y = x * w
    return y, y.sum(), (y * y).sum()


def keep(results, w):
    results[0].retain_grad()
    results[-1].sum().backward()
    return results[0].grad, w.grad


def watch(results, w):
    seen = []
    results[0].register_hook(lambda g: seen.append(g.clone()))
    results[-1].sum().backward()
    return seen, w.grad


def scale(results, w):
    results[0].register_hook(lambda g: g * 3)
    results[-1].sum().backward()
    return w.grad


def ask(results, w):
    last = results[-1].sum()
    return torch.autograd.grad(last, [results[0], w])


def ask_in_steps(results, w):
    last = results[-1].sum()
    (first,) = torch.autograd.grad(last, results[0], retain_graph=True)
    return first, torch.autograd.grad(results[0], w, first)


def both(results, w):
    results[0].retain_grad()
    sum(result.sum() for result in results).backward()
    return results[0].grad, w.grad


def middle(results, w):
    return torch.autograd.grad(
        results[-1].sum(), results[:-1], allow_unused=True
    )


USES = [keep, watch, scale, ask, ask_in_steps, both, middle]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("program", [two, three, sum_of_both])
def test_gradients_pass_through_results(
    program: Callable[..., Any], use: Callable[..., Any], exact: bool
):
    compiled = mica.compile(program, exact=exact)
    for i in range(4):
        told = []
        for fn in (program, compiled):
            w = torch.full((2,), 1.5 + i, requires_grad=True)
            told.append(use(fn(torch.ones(2), w), w))
        same(told[1], told[0])
    assert report(compiled).hits == 3


def test_features_keep_the_gradient_of_what_is_made_of_them():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Conv2d(1, 2, 3)
            self.head = nn.Linear(2, 3)

        def forward(self, x):
            features = self.body(x).relu()
            return features, self.head(features.mean((2, 3)))

    net = Net()
    compiled = mica.compile(net)
    for _ in range(3):
        x = torch.randn(1, 1, 6, 6)
        grads = []
        for model in (net, compiled):
            features, scores = model(x)
            features.retain_grad()
            scores[0, 1].backward()
            grads.append(features.grad)
        torch.testing.assert_close(grads[1], grads[0])
    assert report(compiled).hits == 2

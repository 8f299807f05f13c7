"""Texts of results name the node of autograd's that eager's name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import mica


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield


def texts(make, num_calls=4):
    """What str() gives of the results of eager calls and compiled ones."""
    torch.manual_seed(0)
    eager = make()
    torch.manual_seed(0)
    fast = mica.compile(make())
    x = torch.ones(2, 2)
    both = [
        [str(function(x)) for _ in range(num_calls)]
        for function in (eager, fast)
    ]
    assert mica.explain(fast).hits > 0
    return both


def test_a_result_has_the_name_of_its_node():
    want, got = texts(lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert got == want
    assert "grad_fn=<ReluBackward0>" in got[-1]


def test_each_of_several_results_has_its_own():
    def make():
        w = torch.ones(2, 2, requires_grad=True)
        return lambda x: ((w * x).sum(), (w @ x).tanh())

    want, got = texts(make)
    assert got == want


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y[0],
        lambda y: y.t(),
        lambda y: (y, y.view(4), y[:, None]),
        lambda y: y.unbind(),
        lambda y: y.expand(2, 2, 2),
        lambda y: (y.sum(), y[0], y.relu()),
    ],
)
def test_a_view_has_the_name_of_its_own(view):
    def make():
        w = torch.ones(2, 2, requires_grad=True)
        return lambda x: (view(w * x), view(w))

    want, got = texts(make)
    assert got == want


def test_gradients_pass_a_view_with_the_name_of_its_own():
    def gone_back(run, w, factor):
        seen = []
        row = run(torch.full((2, 2), factor))
        row.register_hook(lambda gradient: seen.append(gradient.tolist()))
        row.retain_grad()
        row.square().sum().backward()
        told = seen, row.grad is None, str(row), w.grad.tolist()
        w.grad = None
        return told

    w = torch.ones(2, 2, requires_grad=True)

    def program(x):
        return w.t()[int(x.numel() > 9)]

    fast = mica.compile(program)
    for call in range(5):
        want = gone_back(program, w, call + 1.0)
        assert gone_back(fast, w, call + 1.0) == want


def test_a_loss_that_was_gone_back_from_has_its_own():
    def make():
        w = torch.ones(2, 2, requires_grad=True)

        def step(x):
            w.grad = None
            loss = (w * x).square().mean()
            loss.backward()
            return loss

        return step

    want, got = texts(make)
    assert got == want
    assert "grad_fn=<MeanBackward0>" in got[-1]


def test_going_back_a_second_time_raises_as_before():
    w = torch.ones(2, requires_grad=True)

    @mica.compile
    def step(x):
        loss = (w * x).square().mean()
        loss.backward()
        return loss

    for _ in range(4):
        loss = step(torch.ones(2))
    try:
        loss.backward()
    except RuntimeError as error:
        assert "backward through the graph a second time" in str(error)
    else:
        raise AssertionError

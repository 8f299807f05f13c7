"""In-place writes to older tensors that autograd tracks."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from torch import nn
from torch.nn import functional

import mica

ACT = nn.ReLU(inplace=True)


def of_an_operator(a):
    return a.mul_(3)


def of_a_module(a):
    return ACT(a)


def of_a_view(a):
    a[0].mul_(2)


def of_a_tracked_operand(a):
    functional.relu_(a)
    return 3


@pytest.mark.parametrize(
    "f", [of_an_operator, of_a_module, of_a_view, of_a_tracked_operand]
)
@pytest.mark.parametrize("is_tracked", [True, False])
def test_gradients_go_back_through_them(f, is_tracked):
    fn = mica.compile(f)
    for seed in range(4):
        grads = []
        for call in (fn, f):
            with torch.enable_grad():
                weight = x(seed).requires_grad_()
                a = weight * 2
                with torch.set_grad_enabled(is_tracked):
                    call(a)
                a.exp().sum().backward()
            grads.append((weight.grad, a.detach()))
        same(grads[0], grads[1])
    assert bool(report(fn).hits) != is_tracked


def test_of_what_the_state_holds():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.full((4,), 3.0))
            self.kept = torch.zeros(4)

        def forward(self):
            self.kept.add_(1)
            self.kept.mul_(self.scale)

    net, plain = Net(), Net()
    fn = mica.compile(net)
    for _ in range(4):
        with torch.enable_grad():
            for module, call in ((net, fn), (plain, plain)):
                module.kept = torch.zeros(4)
                call()
                module.kept.sum().backward()
        same(net.scale.grad, plain.scale.grad)

"""An operator whose kernel torch.library replaces, and frozen inference."""

from __future__ import annotations

import warnings

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from torch import nn

import mica

PROGRAMS = {
    "relu": lambda x: torch.relu(x) * 2,
    "linear": lambda x: nn.functional.linear(x, W) + 1,
    "matmul": lambda x: (x @ W).relu(),
    "add": lambda x: x.relu() + 1,
    "softmax": lambda x: nn.functional.softmax(x, -1),
    "gelu": lambda x: nn.functional.gelu(x),
    "sub": lambda x: x.sub_(0.5) if x.is_meta else torch.sub(x, 0.5),
}
W = torch.eye(4) * 3
OPERATORS = {
    "relu": ("relu", lambda x: torch.neg(x)),
    "linear": ("linear", lambda x, w, b=None: torch.sin(x)),
    "matmul": ("mm", lambda x, w: torch.sin(x)),
    "add": ("add.Tensor", lambda x, y, alpha=1: torch.neg(x)),
    "softmax": ("_softmax", lambda x, dim, half: torch.neg(x)),
    "gelu": ("gelu", lambda x, approximate="none": torch.neg(x)),
    "sub": ("sub.Tensor", lambda x, y, alpha=1: torch.neg(x)),
}


@pytest.mark.once("a library is registered once")
@pytest.mark.parametrize("key", ["CPU", "AutogradCPU"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kernel_is_replaced_and_put_back(program, key):
    f = PROGRAMS[program]
    fast = mica.compile(f)
    x = torch.linspace(-1, 1, 16).reshape(4, 4)
    for _ in range(3):
        same(fast(x), f(x))
    hits = report(fast).hits
    name, kernel = OPERATORS[program]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = torch.library.Library("aten", "IMPL")
        library.impl(name, kernel, key)
    try:
        got = [(fast(x), f(x)) for _ in range(3)]
        late = mica.compile(f)
        got += [(late(x), f(x)) for _ in range(3)]
    finally:
        library._destroy()
    for a, b in got:
        same(a, b)
    for _ in range(3):
        same(fast(x), f(x))
    assert report(fast).hits > hits >= 2, str(report(fast))


# What a record may run by an operator that the program doesn't call.
OTHER_FORMS = {
    "in place": lambda x: (x + 0).mul_(x),
    "out": lambda x: torch.mul(x, x, out=torch.empty_like(x)),
    "in C++": lambda x: CELL(x.reshape(-1, 1).float())[0].flatten(),
}
CELL = nn.GRU(1, 2).requires_grad_(False)
nn.init.constant_(CELL.weight_ih_l0, 0.5)


@pytest.mark.once("a library is registered once")
@pytest.mark.parametrize("exact", [True, None, False])
@pytest.mark.parametrize("program", OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_the_kernel_of_another_form_is_replaced(program, exact):
    x = torch.linspace(-1, 1, 16).bfloat16()

    def run(f):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return f(x)

    fast, late = (mica.compile(program, exact=exact) for _ in range(2))
    for _ in range(3):
        same(run(fast), run(program))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = torch.library.Library("aten", "IMPL")
        library.impl("mul.Tensor", lambda x, *rest: torch.neg(x), "CPU")
    try:
        got = [(run(f), run(program)) for f in [fast, late] * 4]
    finally:
        library._destroy()
    for a, b in got:
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64)
    ).eval()


def row(net):
    net[0].weight[3, 7:40] = 5.0


def element(net):
    net[3].weight[17, 11] += 100.0


def bias(net):
    net[0].bias[5] = 50.0


def loaded(net):
    net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})


def copied(net):
    net[3].weight.copy_(torch.ones(64, 64))


def statistics(net):
    net[1].running_mean[2] = 9.0


def filled(net):
    net[3].weight[40].fill_(3.0)


@pytest.mark.parametrize(
    "write", [row, element, bias, loaded, copied, statistics, filled]
)
@pytest.mark.parametrize("inference", [True, False])
def test_frozen_weights_are_written_in_place(write, inference):
    mode = torch.inference_mode if inference else torch.no_grad
    with mode():
        net, twin = mlp(), mlp()
        fast = mica.compile(net, frozen=True)
        x = torch.randn(8, 64)
        for _ in range(3):
            torch.testing.assert_close(fast(x), twin(x), atol=1e-4, rtol=1e-4)
        write(net)
        write(twin)
        for _ in range(3):
            torch.testing.assert_close(fast(x), twin(x), atol=1e-3, rtol=1e-4)
        assert report(fast).hits >= 5, str(report(fast))

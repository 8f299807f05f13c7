"""A module's parameter that a call makes anew, without gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import with_grad
from torch import Tensor, nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


def by_argument(net: nn.Linear, x: Tensor) -> Any:
    net.weight = nn.Parameter(net.weight.detach() * 2, requires_grad=False)
    return net(x)


def by_method(net: nn.Linear, x: Tensor) -> Any:
    net.weight = nn.Parameter(net.weight.detach() * 2)
    net.weight.requires_grad_(False)
    return net(x)


def by_assignment(net: nn.Linear, x: Tensor) -> Any:
    net.weight = nn.Parameter(net.weight.detach() * 2)
    net.weight.requires_grad = False
    return net(x)


def in_two_places(net: nn.Linear, x: Tensor) -> Any:
    net.weight = nn.Parameter(net.weight.detach() * 2, requires_grad=False)
    return {"kept": net.weight, "data": net.weight.data, "y": net(x)}


def returned(net: nn.Linear, x: Tensor) -> Any:
    made = nn.Parameter(net.weight.detach() + x.sum(), requires_grad=False)
    return [made, made, x * 2]


@pytest.mark.parametrize(
    "program",
    [by_argument, by_method, by_assignment, in_two_places, returned],
)
def test_it_is_a_parameter_after_hits_too(
    program: Callable[[nn.Linear, Tensor], Any],
) -> None:
    nets = [nn.Linear(3, 3) for _ in range(2)]
    for net in nets:
        net.requires_grad_(False).weight.copy_(torch.eye(3))
        net.bias.zero_()
    compiled = mica.compile(program)
    for call in range(5):
        x = torch.arange(3.0) + call
        want, got = program(nets[0], x), compiled(nets[1], x)
        torch.testing.assert_close(got, want)
        for a, b in zip(_tensors(want), _tensors(got), strict=True):
            assert type(a) is type(b) and a.requires_grad is b.requires_grad
        weights = [net.weight for net in nets]
        assert type(weights[1]) is nn.Parameter
        assert not weights[1].requires_grad and weights[1].is_leaf
        assert not weights[1]._is_view()
        torch.testing.assert_close(*weights, rtol=0, atol=0)
        assert list(nets[1].state_dict()) == list(nets[0].state_dict())
        if program is in_two_places:
            assert got["kept"] is weights[1]
            assert got["data"].data_ptr() == weights[1].data_ptr()
        if program is returned:
            assert got[0] is got[1]
    assert mica.explain(compiled).hits >= 3


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    parts = result.values() if isinstance(result, dict) else result
    return list(parts)

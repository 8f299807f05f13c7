"""A backward pass may begin at a tensor that no operator took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import mica


@pytest.fixture(autouse=True)
def _grad(_no_grad: None) -> Iterator[None]:
    with torch.enable_grad():
        yield


G = torch.tensor([1.0, 2.0, 3.0])
Leaves = tuple[torch.Tensor, torch.Tensor]

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "of a method": lambda a, b: a.backward(torch.tensor([1.0, 2.0, 3.0])),
    "of a constant": lambda a, b: a.backward(G),
    "of what is computed": lambda a, b: a.backward(G * 2),
    "of a function": lambda a, b: torch.autograd.backward([a], [G]),
    "among other roots": lambda a, b: torch.autograd.backward(
        [a, b * a], [G, G]
    ),
    "twice": lambda a, b: (a.backward(G), a.backward(G * b.detach())),
    "behind a gradient that is dropped": lambda a, b: (
        setattr(a, "grad", None),
        a.backward(G),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_leaf_gathers_its_gradient(name):
    program = PROGRAMS[name]
    eager, own = (
        tuple(torch.ones(3, requires_grad=True) for _ in range(2))
        for _ in range(2)
    )
    fast: Any = mica.compile(lambda: program(own[0], own[1]))
    for _ in range(5):
        program(eager[0], eager[1])
        fast()
        for want, got in zip(eager, own, strict=True):
            assert (want.grad is None) == (got.grad is None)
            assert want.grad is None or torch.equal(want.grad, got.grad)
    assert mica.explain(fast).hits >= 3


def test_an_argument_gathers_its_gradient():
    fast: Any = mica.compile(lambda t: t.backward(G))
    leaf = torch.ones(3, requires_grad=True)
    for i in range(5):
        fast(leaf)
        assert torch.equal(leaf.grad, G * (i + 1))


@pytest.mark.parametrize("is_state", [True, False])
def test_a_graph_that_came_in_is_gone_through(is_state):
    leaf = torch.ones(3, requires_grad=True)
    root = leaf * 2
    fast: Any = mica.compile(
        (lambda _: root.backward(G, retain_graph=True))
        if is_state
        else (lambda t: t.backward(G, retain_graph=True))
    )
    for i in range(5):
        fast(root)
        assert torch.equal(leaf.grad, 2 * G * (i + 1))

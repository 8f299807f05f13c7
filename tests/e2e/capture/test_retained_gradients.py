"""Tensors between, of which a program asks the gradient by retain_grad()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.later_passes import grad_is_on
from e2e.capture.two_worlds import World, check
from torch import nn

_grad = pytest.fixture(autouse=True)(grad_is_on)


def make_of(program: Callable[..., Any]) -> Callable[[], Any]:
    def make() -> Any:
        torch.manual_seed(0)
        world = World()
        world.layer = nn.Linear(3, 3)
        world.kept = []
        world.program = lambda x: program(world, x)
        return world

    return make


def call(world: Any, fn: Any) -> Any:
    result = fn(torch.linspace(-1, 2, 6).reshape(2, 3))
    first = result[0] if isinstance(result, tuple) else result
    grads = [p.grad for p in world.layer.parameters()]
    return result, first.grad, first.retains_grad, grads, world.kept


def inside(world: Any, x: torch.Tensor) -> Any:
    hidden = world.layer(x)
    hidden.retain_grad()
    (hidden * hidden).sum().backward()
    gradient = hidden.grad
    world.layer.zero_grad()
    return gradient


def of_several(world: Any, x: torch.Tensor) -> Any:
    hidden = world.layer(x)
    more = hidden.relu()
    hidden.retain_grad()
    more.retain_grad()
    more.retain_grad()
    (more * hidden).sum().backward()
    return hidden.grad, more.grad, hidden.detach()


def of_a_leaf(world: Any, x: torch.Tensor) -> Any:
    leaf = x.clone().requires_grad_()
    leaf.retain_grad()
    world.layer(leaf).sum().backward()
    return leaf.grad


def written_before(world: Any, x: torch.Tensor) -> Any:
    hidden = world.layer(x)
    hidden.retain_grad()
    hidden.mul_(2)
    hidden.sum().backward()
    return hidden.grad


@pytest.mark.parametrize(
    "program", [inside, of_several, of_a_leaf, written_before]
)
def test_gradients_that_the_program_reads(program):
    assert check(make_of(program), *[call] * 5) >= 3


def returned(world: Any, x: torch.Tensor) -> Any:
    hidden = world.layer(x)
    hidden.retain_grad()
    (hidden * hidden).sum().backward()
    return hidden


def left(world: Any, x: torch.Tensor) -> Any:
    hidden = world.layer(x)
    hidden.retain_grad()
    world.kept.append(hidden)
    (hidden * hidden).sum().backward()
    return x * 2


def of_a_view(world: Any, x: torch.Tensor) -> Any:
    hidden = world.layer(x)
    hidden.retain_grad()
    return hidden[0], (hidden * 2).sum()


def of_a_parameter(world: Any, x: torch.Tensor) -> Any:
    world.layer.weight.retain_grad()
    return world.layer(x)


@pytest.mark.parametrize("program", [returned, left, of_a_view, of_a_parameter])
def test_tensors_that_others_have(program):
    check(make_of(program), *[call] * 5)


def test_a_gradient_that_comes_later():
    def program(world: Any, x: torch.Tensor) -> Any:
        hidden = world.layer(x)
        hidden.retain_grad()
        return hidden, (hidden * hidden).sum()

    def step(world: Any, fn: Any) -> Any:
        hidden, loss = fn(torch.ones(2, 3))
        loss.backward()
        return hidden.grad, [p.grad for p in world.layer.parameters()]

    check(make_of(program), *[step] * 5)


def test_no_gradient_yet():
    def program(world: Any, x: torch.Tensor) -> Any:
        try:
            hidden = x * 2
            hidden.retain_grad()
        except RuntimeError as error:
            return x, str(error)
        return x, hidden.grad

    check(make_of(program), *[call] * 5)

"""A program may give tensors that it made other data, by `tensor.data = …`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check, drawn, with_grad
from torch import nn

_grad = pytest.fixture(autouse=True)(with_grad)

Program = Callable[[Any, torch.Tensor], Any]


def attack(world: World, x: torch.Tensor) -> Any:
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        world.net(x + delta).square().mean().backward()
        delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-0.2, 0.2)
        delta.grad.zero_()
    world.net.zero_grad()
    return delta.detach()


def saved_leaf(world: World, x: torch.Tensor) -> Any:
    d = torch.ones_like(x).requires_grad_()
    loss = (d * d * x).sum()
    d.data = x * 2
    loss.backward()
    return d.grad, d.detach()


def written_by_both(world: World, x: torch.Tensor) -> Any:
    d, y = torch.ones_like(x), x * 2
    d.data = y
    y.add_(1)
    first = d * 1
    d.mul_(3)
    return first, y * 1, d * 1


def state_as_data(world: World, x: torch.Tensor) -> Any:
    d = torch.ones(4)
    d.data = world.kept
    d.add_(x[0])
    return d * 2, world.kept * 1


def argument_as_data(world: World, x: torch.Tensor) -> Any:
    d = torch.ones(2, 4, requires_grad=True)
    d.data = x
    (d * 3).exp().sum().backward()
    with torch.no_grad():
        d.sub_(d.grad)
    return x * 1, d.grad


def old_data_shown(world: World, x: torch.Tensor) -> Any:
    d = x * 2
    shown = d.detach()
    d.data = x + 1
    d.mul_(2)
    return shown, d


def shared_results(world: World, x: torch.Tensor) -> Any:
    d, y = torch.ones_like(x), x * 2
    d.data = y
    return d, y.sum()


def a_part_of_another(world: World, x: torch.Tensor) -> Any:
    d, y = torch.ones(3), x * 2
    d.data = y[1]
    d += 1
    return y * 1, d * 1, d.shape[0]


def left_in_the_state(world: World, x: torch.Tensor) -> Any:
    d = x.clone()
    d.data = d.data.clamp(0, 1)
    world.last = d
    return d.sum()


def own_parameter(world: World, x: torch.Tensor) -> Any:
    w = nn.Parameter(torch.full((4,), 0.5))
    for _ in range(3):
        (grad,) = torch.autograd.grad((x * w).exp().mean(), w)
        w.data = w.data - 0.1 * grad
    return w.detach(), world.net(x).sum().item()


def of_swapped_tensors(world: World, x: torch.Tensor) -> Any:
    a, b = x * 2, x * 3
    a.data, b.data = b.data, a.data
    a += 1
    return a * 1, b * 1


def of_a_weight(world: World, x: torch.Tensor) -> Any:
    d = torch.zeros(4)
    d.data = world.net.bias.data
    d.add_(x.mean())
    return world.net(x).sum().item()


def version(world: World, x: torch.Tensor) -> Any:
    d = x * 2
    d.add_(1)
    d.data = x + 1
    d.add_(1)
    return d, d._version


SERVED = [
    attack,
    saved_leaf,
    written_by_both,
    state_as_data,
    argument_as_data,
    old_data_shown,
    shared_results,
    a_part_of_another,
    left_in_the_state,
    own_parameter,
    of_swapped_tensors,
    of_a_weight,
]


def hits_of(program: Program, exact: bool) -> int:
    def make() -> World:
        world = World()
        torch.manual_seed(0)
        world.net, world.kept = nn.Linear(4, 4), torch.arange(4.0)

        world.program = lambda x: program(world, x)
        return world

    def step(seed: int) -> Callable[[Any, Any], Any]:
        def take(world: Any, call: Any) -> Any:
            given = drawn(seed)
            result = call(given)
            parts = [
                (p, p._version)
                for p in (result if isinstance(result, tuple) else (result,))
                if isinstance(p, torch.Tensor)
            ]
            state = [p.detach().clone() for p in world.net.parameters()]
            last = getattr(world, "last", None)
            return result, parts, given, world.kept.clone(), state, last

        return take

    return check(make, *map(step, range(7)), exact=exact)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("program", SERVED)
def test_is_served(program: Program, exact: bool):
    assert hits_of(program, exact) >= 5


def other_dtype(world: World, x: torch.Tensor) -> Any:
    d = torch.zeros(2, 4)
    d.data = x.double()
    return d * 2


def with_a_history(world: World, x: torch.Tensor) -> Any:
    h = world.net(x)
    h.data = h.data.clamp(0, 1)
    h.exp().sum().backward()
    grad = world.net.weight.grad
    world.net.zero_grad()
    return grad


def of_a_view(world: World, x: torch.Tensor) -> Any:
    y = x * 2
    row = y[0]
    row.data = x[1] + 1
    row += 1
    return y, row * 1


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "program", [other_dtype, with_a_history, of_a_view, version]
)
def test_what_breaks_the_graph_gives_what_eager_gives(
    program: Program, exact: bool
):
    hits_of(program, exact)

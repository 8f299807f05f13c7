"""Lists that are empty when a call begins, filled, read, and emptied again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, call, check, with_grad
from torch import nn

grad = pytest.fixture(autouse=True)(with_grad)


def stacked(world: World, x: torch.Tensor) -> Any:
    for row in x:
        world.kept.append(row.sum())
    got = torch.stack([*world.kept]).mean()
    del world.kept[:]
    return got


def summed(world: World, x: torch.Tensor) -> Any:
    world.kept.extend([x[0].sum(), x[1].sum()])
    got = sum(world.kept) + len(world.kept) * world.kept[0] + world.kept[-1]
    world.kept.clear()
    return got


def backwards(world: World, x: torch.Tensor) -> Any:
    for step in range(3):
        world.kept.append((x[0].sum() * step, step))
    total: Any = 0
    for value, step in reversed(world.kept):
        total = value + 0.9 * total + step
    world.kept.clear()
    return total


def with_losses(world: World, x: torch.Tensor) -> Any:
    """Policy gradients: losses of steps whose graphs end with the call."""
    for factor in (1, 2):
        world.kept.append(world.net(x * factor).sum())
    loss = torch.stack([*world.kept]).sum()
    world.net.zero_grad()
    loss.backward()
    world.kept.clear()
    return loss.detach(), [p.grad.clone() for p in world.net.parameters()]


def filled_twice(world: World, x: torch.Tensor) -> Any:
    world.kept.append(x.sum())
    got = [*world.kept]
    world.kept.clear()
    world.kept.extend([1, 2])
    total = sum(world.kept)
    world.kept.clear()
    return got, total, len(world.kept)


def same_items(world: World, x: torch.Tensor) -> Any:
    world.kept.append(x)
    first = world.kept[0]
    same = first is world.kept[0], first is x
    world.kept.clear()
    return same


def left_behind(world: World, x: torch.Tensor) -> Any:
    world.kept.clear()
    world.kept.append(x + 1)
    got = [*world.kept][0] * 2
    world.kept.append(got)
    return len(world.kept)


def by_numbers(world: World, x: torch.Tensor) -> Any:
    for row in x:
        world.kept.append(row.sum().item())
    got = torch.tensor([*world.kept]), [number / 2 for number in world.kept]
    world.kept.clear()
    return got


PROGRAMS = {
    stacked: 6,
    summed: 6,
    backwards: 6,
    with_losses: 4,
    filled_twice: 6,
    same_items: 6,
    left_behind: 0,
    by_numbers: 6,
}
CHECKED = [
    (program, hits, kind)
    for program, hits in PROGRAMS.items()
    for kind in (list, deque)
    if program is not stacked or kind is list  # A deque has no slices.
]


def world_of(
    body: Callable[[World, torch.Tensor], Any], kind: Callable[[], Any]
) -> World:
    torch.manual_seed(0)
    world = World()
    world.kept, world.net = kind(), nn.Linear(4, 2)
    world.program = lambda x: body(world, x)
    return world


def with_kept(seed: int) -> Any:
    def step(world: World, program: Any) -> Any:
        return call(seed)(world, program), [*world.kept]

    return step


@pytest.mark.parametrize(("body", "hits", "kind"), CHECKED)
def test_a_list_that_each_call_fills_and_empties(body, hits, kind):
    steps = [with_kept(seed) for seed in range(8)]
    assert check(lambda: world_of(body, kind), *steps) >= hits


@pytest.mark.parametrize(("body", "hits", "kind"), CHECKED)
def test_a_list_that_is_not_empty_for_once(body, hits, kind):
    def fill(world: World, program: Any) -> Any:
        world.kept.append((torch.ones(()), 5) if body is backwards else 3.5)
        return None

    def empty(world: World, program: Any) -> Any:
        world.kept.clear()
        return None

    def attempt(seed: int) -> Any:
        def step(world: World, program: Any) -> Any:
            try:
                return with_kept(seed)(world, program)
            except (TypeError, AttributeError, RuntimeError) as error:
                return type(error)

        return step

    before = [attempt(seed) for seed in range(4)]
    check(
        lambda: world_of(body, kind),
        *before,
        fill,
        attempt(5),
        empty,
        *before,
    )

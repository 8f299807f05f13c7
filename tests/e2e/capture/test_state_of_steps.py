"""Training steps that keep hidden states in lists, and count on their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, call, check, with_grad
from torch import nn

grad = pytest.fixture(autouse=True)(with_grad)


def hidden_in_a_list(steps: int) -> World:
    """A cell whose state is an item of a list, for truncated backward."""
    torch.manual_seed(0)
    world = World()
    world.cell, world.kept = nn.LSTMCell(4, 4), [None] * steps

    def program(x: torch.Tensor) -> Any:
        losses = []
        for i in range(steps):
            state = world.kept[i]
            if state is None:
                state = (torch.zeros(2, 4), torch.zeros(2, 4))
            state = world.cell(x, tuple(part.detach() for part in state))
            loss = state[0].pow(2).sum()
            loss.backward()
            world.kept[i] = state
            losses.append(loss.detach())
        return losses

    world.program = program
    return world


def with_states(world: World, program: Any, seed: int) -> Any:
    got = call(seed)(world, program)
    grads = [p.grad.clone() for p in world.cell.parameters()]
    return got, grads, [[t.detach() for t in kept] for kept in world.kept]


@pytest.mark.parametrize("steps", [1, 3])
def test_a_hidden_state_in_a_list(steps):
    calls = [
        lambda world, program, seed=seed: with_states(world, program, seed)
        for seed in range(8)
    ]
    hits = check(lambda: hidden_in_a_list(steps), *calls)
    assert hits == 6


def test_a_hidden_state_that_somebody_else_sets():
    def reset(world: World, program: Any) -> Any:
        world.kept[0] = None
        return with_states(world, program, 9)

    calls: list[Any] = [
        lambda world, program, seed=seed: with_states(world, program, seed)
        for seed in range(4)
    ]
    assert check(lambda: hidden_in_a_list(1), *calls, reset, *calls) >= 6


class Counting(torch.optim.Optimizer):
    """Momentum with a correction, by a count for each parameter."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.01, "beta": 0.9})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"], state["mean"] = 0, torch.zeros_like(p)
                state["step"] += 1
                state["mean"].mul_(group["beta"]).add_(p.grad)
                total = 1 - group["beta"] ** state["step"]
                p.add_(state["mean"] / total, alpha=-group["lr"])


def counting(layers: int) -> World:
    torch.manual_seed(0)
    world = World()
    world.net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))
    world.optimizer = Counting(world.net.parameters())

    def program(x: torch.Tensor) -> torch.Tensor:
        world.optimizer.zero_grad()
        loss = world.net(x).pow(2).mean()
        loss.backward()
        world.optimizer.step()
        return loss.detach()

    world.program = program
    return world


@pytest.mark.parametrize("layers", [1, 12])
def test_counts_of_all_parameters_are_followed_at_once(layers):
    def step(world: World, program: Any, seed: int) -> Any:
        got = call(seed)(world, program)
        states = list(world.optimizer.state.values())
        return got, [p.detach() for p in world.net.parameters()], states

    calls = [
        lambda world, program, seed=seed: step(world, program, seed)
        for seed in range(9)
    ]
    # As many are watched for one layer as for many.
    assert check(lambda: counting(layers), *calls) == 5

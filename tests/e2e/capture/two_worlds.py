"""Steps in an eager and in a compiled world, compared one by one."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from e2e.capture.agreement_of_calls import report, same

import mica

# What a world and its callable make of a step; what a program does in a world.
Step = Callable[[Any, Any], Any]
Body = Callable[[Any, torch.Tensor], Any]


def with_grad(_no_grad: None) -> Iterator[None]:
    """A fixture, for programs that have backward passes."""
    with torch.enable_grad():
        yield


def drawn(seed: int) -> torch.Tensor:
    """An argument of two rows of four."""
    return torch.randn(2, 4, generator=torch.Generator().manual_seed(seed))


def call(seed: int) -> Step:
    """Calls the program with such an argument."""
    return lambda _, program: program(drawn(seed))


def check(
    make: Callable[[], Any],
    *steps: Callable[[Any, Any], Any],
    exact: bool = True,
) -> int:
    """Takes steps in an eager and in a compiled world; returns the hits.

    `make` gives a namespace with a `program`; a step gets it and the callable,
    and returns what is compared. `exact` is compile's.
    """
    eager, served = make(), make()
    compiled = mica.compile(served.program, exact=exact)
    for number, step in enumerate(steps):
        state = random.getstate()
        want = step(eager, eager.program)
        random.setstate(state)
        got = step(served, compiled)
        try:
            same(got, want)
        except AssertionError as error:
            raise AssertionError(f"step {number}: {got}, not {want}") from error
    return report(compiled).hits


def check_training(
    make_net: Callable[[], torch.nn.Module],
    draw: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    exact: bool = True,
) -> int:
    """Trains a net on drawn batches of inputs and classes; returns the hits."""

    def make() -> World:
        world = World()
        torch.manual_seed(0)
        world.net = make_net()
        world.optimizer = torch.optim.AdamW(world.net.parameters(), lr=0.01)

        def step(x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
            world.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(world.net(x), classes)
            loss.backward()
            world.optimizer.step()
            return loss

        world.program = step
        return world

    def take(seed: int) -> Step:
        def step(world: Any, program: Any) -> Any:
            torch.manual_seed(seed)
            loss = program(*draw())
            return loss, [p.detach() for p in world.net.parameters()]

        return step

    return check(make, *[take(i) for i in range(8)], exact=exact)


class World:
    """A namespace."""


def world(body: Body, **state: Any) -> Callable[[], Any]:
    """Makes worlds with copies of `state`, whose program is `body`."""

    def make() -> Any:
        new: Any = World()
        vars(new).update(copy.deepcopy(state))
        new.program = lambda a: body(new, a)
        return new

    return make

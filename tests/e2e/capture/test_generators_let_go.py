"""Generators that are let go of before their end, inside others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
import torch
from e2e.capture.two_worlds import World, check
from torch import nn

import mica


def each(items: Iterable[int]) -> Iterator[int]:
    yield from items


def each_told(items: Iterable[int], log: list[str]) -> Iterator[int]:
    try:
        for item in each(items):  # noqa: UP028  A frame of its own.
            yield item
    finally:
        log.append("closed")


def take_first(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    return x * next(v for v in each_told((1, 2, 3), log) if v > 1)


def ask_any(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    return x + any(v > 1 for v in each(each_told((1, 2, 3), log)))


def leave_loop(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    for v in each_told((1, 2, 3), log):
        if v == 2:
            break
    return x * v


def close_by_hand(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    outer = (v for v in each_told((1, 2, 3), log))
    y = x * next(outer)
    outer.close()
    return y


@pytest.mark.parametrize(
    "program", [take_first, ask_any, leave_loop, close_by_hand]
)
def test_they_are_closed_as_eager_closes_them(program):
    def make() -> World:
        world = World()
        world.log = []
        world.program = lambda x: program(x, world.log)
        return world

    def step(world, run):
        return run(torch.ones(2)), list(world.log)

    assert check(make, step, step, step, step) == 3


class Scaled(nn.Module):
    """Asks for its dtype as transformers' models do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    @property
    def dtype(self) -> torch.dtype:
        return next(p.dtype for p in self.parameters() if p.is_floating_point())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * torch.finfo(self.dtype).eps


def test_a_property_that_takes_the_first_parameter():
    compiled = mica.compile(Scaled())
    for _ in range(4):
        compiled(torch.ones(1, 2))
    explanation = mica.explain(compiled)
    assert explanation.hits == 3 and len(explanation.graphs) == 1

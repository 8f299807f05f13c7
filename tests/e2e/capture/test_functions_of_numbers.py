"""Functions of Python's, and of numpy's, of numbers that vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.two_worlds import World, check

FUNCTIONS: dict[str, Callable[[float], Any]] = {
    "decibels": lambda a: -10 * math.log10(a),
    "bits": lambda a: math.log2(a),
    "a logarithm with a base": lambda a: math.log(a, 2),
    "a logarithm with a base that is a float": lambda a: math.log(a, 0.5),
    "a logarithm to no base": lambda a: math.log(a, 1),
    "a hyperbolic tangent": lambda a: math.tanh(a),
    "a power": lambda a: pow(a, 2),
    "a power that is no int": lambda a: pow(a, 0.5),
    "a power of math's": lambda a: math.pow(a, 1.5),
    "an inverse": lambda a: math.pow(a, -1),
    "a base": lambda a: pow(0.9, a),
    "truth": lambda a: bool(a),
    "no number": lambda a: bool(np.isnan(a)),
    "an infinity": lambda a: bool(np.isinf(a)),
    "finite": lambda a: 1.0 if np.isfinite(a) else 0.0,
}
SOME = (0.5, 1.5, 2.25, 0.75, 8.0, 1.0)
ODD = (0.0, -1.0, math.inf, -math.inf, math.nan, 1e300, -0.0, 2.0)


def world_of(function: Callable[[float], Any], counts: bool) -> World:
    world = World()
    world.calls, world.log = 0, []

    def program(x: torch.Tensor) -> Any:
        world.calls += 1
        number = world.calls if counts else x.sum().item()
        got = function(number)
        world.log.append((got, type(got).__name__))
        return x * got, got

    world.program = program
    return world


def with_number(number: float) -> Any:
    def step(world: World, program: Any) -> Any:
        try:
            got = program(torch.tensor([number]))
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            got = type(error), str(error)
        return got, world.calls, world.log

    return step


def is_served(name: str) -> bool:
    return name != "a logarithm to no base"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_a_number_of_a_tensor(name):
    steps = [with_number(number) for number in SOME * 2]
    hits = check(lambda: world_of(FUNCTIONS[name], counts=False), *steps)
    assert not is_served(name) or hits >= len(steps) - 3


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_a_count(name):
    steps = [with_number(number) for number in SOME * 2]
    hits = check(lambda: world_of(FUNCTIONS[name], counts=True), *steps)
    assert not is_served(name) or hits >= len(steps) - 4


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_odd_numbers_after_others(name):
    numbers = [*SOME[:3], *ODD, *SOME, *ODD[::-1]]
    steps = [with_number(number) for number in numbers]
    check(lambda: world_of(FUNCTIONS[name], counts=False), *steps)

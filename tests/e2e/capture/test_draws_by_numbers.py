"""Draws whose bounds and parameters vary from call to call."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.two_worlds import Step, check, drawn, world

Body = Callable[[Any, torch.Tensor], Any]


def indices_below(w: Any, x: torch.Tensor) -> Any:
    at = torch.as_tensor(np.random.randint(0, w.size, size=3))
    return x.flatten()[at % 8]


def one_below(w: Any, x: torch.Tensor) -> Any:
    return x * np.random.randint(w.size) + np.random.randint(1, high=w.size + 1)


def by_name(w: Any, x: torch.Tensor) -> Any:
    wide = w.rng.normal(scale=w.size, loc=w.rate)
    return x * wide + w.rng.uniform(low=w.size, high=w.size + 9)


def of_many_kinds(w: Any, x: torch.Tensor) -> Any:
    mixed = np.random.beta(w.rate, w.rate) + np.random.uniform(-w.rate, w.rate)
    more = w.state.normal(w.size, w.rate) + w.state.exponential(w.rate)
    return x * mixed + more + np.random.poisson(w.size)


def by_a_draw(w: Any, x: torch.Tensor) -> Any:
    first = np.random.randint(1, w.size + 2)
    return x * np.random.uniform(0, first) + random.uniform(0, first * w.rate)


def an_array_between(w: Any, x: torch.Tensor) -> Any:
    return x + torch.from_numpy(np.random.uniform(-w.rate, w.rate, (2, 4)))


def pythons_own(w: Any, x: torch.Tensor) -> Any:
    more = random.expovariate(w.rate) + random.triangular(0.0, w.size)
    return x * random.uniform(0, w.size) + more * random.randrange(w.size)


def of_constants_and_how_many(w: Any, x: torch.Tensor) -> Any:
    return x.sum() + torch.from_numpy(np.random.normal(0.0, 1.0, w.size))


BODIES = [
    indices_below,
    one_below,
    by_name,
    of_many_kinds,
    by_a_draw,
    an_array_between,
    pythons_own,
]


def step_of(seed: int) -> Step:
    def step(w: Any, program: Any) -> Any:
        w.size, w.rate = w.size + 1, w.rate * 0.9
        random.seed(seed)
        np.random.seed(seed)
        result = program(drawn(seed))
        states = (w.rng.normal(), w.state.rand(), np.random.rand())
        return result, states, random.random()

    return step


def hits(body: Body, count: int = 10) -> int:
    names = {
        "size": 1,
        "rate": 2.0,
        "rng": np.random.default_rng(3),
        "state": np.random.RandomState(3),
    }
    return check(world(body, **names), *map(step_of, range(count)))


@pytest.mark.parametrize("body", BODIES)
def test_one_record_serves_all_parameters(body: Body) -> None:
    assert hits(body) >= 6


def test_how_many_are_drawn_has_to_be_the_recorded_number() -> None:
    hits(of_constants_and_how_many)


def test_bounds_that_raise_raise_as_in_eager() -> None:
    def attempt(size: int) -> Step:
        def step(w: Any, program: Any) -> Any:
            w.size = size
            np.random.seed(size + 100)
            try:
                return program(drawn(size)), np.random.rand()
            except ValueError as error:
                return str(error), np.random.rand()

        return step

    sizes = [3, 4, 5, 6, 0, 7, -2, 8]
    assert check(world(one_below, size=1), *map(attempt, sizes)) >= 3

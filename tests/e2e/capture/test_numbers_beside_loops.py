"""Numbers that vary beside loops over sizes, and that no operator takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica


@pytest.fixture(autouse=True)
def _any_budget() -> Any:
    with mica.options.set(capture_budget=1e6):
        yield


def unused(x: torch.Tensor, y: torch.Tensor, n: int, given: list[int]) -> Any:
    for _ in range(y.size(0)):
        x = torch.tanh(x) + 1
    return x


def given_back(
    x: torch.Tensor, y: torch.Tensor, n: int, given: list[int]
) -> Any:
    for _ in range(y.size(0)):
        x = torch.tanh(x) + 1
    return x, n, given[0], len(given)


def used(x: torch.Tensor, y: torch.Tensor, n: int, given: list[int]) -> Any:
    for _ in range(y.size(0)):
        x = torch.tanh(x) + 1
    return x * n + given[-1]


def the_lesser(
    x: torch.Tensor, y: torch.Tensor, n: int, given: list[int]
) -> Any:
    count = len(y)
    if len(x) < count:
        count = len(x)
    for _ in range(count):
        x = torch.tanh(x) + 1
    return x


@pytest.mark.parametrize("program", [unused, given_back, used, the_lesser])
@pytest.mark.parametrize("seed", range(6))
def test_runs_that_are_fed_other_numbers(
    program: Callable[..., Any], seed: int
) -> None:
    """Their graph for all lengths takes as many as the record gives."""
    draw = random.Random(seed)
    compiled: Any = mica.compile(program)
    for _ in range(30):
        rows = draw.choice((2, 5, 9, 301))
        x = torch.randn(rows, draw.choice((2, 4)))
        y, n = torch.randn(draw.randint(2, 8)), draw.choice((3, 5, 301, 400))
        given = [draw.choice((2, 9, 350)) for _ in range(draw.choice((2, 3)))]
        want, got = program(x, y, n, given), compiled(x, y, n, given)
        torch.testing.assert_close(got, want)


def test_lists_of_other_lengths() -> None:
    """The calls that once wrote beyond what a graph has for its numbers."""
    calls = [
        ((2, 2), 6, 301, [2, 301]),
        ((301, 4), 3, 301, [301, 350, 301]),
        ((5, 4), 5, 301, [9, 301, 350]),
        ((301, 4), 8, 3, [2, 9]),
        ((2, 4), 7, 5, [350, 350, 3]),
        ((2, 4), 7, 400, [2, 350]),
        ((5, 4), 8, 3, [2, 3]),
        ((9, 4), 7, 3, [2, 2]),
        ((301, 2), 5, 5, [5, 350, 5]),
        ((5, 4), 2, 5, [2, 9]),
        ((9, 2), 4, 3, [9, 3]),
        ((301, 4), 2, 3, [9, 9, 2]),
    ]
    compiled: Any = mica.compile(the_lesser)
    for shape, length, n, given in calls * 2:
        x, y = torch.randn(*shape), torch.randn(length)
        torch.testing.assert_close(
            compiled(x, y, n, given), the_lesser(x, y, n, given)
        )

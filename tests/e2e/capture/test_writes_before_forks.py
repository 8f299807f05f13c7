"""Ways by a number whose tensor is written before the program branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica

pytestmark = pytest.mark.once("calls take ways of their own")


@pytest.fixture(autouse=True)
def _any_budget() -> Any:
    with mica.options.set(capture_budget=1e6):
        yield


def add_to_what_was_read(x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    number = total.item()
    moved = total.add_(100)
    if number > 0:
        return x + moved
    return x - moved


def write_a_view(x: torch.Tensor) -> torch.Tensor:
    rows = x * 2
    number = rows[0, 1].item()
    rows[0].fill_(5)
    if number > 0:
        return rows + x
    return rows - x


def write_what_it_is_a_view_of(x: torch.Tensor) -> torch.Tensor:
    rows = x * 2
    first = rows[0, 1]
    number = first.item()
    rows.zero_()
    if number > 0:
        return rows + x
    return rows - x


def compare_two(x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    before = total.item()
    total.mul_(-3).add_(1)
    after = total.item()
    if before > after:
        return x + total
    return x - total


def compare_what_is_computed(x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    number = total.item() * 2 + 1
    total.neg_()
    if number > 0:
        return x + total
    return x - total


def count_up(x: torch.Tensor) -> torch.Tensor:
    total = x.sum().abs()
    for _ in range(4):
        number = total.item()
        total.add_(1.5)
        if number > 3:
            break
        x = torch.tanh(x + total)
    return x


def write_ints(x: torch.Tensor) -> torch.Tensor:
    best = x.flatten().argmax()
    number = best.item()
    best.fill_(7)
    if number > 3:
        return x + best
    return x - best


def decide_by_its_truth(x: torch.Tensor) -> torch.Tensor:
    flag = x.sum() > 0
    number = bool(flag)
    flag.logical_not_()
    if number:
        return x + flag
    return x - flag.to(x.dtype)


@pytest.mark.parametrize(
    "function",
    [
        add_to_what_was_read,
        write_a_view,
        write_what_it_is_a_view_of,
        compare_two,
        compare_what_is_computed,
        count_up,
        write_ints,
        decide_by_its_truth,
    ],
)
def test_a_branch_goes_by_what_was_read(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    generator = torch.Generator().manual_seed(0)
    compiled: Any = mica.compile(function)
    with torch.no_grad():
        for _ in range(60):
            x = torch.randn(2, 4, generator=generator)
            torch.testing.assert_close(compiled(x), function(x))
    told = mica.explain(compiled)
    assert told.hits >= 40
    assert told.captures <= 8

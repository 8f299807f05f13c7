"""Numbers that are computed of sizes and of data: means, counts, meters."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import mica

Program = Callable[[torch.Tensor], Any]
ROWS = (3, 5, 7, 9, 4, 6, 8, 3, 5, 11)


def _running() -> Program:
    world = SimpleNamespace(total=0.0, count=0)

    def program(x: torch.Tensor) -> Any:
        world.total += x.sum().item() * x.size(0)
        world.count += x.size(0)
        return world.total, world.count, world.total / world.count

    return program


def _accuracy() -> Program:
    world = SimpleNamespace(right=0, count=0)

    def program(x: torch.Tensor) -> Any:
        world.right += (x.argmax(1) == 1).sum().item()
        world.count += len(x)
        return 100.0 * world.right / world.count

    return program


def _meter() -> Program:
    class Meter:
        def __init__(self) -> None:
            self.sum, self.count, self.mean = 0.0, 0, 0.0

        def update(self, value: float, count: int) -> None:
            self.sum += value * count
            self.count += count
            self.mean = self.sum / self.count

    meter = Meter()

    def program(x: torch.Tensor) -> Any:
        loss = (x - 1).square().mean()
        meter.update(loss.item(), x.size(0))
        return loss, meter.mean

    return program


def _modulo() -> Program:
    def program(x: torch.Tensor) -> Any:
        rest = int(x.sum().item()) % x.shape[0]
        return x * rest, rest

    return program


def _branch() -> Program:
    def program(x: torch.Tensor) -> Any:
        mean = x.sum().item() / x.shape[0]
        return (x * 2, mean) if mean > 1 else (x - 1, mean)

    return program


def _bounds() -> Program:
    def program(x: torch.Tensor) -> Any:
        mean = max(x.sum().item() / x.shape[0], 0.9)
        return x * mean, int(mean * 100), min(len(x), x.sum().item())

    return program


def _text() -> Program:
    def program(x: torch.Tensor) -> Any:
        mean = x.sum().item() / x.shape[0]
        return f"{mean:.2f} of {len(x)}", x * mean

    return program


def _compare(make: Callable[[], Program]) -> int:
    eager, fast = make(), mica.compile(make(), exact=True)
    for rows in ROWS:
        x = torch.rand(rows, 2)
        got, wanted = fast(x), eager(x)
        if not isinstance(wanted, tuple):
            got, wanted = (got,), (wanted,)
        for one, other in zip(got, wanted, strict=True):
            assert type(one) is type(other)
            if isinstance(other, torch.Tensor):
                assert torch.equal(one, other)
            else:
                assert one == other
    return mica.explain(fast).captures


@pytest.mark.parametrize("make", [_running, _accuracy, _meter, _modulo])
def test_they_vary_with_both(make: Callable[[], Program]) -> None:
    assert _compare(make) <= 3


@pytest.mark.parametrize("make", [_branch, _bounds, _text])
def test_what_goes_by_them_is_right(make: Callable[[], Program]) -> None:
    _compare(make)


def test_numbers_that_are_made_of_each_other_take_no_time() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        number = x.sum().item()
        for _ in range(100):  # Each twice: 2**100 ways lead to the first.
            number = (number + number) / 2
        return x * 2 if number > 0 else x - x.shape[0]

    assert _compare(lambda: program) <= len(ROWS)

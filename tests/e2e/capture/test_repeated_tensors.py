"""Lists that repeat one tensor as often as sizes say, and are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica

ROWS = (5, 6, 7, 8, 9, 5, 12, 13, 14, 20, 11, 7, 6, 19, 4, 16)


@pytest.fixture(autouse=True)
def _any_budget() -> Any:
    with mica.options.set(capture_budget=1e6):
        yield


def by_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:1]] * x.size(0))


def by_half(x: torch.Tensor) -> torch.Tensor:
    rows = [x[:1]] * (x.size(0) // 2)
    return torch.cat(tensors=rows)


def by_third(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x] * (x.size(0) // 3), 1)


def by_difference(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[0]] * (x.size(0) - x.size(1)))


def by_part(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x] * int(((x.size(0) + 1) // 2) * 0.5))


def stacked(x: torch.Tensor) -> torch.Tensor:
    rows = [x[:1]] * (x.size(0) // 2)
    return torch.vstack(rows)


def at_most(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:1]] * min(x.size(0), 5))


@pytest.mark.parametrize(
    ("program", "captures"),
    [
        (by_rows, 2),
        (by_half, 2),
        (by_third, 5),
        (by_difference, 4),
        (by_part, 5),
        (stacked, 2),
        (at_most, 3),
    ],
)
def test_as_often_as_sizes_say(
    program: Callable[[torch.Tensor], torch.Tensor], captures: int
) -> None:
    compiled: Any = mica.compile(program)
    for rows in ROWS:
        # Some differ in both, but not by how much they differ.
        for columns in (2, 3, rows - 2) if program is by_difference else (3,):
            x = torch.randn(rows, columns)
            assert torch.equal(compiled(x), program(x))
    assert mica.explain(compiled).captures <= captures

"""Lists that several loops over sizes grow, and what looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica

ROWS = (5, 6, 8, 4, 9, 3, 7, 5, 12, 20)


@pytest.fixture(autouse=True)
def _any_budget() -> Any:
    with mica.options.set(capture_budget=1e6):
        yield


def grown(x: torch.Tensor, first: int) -> list[torch.Tensor]:
    rows: list[torch.Tensor] = []
    for i in range(first):
        rows.append(x[0] * i)
    for i in range(len(x)):
        rows.append(x[0] - i)
    return rows


def its_length(x: torch.Tensor) -> Any:
    rows = grown(x, len(x) // 8 + 1)
    return len(rows), torch.stack(rows[:2])


def a_copys_length(x: torch.Tensor) -> Any:
    rows = list(grown(x, len(x) // 8 + 1))
    return len(rows), torch.stack(rows[:2])


def after_one_round(x: torch.Tensor) -> Any:
    rows = grown(x, max(1, 2 - len(x)))
    return len(rows), rows[0] + 1


def of_three(x: torch.Tensor) -> Any:
    rows = grown(x, 1)
    for i in range(len(x)):
        rows.append(x[-1] * i)
    return rows[3] * 2, len(rows)


def as_a_number(x: torch.Tensor) -> Any:
    rows = grown(x, len(x) // 8 + 1)
    return torch.stack(rows) * len(rows)


def joined(x: torch.Tensor) -> Any:
    return torch.stack(grown(x, len(x) // 8 + 1))


@pytest.mark.parametrize(
    "program",
    [
        its_length,
        a_copys_length,
        after_one_round,
        of_three,
        as_a_number,
        joined,
    ],
)
def test_results(program: Callable[[torch.Tensor], Any]) -> None:
    compiled: Any = mica.compile(program)
    for rows in ROWS:
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), program(x))

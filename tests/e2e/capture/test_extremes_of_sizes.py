"""max() and min() of sizes and ints: one graph, whichever is the largest."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mica

HIDDEN = 4


@pytest.fixture(autouse=True)
def _any_budget() -> Any:
    with mica.options.set(capture_budget=1e6):
        yield


def _parts(draw: random.Random, count: int = 4) -> list[torch.Tensor]:
    return [torch.randn(draw.randint(2, 20), HIDDEN) for _ in range(count)]


def padded(parts: list[torch.Tensor]) -> torch.Tensor:
    most = max(part.size(0) for part in parts)
    padding = [(0, 0, 0, most - part.size(0)) for part in parts]
    pairs = zip(parts, padding, strict=True)
    return torch.stack([F.pad(part, pad) for part, pad in pairs])


def cut(parts: list[torch.Tensor]) -> torch.Tensor:
    least = min([len(part) for part in parts])
    return torch.stack([part[:least] for part in parts])


def of_arguments(parts: list[torch.Tensor]) -> torch.Tensor:
    a, b, c = parts
    return torch.zeros(max(len(a), len(b), len(c)), 3) + a.sum() * min(
        len(a), len(b)
    )


def at_most(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0][: min(8, len(parts[0]))] + max(1, len(parts[0]) // 3)


@pytest.mark.parametrize(
    ("program", "count", "captures"),
    [
        (padded, 4, 3),
        (padded, 8, 4),
        (cut, 3, 8),
        (of_arguments, 3, 4),
        (at_most, 1, 5),
    ],
)
def test_sizes(
    program: Callable[[Any], torch.Tensor], count: int, captures: int
) -> None:
    draw = random.Random(0)
    compiled: Any = mica.compile(program)
    for _ in range(60):
        parts = _parts(draw, count)
        torch.testing.assert_close(compiled(parts), program(parts))
    assert mica.explain(compiled).captures <= captures


def test_lengths_of_a_loop() -> None:
    cell = nn.GRUCell(HIDDEN, HIDDEN)

    def program(rows: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        h, ends = rows.new_zeros(3, HIDDEN), torch.tensor(lengths)
        for t in range(max(lengths)):
            h = torch.where((t < ends)[:, None], cell(rows[:, t], h), h)
        return h

    draw = random.Random(0)
    compiled: Any = mica.compile(program)
    for _ in range(60):
        lengths = [draw.randint(2, 20) for _ in range(3)]
        rows = torch.randn(3, 20, HIDDEN)
        torch.testing.assert_close(
            compiled(rows, lengths), program(rows, lengths)
        )
    assert mica.explain(compiled).captures <= 6


def returned(x: torch.Tensor, n: int) -> Any:
    rows = len(x)
    return x * 2, rows, n, max(rows, n), min(rows, n, 4), max(n, n + 1, rows)


def nested(x: torch.Tensor, n: int) -> Any:
    most = max(len(x), min(n, 500))
    return x + 1, [most, len(x)], {"n": n, "most": most}, max(most, n)


def compared(x: torch.Tensor, n: int) -> Any:
    rows = len(x)
    return x + (max(rows, n) is rows), max(rows, n) is n


def keyed(x: torch.Tensor, n: int) -> Any:
    return {max(len(x), n): x + 1}


def constant(x: torch.Tensor, n: int) -> Any:
    return x + 1, max(len(x), 400), min(n, 300), max(n, True)


def _shape(value: Any, seen: list[int]) -> Any:
    """What it holds, and which of its ints are one object."""
    if isinstance(value, (list, tuple)):
        return [_shape(one, seen) for one in value]
    if isinstance(value, dict):
        return [(k, _shape(one, seen)) for k, one in value.items()]
    if isinstance(value, torch.Tensor):
        return value.tolist()
    seen.append(id(value))
    return type(value), value, seen.index(id(value))


@pytest.mark.parametrize(
    "program", [returned, nested, compared, keyed, constant]
)
def test_which_object_it_is(program: Callable[..., Any]) -> None:
    draw = random.Random(0)
    compiled: Any = mica.compile(program)
    for _ in range(40):
        x = torch.randn(draw.choice((3, 5, 280, 301, 402)), 2)
        n = draw.choice((3, 4, 7, 270, 301, 402, 5000, 2**60))
        want, got = program(x, n), compiled(x, n)
        assert _shape((n, got), []) == _shape((n, want), [])

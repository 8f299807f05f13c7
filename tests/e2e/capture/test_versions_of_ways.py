"""Results of ways count the writes of the way that made them."""

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


def half_or(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if (a - b).sum() > 0:
        return a * 0.5
    return b


def written_on_one_way(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y + 1 if x.sum() > 0 else (y + 1).mul_(2)


def written_twice_or_once(x: torch.Tensor, y: torch.Tensor) -> Any:
    made = torch.zeros_like(x)
    if x.sum() > 0:
        out = (x * 2).add_(made).add_(1)
    else:
        out = torch.zeros_like(x).add_(y)
    out = out if y.sum() > 0 else -y
    return out, made


def written_before_the_fork(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    made = y.clone().mul_(0.5)
    return half_or(x, made)


def written_in_rounds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        y = half_or(x, y.clone().mul_(0.5))
    return y


def written_in_part(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        out = torch.empty_like(y)
        out[0] = y[1]
        out[1:] = x[:1]
        return out
    return x - y


PROGRAMS = (
    written_on_one_way,
    written_twice_or_once,
    written_before_the_fork,
    written_in_rounds,
    written_in_part,
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_counts_of_writes(program: Callable[..., Any]) -> None:
    compiled: Any = mica.compile(program)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(60):
            x, y = torch.randn(2, 2, 4, generator=generator)
            want, got = program(x.clone(), y.clone()), compiled(x, y)
            if isinstance(want, torch.Tensor):
                want, got = (want,), (got,)
            assert [t.tolist() for t in got] == [t.tolist() for t in want]
            assert [t._version for t in got] == [t._version for t in want]
    report = mica.explain(compiled)
    assert report.hits > 40
    assert any(graph.num_ways > 1 for graph in report.graphs)

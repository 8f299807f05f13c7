"""What draws random numbers draws eager's: the same numbers from torch's own
generator, which ends up in the same state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mica

Fn = Callable[..., Any]

DRAWS: dict[str, Fn] = {
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "dropout1d": lambda x: F.dropout1d(x[..., None], 0.3),
    "dropout_in_place": lambda x: F.dropout(x * 2, 0.3, inplace=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(
        x[..., None], 0.3, training=True
    ),
    "native_dropout": lambda x: torch.native_dropout(x, 0.3, True)[0],
    "native_dropout_p0": lambda x: torch.native_dropout(x, 0.0, True)[0],
    "normal": lambda x: x + torch.randn(5, 8) + torch.normal(x, 2.0),
    "permuted": lambda x: x[torch.randperm(5)],
    "rand_like": lambda x: x * torch.rand_like(x),
}


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def check(fn: Fn, make: Callable[[int], Any], calls: int = 4) -> Any:
    """Eager and compiled calls from equal seeds give equal bits."""
    compiled = mica.compile(fn)
    for i in range(calls):
        x = make(i)
        torch.manual_seed(i)
        want, state = fn(x), torch.get_rng_state()
        torch.manual_seed(i)
        got = compiled(x)
        assert torch.equal(got, want), f"call {i}"
        assert torch.equal(torch.get_rng_state(), state), f"call {i}"
    report = mica.explain(compiled)
    assert report.hits == calls - 1, str(report)
    return report


def numbers(i: int) -> torch.Tensor:
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(i))


@pytest.mark.parametrize("name", DRAWS)
def test_draws_eagers_numbers(name: str) -> None:
    check(DRAWS[name], numbers)


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout_of_a_module(p: float) -> None:
    torch.manual_seed(0)
    drop = nn.Dropout(p)
    check(lambda x: drop(torch.relu(x)) + drop(x), numbers)
    drop.eval()
    report = check(lambda x: drop(torch.relu(x)) + drop(x), numbers)
    assert all(not graph.opaque for graph in report.graphs)


def test_later_calls_draw_further_numbers() -> None:
    compiled = mica.compile(lambda x: F.dropout(x, 0.5))
    x = torch.ones(100)
    torch.manual_seed(0)
    first, second, third = compiled(x), compiled(x), compiled(x)
    torch.manual_seed(0)
    for got in (first, second, third):
        assert torch.equal(got, F.dropout(x, 0.5))
    assert not torch.equal(second, third)


def test_what_nobody_reads_is_drawn_too() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        return x + torch.rand(5, 8)

    check(fn, numbers)

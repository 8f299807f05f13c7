"""Sizes and numbers that C code folds, maps or moves."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import check, report
from torch import distributions, nn

import mica

Tensors = list[torch.Tensor]
_SIZES: dict[str, Callable[[Tensors], object]] = {
    "sum(map(len))": lambda xs: xs[0] * sum(map(len, xs)),
    "max(map(len))": lambda xs: xs[0] * max(map(len, xs)),
    "min(map(numel))": lambda xs: xs[0] * min(map(torch.numel, xs)),
    "map of a method": lambda xs: xs[0] * sum(map(torch.Tensor.numel, xs)),
    "map of a lambda": lambda xs: xs[0] * sum(map(lambda x: x.size(0), xs)),
    "list(map)": lambda xs: torch.cat(xs).split(list(map(len, xs)))[1] + 1,
    "*map": lambda xs: torch.zeros(*map(len, xs)) + xs[0].sum(),
    "zip(map)": lambda xs: [
        x.sum(0) / n for x, n in zip(xs, map(len, xs), strict=True)
    ],
    "for in map": lambda xs: [xs[0].sum() / n for n in map(len, xs)],
    "reduce by +": lambda xs: (
        xs[0] * functools.reduce(operator.add, [len(x) for x in xs])
    ),
    "reduce by *": lambda xs: xs[0].reshape(
        functools.reduce(operator.mul, xs[0].shape)
    ),
    "reduce by a lambda": lambda xs: (
        xs[0] * functools.reduce(lambda a, b: a + b, map(len, xs), 1)
    ),
    "reduce of tensors": lambda xs: functools.reduce(
        torch.add, [x.sum() for x in xs]
    ),
    "math.prod": lambda xs: xs[0].reshape(math.prod(xs[0].shape)) + 1,
    "math.prod from 2 on": lambda xs: xs[0] * math.prod(xs[0].shape, start=2),
    "sum of a shape": lambda xs: xs[0] * sum(xs[0].shape),
    "largest of a shape": lambda xs: xs[0] * max(xs[0].shape),
    "torch.Size of a shape": lambda xs: torch.zeros(torch.Size(xs[0].shape)),
    "torch.Size of a tuple": lambda xs: xs[0].expand(
        torch.Size((2, *xs[0].shape))
    ),
    "torch.Size of a list": lambda xs: torch.ones(torch.Size([len(xs[0]), 2])),
}


@pytest.mark.parametrize("name", _SIZES)
def test_sizes_are_followed(name: str) -> None:
    calls = [
        ([torch.randn(n, 3), torch.randn(n + 1, 3)],) for n in (4, 5, 6, 9, 4)
    ]
    compiled = check(_SIZES[name], *calls)
    assert report(compiled).hits >= 2, str(report(compiled))
    assert report(compiled).captures <= 3


_NUMBERS: dict[str, Callable[[torch.Tensor, list[float]], object]] = {
    "math.prod": lambda a, rates: a * math.prod(rates),
    "reduce": lambda a, rates: a * functools.reduce(operator.mul, rates, 1.5),
    "reduce by a lambda": lambda a, rates: (
        a * functools.reduce(lambda x, y: x - y, rates)
    ),
}


@pytest.mark.parametrize("name", _NUMBERS)
def test_numbers_are_followed(name: str) -> None:
    calls = [
        (torch.randn(3), [number * 0.5 - 1, number + 0.25, 3.0])
        for number in range(8)
    ]
    compiled = check(_NUMBERS[name], *calls)
    assert report(compiled).captures <= 3


@pytest.mark.parametrize(
    "fold",
    [
        lambda a: functools.reduce(operator.add, [], a),
        lambda a: functools.reduce(operator.add, [a]),
        lambda a: math.prod([]) * a,
        lambda a: [*map(len, [[1], [1, 2]], strict_=a)],
        lambda a: functools.reduce(operator.add, []),
        lambda a: functools.reduce(operator.add, a.shape[:0]),
        lambda a: math.prod([*a.shape, "a"], start=1.5),
        lambda a: [*map(len, [1, 2])],
        lambda a: [*map(a.size, [0, 1, 7])],
    ],
)
def test_what_is_empty_or_raises_is_eagers(fold: Any) -> None:
    def outcome(fn: Any, *args: torch.Tensor) -> object:
        try:
            return fn(*args)
        except Exception as error:
            return type(error), str(error)

    compiled = mica.compile(fold)
    for rows in (2, 3, 4, 2):
        a = torch.randn(rows, 3)
        got, want = outcome(compiled, a), outcome(fold, a)
        assert type(got) is type(want)
        if isinstance(want, torch.Tensor):
            assert torch.equal(got, want)
        else:
            assert got == want


def test_a_map_stays_a_map() -> None:
    compiled = mica.compile(lambda a: (map(len, [a, a]), a * 2)[0])
    for rows in (2, 3, 4):
        made = compiled(torch.randn(rows, 3))
        assert type(made) is map
        assert list(made) == [rows, rows]


def test_distributions_are_drawn_from_at_any_size() -> None:
    def step(a: torch.Tensor) -> object:
        made = distributions.Normal(a, a.exp())
        spread = distributions.Uniform(a, a + 1)
        return made.rsample(), made.sample((2,)), spread.rsample(a.shape[:1])

    compiled = mica.compile(step, exact=True)
    for rows in (4, 5, 6, 9, 4):
        a = torch.randn(rows, 3)
        torch.manual_seed(rows)
        want = step(a)
        torch.manual_seed(rows)
        assert all(map(torch.equal, compiled(a), want))
    assert report(compiled).hits == 3


def test_derivatives_in_a_loss_are_trained_at_any_size() -> None:
    """A physics-informed network, by autograd.grad() with given gradients."""

    def make() -> tuple[nn.Module, Callable[[torch.Tensor], torch.Tensor]]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        def slope(of: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            (made,) = torch.autograd.grad(
                of, by, torch.ones_like(of), create_graph=True
            )
            return made

        def step(points: torch.Tensor) -> torch.Tensor:
            points = points.clone().requires_grad_()
            u = net(points)
            by_both = slope(u, points)
            by_x_twice = slope(by_both[:, 0:1], points)[:, 0:1]
            loss = (by_both[:, 1:2] + u - by_x_twice).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return net, step

    (net, step), (plain, eager) = make(), make()
    compiled = mica.compile(step, exact=True)
    with torch.enable_grad():
        for rows in (4, 5, 6, 7, 8, 12, 4):
            points = torch.rand(rows, 2)
            assert torch.equal(compiled(points), eager(points))
    for got, want in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(got, want)
    assert report(compiled).captures <= 4

"""Gradients through loops over ranges that begin, end and step anyhow."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from e2e.capture.agreement_of_calls import report
from e2e.capture.later_passes import grad_is_on
from torch import nn

import mica

_grad = pytest.fixture(autouse=True)(grad_is_on)

_RANGES: dict[str, Callable[[int], Iterable[int]]] = {
    "all": range,
    "all but the first": lambda n: range(1, n),
    "all but the last": lambda n: range(n - 1),
    "in between": lambda n: range(2, n - 1),
    "from the last on": lambda n: range(n - 1, -1, -1),
    "reversed": lambda n: reversed(range(n)),
    "reversed, but the first": lambda n: reversed(range(1, n)),
    "down to the second": lambda n: range(n - 2, 0, -1),
    "every other": lambda n: range(0, n, 2),
    "every other, in between": lambda n: range(1, n - 1, 2),
    "every other, down": lambda n: range(n - 1, 0, -2),
    "every third": lambda n: range(0, n, 3),
    "below zero": lambda n: range(-n, 0),
    "below zero, down": lambda n: range(-1, -n - 1, -1),
}
_ROUNDS: dict[str, Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]]
_ROUNDS = {
    "adds": lambda h, x, t: torch.tanh(h + x[:, t]),
    "weighs": lambda h, x, t: torch.tanh(h) * x[:, t] + x[:, t].sum(),
    "cuts": lambda h, x, t: torch.sin(h + x.select(1, t)),
}


@pytest.mark.parametrize("name", _ROUNDS)
@pytest.mark.parametrize("over", _RANGES)
def test_gradients_are_eagers_at_any_length(over: str, name: str) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 4, dtype=torch.float64)

    def step(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = layer(a)
        h = x[:, 0]
        for t in _RANGES[over](x.shape[1]):
            h = _ROUNDS[name](h, x, t)
        loss = h.square().sum()
        gradients = torch.autograd.grad(loss, [*layer.parameters()])
        return loss.detach(), *gradients

    compiled = mica.compile(step, exact=True)
    for length in (16, 20, 22, 17, 19, 25, 31, 16, 13):
        a = torch.randn(3, length, 4, dtype=torch.float64)
        got, want = compiled(a), step(a)
        for x, y in zip(got, want, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
    # An odd and an even length may be two graphs where it steps.
    assert report(compiled).hits >= 4, str(report(compiled))


class _Crf(nn.Module):
    """A conditional random field: the loss of marked sequences."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.steps = nn.Parameter(torch.randn(tags, tags))
        self.first = nn.Parameter(torch.randn(tags))

    def all_ways(
        self, scores: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        every = self.first + scores[:, 0]
        for t in range(1, scores.shape[1]):
            moved = every[:, :, None] + self.steps + scores[:, t, None]
            every = torch.where(mask[:, t, None], moved.logsumexp(1), every)
        return every.logsumexp(1)

    def own_way(
        self, scores: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        rows = torch.arange(scores.shape[0])
        own = self.first[tags[:, 0]] + scores[rows, 0, tags[:, 0]]
        for t in range(1, scores.shape[1]):
            gained = self.steps[tags[:, t - 1], tags[:, t]]
            own = own + (gained + scores[rows, t, tags[:, t]]) * mask[:, t]
        return own

    def forward(
        self, scores: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        every = self.all_ways(scores, mask)
        return (every - self.own_way(scores, tags, mask)).mean()


def test_a_random_field_is_trained_on_any_length() -> None:
    def make() -> tuple[nn.ModuleList, Callable[..., torch.Tensor]]:
        torch.manual_seed(0)
        net = nn.ModuleList([nn.Linear(5, 4), _Crf(4)])
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(
            x: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor
        ) -> torch.Tensor:
            optimizer.zero_grad()
            loss = net[1](net[0](x), tags, mask)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return net, step

    (net, step), (plain, eager) = make(), make()
    compiled = mica.compile(step, exact=True)
    for length in (7, 8, 9, 12, 10, 6, 8, 15):
        x, tags = torch.randn(3, length, 5), torch.randint(4, (3, length))
        lengths = torch.randint(2, length + 1, (3, 1))
        mask = torch.arange(length) < lengths
        torch.testing.assert_close(
            compiled(x, tags, mask), eager(x, tags, mask)
        )
    for got, want in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(got, want)
    assert report(compiled).captures <= 4, str(report(compiled))

"""Loops of which all rounds are joined, and the last one is a result, too."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.later_passes import grad_is_on
from e2e.capture.looped_programs import make_rows
from torch import nn

import mica

_grad = pytest.fixture(autouse=True)(grad_is_on)

LENGTHS = (6, 9, 7, 12, 10, 5, 8, 20)


class _Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> Any:
        h, states = x.new_zeros(x.shape[1:]), []
        for row in x:
            h = self.cell(row, h)
            states.append(self.kept(h))
        return self.joined(states), h

    def kept(self, h: torch.Tensor) -> torch.Tensor:
        return h

    def joined(self, states: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(states)


class _Concatenated(_Gru):
    def kept(self, h: torch.Tensor) -> torch.Tensor:
        return h.unsqueeze(1)

    def joined(self, states: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat(states, 1)


class _Read(_Gru):
    """What lies behind the states saves tensors, too."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(8, 5, dtype=torch.float64)

    def joined(self, states: list[torch.Tensor]) -> torch.Tensor:
        return torch.tanh(self.read(torch.stack(states, 1)))


class _Summed(_Gru):
    def joined(self, states: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(states, -1).sum(-1)


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(8, 8, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> Any:
        h = c = x.new_zeros(x.shape[1:])
        states = []
        for t in range(x.shape[0]):
            h, c = self.cell(x[t], (h, c))
            states.append(h)
        return torch.stack(states), h, c


class _Simple(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> Any:
        h, states = x.new_zeros(x.shape[1:]), []
        for t in range(x.shape[0]):
            h = torch.tanh(self.linear(x[t]) + h)
            states += [h]
        return torch.stack(states), h


MODELS: list[type[nn.Module]] = [
    _Gru,
    _Concatenated,
    _Read,
    _Summed,
    _Lstm,
    _Simple,
]


def _weights(results: Any) -> list[torch.Tensor]:
    return [torch.linspace(0.5, 1.5, r.numel()).view_as(r) for r in results]


def _of(results: Any, which: slice) -> torch.Tensor:
    parts = zip(results[which], _weights(results)[which], strict=True)
    return sum((r * w).sum() for r, w in parts)  # type: ignore[return-value]


def _all(model: nn.Module, results: Any) -> list[Any]:
    return list(torch.autograd.grad(_of(results, slice(None)), _own(model)))


def _states(model: nn.Module, results: Any) -> list[Any]:
    return list(torch.autograd.grad(_of(results, slice(0, 1)), _own(model)))


def _last(model: nn.Module, results: Any) -> list[Any]:
    loss = _of(results, slice(1, 2))
    return list(torch.autograd.grad(loss, _own(model), allow_unused=True))


def _of_the_last(model: nn.Module, results: Any) -> list[Any]:
    loss = _of(results, slice(0, 1))
    return list(torch.autograd.grad(loss, [*results[1:], *_own(model)]))


def _of_the_last_alone(model: nn.Module, results: Any) -> list[Any]:
    loss = _of(results, slice(None))
    return list(torch.autograd.grad(loss, results[1:]))


def _hooked(model: nn.Module, results: Any) -> list[Any]:
    seen: list[Any] = []
    for result in results:
        result.register_hook(lambda g: seen.append(g.clone()))
    results[1].retain_grad()
    _of(results, slice(None)).backward()
    return [*seen, results[1].grad, *(p.grad for p in _own(model))]


def _changed_by_a_hook(model: nn.Module, results: Any) -> list[Any]:
    results[1].register_hook(lambda g: g * 3)
    results[0].register_hook(lambda g: g - 1)
    _of(results, slice(None)).backward()
    return [p.grad for p in _own(model)]


def _twice(model: nn.Module, results: Any) -> list[Any]:
    _of(results, slice(0, 1)).backward(retain_graph=True)
    _of(results, slice(1, 2)).backward()
    told = [p.grad for p in _own(model)]
    with pytest.raises(RuntimeError, match="second time"):
        _of(results, slice(0, 1)).backward()
    return told


def _own(model: nn.Module) -> list[nn.Parameter]:
    return list(model.parameters())


USES = (
    _all,
    _states,
    _last,
    _of_the_last,
    _of_the_last_alone,
    _hooked,
    _changed_by_a_hook,
    _twice,
)


# What torch.cat() made torch itself keeps when a second pass fails.
PAIRS = [
    (kind, use)
    for kind in MODELS
    for use in USES
    if (kind, use) != (_Concatenated, _twice)
]


@pytest.mark.parametrize(("kind", "use"), PAIRS)
def test_gradients(
    kind: type[nn.Module], use: Callable[[nn.Module, Any], list[Any]]
) -> None:
    torch.manual_seed(0)
    model = kind()
    eager = copy.deepcopy(model)
    fast: Any = mica.compile(model)
    for length in LENGTHS:
        rows = make_rows(length)
        for one in (model, eager):
            one.zero_grad()
        got, want = use(model, fast(rows)), use(eager, eager(rows))
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-8)
    told = mica.explain(fast)
    assert told.captures <= 4
    assert told.eager_calls == 0

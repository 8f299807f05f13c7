"""Backward passes of loops that go as often as sizes say."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from e2e.capture.later_passes import grad_is_on
from e2e.capture.looped_programs import (
    FORMS,
    LONGER_FORMS,
    All,
    BothWays,
    FromNone,
    Last,
    LayerByLayer,
    Layers,
    ListByList,
    OwnList,
    make_rows,
)
from torch import nn

import mica

_grad = pytest.fixture(autouse=True)(grad_is_on)

# Fewer than five rounds don't tell what a round of the backward pass is.
LENGTHS = (5, 8, 6, 12, 4, 3, 2, 5, 7, 20)


class _Attended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8, dtype=torch.float64)
        self.query = nn.Linear(8, 8, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[1:])
        for _ in range(x.shape[0]):
            weights = torch.softmax((x * self.query(h)).sum(-1), 0)
            h = self.cell((weights[..., None] * x).sum(0), h)
        return h


class _Spelt(nn.Module):
    """A model of characters; `first` embeds all of them at once."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first = first
        self.embedding = nn.Embedding(10, 8, dtype=torch.float64)
        self.cell = nn.LSTMCell(8, 8, dtype=torch.float64)
        self.out = nn.Linear(8, 10, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x[:, :, 0].abs().mul(3).long().clamp(max=9)
        embedded = self.embedding(rows) if self.first else None
        h = c = torch.zeros(x.shape[1], 8, dtype=torch.float64)
        outs = []
        for t in range(rows.shape[0]):
            row = self.embedding(rows[t]) if embedded is None else embedded[t]
            h, c = self.cell(row, (h, c))
            outs.append(self.out(h))
        return torch.stack(outs)


class _TwoCells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.GRUCell(8, 8, dtype=torch.float64)
        self.b = nn.RNNCell(8, 8, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = g = x.new_zeros(x.shape[1:])
        outs = []
        for row in x:
            h = self.a(row, h)
            g = self.b(h, g)
            outs.append(g)
        return torch.stack(outs).mean(0)


def _gradients(
    module: nn.Module, result: torch.Tensor, *inputs: torch.Tensor
) -> Sequence[torch.Tensor | None]:
    of = [*module.parameters(), *inputs]
    return torch.autograd.grad(result.square().sum(), of, allow_unused=True)


def _captures(module: nn.Module, given_has_gradient: bool) -> int:
    """Compares gradients at several lengths; returns the captures."""
    eager = copy.deepcopy(module)
    fast = mica.compile(module)
    for length in LENGTHS:
        rows = make_rows(length)
        inputs = [rows.clone().requires_grad_(given_has_gradient) for _ in "ab"]
        of = inputs if given_has_gradient else []
        got, wanted = fast(inputs[0]), eager(inputs[1])
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)
        both = zip(
            _gradients(module, got, *of[:1]),
            _gradients(eager, wanted, *of[1:]),
            strict=True,
        )
        for one, other in both:
            assert (one is None) == (other is None)
            if other is not None:
                torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)
    return mica.explain(fast).captures


MODELS: list[Callable[[], nn.Module]] = [
    Last,
    All,
    Layers,
    _Attended,
    _TwoCells,
    lambda: _Spelt(False),
    lambda: _Spelt(True),
]


@pytest.mark.parametrize("make", MODELS)
def test_a_recurrent_model_is_trained_on_few_captures(
    make: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    # Lengths of up to four rounds may be graphs of their own.
    assert _captures(make(), False) <= 5


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2}, {"bidirectional": True}]
)
def test_torchs_own_layers_are(kind: type[nn.Module], options: dict) -> None:
    class Outputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(8, 5, dtype=torch.float64, **options)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0] * 2

    torch.manual_seed(0)
    assert _captures(Outputs(), False) <= 5


class _Function(nn.Module):
    def __init__(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, dtype=torch.float64))
        self.fn = fn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fn(torch.tanh(x * self.weight))


@pytest.mark.parametrize(
    "make",
    [*MODELS, FromNone, BothWays, OwnList, LayerByLayer],
)
def test_gradients_of_what_models_are_given(
    make: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    _captures(make(), True)


def test_gradients_of_layers_over_lists() -> None:
    torch.manual_seed(0)
    model = ListByList()
    fast = mica.compile(model)
    for length in (9, 12, 8, 16, 10, 20, 7, 30):
        rows = make_rows(length)
        found = []
        for one in (fast, model):
            model.zero_grad()
            one(rows).square().mean().backward()
            found.append([p.grad.clone() for p in model.parameters()])
        torch.testing.assert_close(*found, rtol=1e-8, atol=1e-8)
    assert mica.explain(fast).captures <= 3


@pytest.mark.parametrize(
    "fn",
    [*FORMS, *LONGER_FORMS],
    ids=lambda fn: fn.__name__,
)
def test_gradients_of_forms_of_loops(
    fn: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    _captures(_Function(fn), False)


@pytest.mark.parametrize("make", MODELS)
def test_whole_steps_are_captured_a_few_times(
    make: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    models = [make()]
    models.append(copy.deepcopy(models[0]))
    steps = []
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: torch.Tensor, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        steps.append(step)
    fast = mica.compile(steps[0])
    for length in LENGTHS:
        rows = make_rows(length)
        torch.testing.assert_close(fast(rows), steps[1](rows))
    assert mica.explain(fast).captures <= 6
    for one, other in zip(
        models[0].parameters(), models[1].parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)

"""pad_sequence() of tensors whose lengths vary: one graph for all."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

import mica


@pytest.fixture(autouse=True)
def _any_budget() -> Any:
    with mica.options.set(capture_budget=1e6):
        yield


def rows_first(parts: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(parts)


def batch_first(parts: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(parts, batch_first=True, padding_value=-1.0)


def computed(parts: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(tuple(torch.tanh(part) for part in parts), True).sum(1)


def whole_numbers(parts: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence([part[:, 0].long() for part in parts], True, 2.7)


def masked(parts: list[torch.Tensor]) -> torch.Tensor:
    padded = pad_sequence(parts, batch_first=True)
    lengths = torch.tensor([len(part) for part in parts])
    mask = torch.arange(padded.size(1)) < lengths[:, None]
    return (padded * mask[..., None]).sum(1) / lengths[:, None]


def on_the_left(parts: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(parts, padding_side="left")


@pytest.mark.parametrize(
    ("program", "captures"),
    [
        (rows_first, 4),
        (batch_first, 3),
        (computed, 3),
        (whole_numbers, 3),
        (masked, 3),
        (on_the_left, 30),
    ],
)
def test_lengths(program: Callable[..., torch.Tensor], captures: int) -> None:
    draw = random.Random(0)
    compiled: Any = mica.compile(program)
    for _ in range(30):
        parts = [torch.randn(draw.randint(2, 15), 4) for _ in range(4)]
        want, got = program(parts), compiled(parts)
        torch.testing.assert_close(got, want)
        assert got._version == want._version
        assert got.stride() == want.stride()
    assert mica.explain(compiled).captures <= captures


def test_gradients() -> None:
    linear = nn.Linear(4, 3)

    def program(parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.tanh(linear(pad_sequence(parts, batch_first=True)))

    draw = random.Random(0)
    compiled: Any = mica.compile(program)
    with torch.enable_grad():
        for given in [False] * 12 + [True] * 4:
            parts = [torch.randn(draw.randint(3, 9), 4) for _ in range(3)]
            found = []
            for call in (program, compiled):
                own = [p.clone().requires_grad_(given) for p in parts]
                linear.zero_grad()
                result = call(own)
                result.square().sum().backward()
                grads = [p.grad for p in (*linear.parameters(), *own)]
                found.append([result.detach(), *grads])
            for want, got in zip(*found, strict=True):
                assert (want is None) == (got is None)
                if want is not None:
                    torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [torch.ones(3, 4), torch.ones(2, 3)],
        [torch.tensor(1.0)],
        [torch.ones(2), 3],
    ],
)
def test_what_isnt_padded_raises_as_in_eager(parts: list[Any]) -> None:
    def outcome(call: Callable[..., Any]) -> Any:
        try:
            return call(parts)
        except Exception as error:
            return type(error), str(error)

    compiled: Any = mica.compile(rows_first)
    for _ in range(2):
        assert outcome(compiled) == outcome(rows_first)

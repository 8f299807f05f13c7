"""Hooks on leaves behind results: called in eager's order."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mica


@pytest.fixture(autouse=True)
def _grad(_no_grad: None) -> Iterator[None]:
    with torch.enable_grad():
        yield


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 3),
        nn.LayerNorm(3),
        nn.Tanh(),
        nn.Linear(3, 3),
        nn.PReLU(3),
        nn.Linear(3, 1),
    )


def on_tensors(model: nn.Module, called: list[Any]) -> None:
    def note(name: str) -> Callable[[Tensor], None]:
        return lambda gradient: called.append((name, gradient.norm().item()))

    for name, parameter in model.named_parameters():
        parameter.register_hook(note(name))


def after_accumulating(model: nn.Module, called: list[Any]) -> None:
    def note(name: str) -> Callable[[Tensor], None]:
        return lambda leaf: called.append((name, leaf.grad.norm().item()))

    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(note(name))


def on_one(model: nn.Module, called: list[Any]) -> None:
    others = [weakref.ref(parameter) for parameter in model.parameters()]
    model[0].weight.register_hook(
        lambda _: called.append([other().grad is None for other in others])
    )


def calls(model: nn.Module, set_up: Callable[..., None], fast: bool) -> Any:
    called: list[Any] = []
    run = mica.compile(model, exact=True) if fast else model
    for i in range(5):
        if i == 2:
            set_up(model, called)
        model.zero_grad()
        run(torch.ones(2, 2) * (i + 1)).sum().backward()
    if fast:
        assert mica.explain(run).hits == 4
    return called


@pytest.mark.parametrize("set_up", [on_tensors, after_accumulating, on_one])
def test_hooks_are_called_in_eagers_order(set_up: Callable[..., None]) -> None:
    eager = calls(net(), set_up, fast=False)
    assert eager
    assert calls(net(), set_up, fast=True) == eager


@pytest.mark.parametrize("set_up", [on_tensors, after_accumulating])
def test_several_results_keep_the_order(set_up: Callable[..., None]) -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.a, self.b = net(), nn.Linear(1, 2), nn.Linear(1, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.body(x)
            return self.a(h), self.b(h)

    def hooks_of(fast: bool) -> list[Any]:
        torch.manual_seed(1)
        model, called = Heads(), list[Any]()
        set_up(model, called)
        run = mica.compile(model, exact=True) if fast else model
        for i in range(4):
            model.zero_grad()
            a, b = run(torch.ones(2, 2) * (i + 1))
            (a.sum() + b.sum()).backward()
        return called

    assert hooks_of(fast=True) == hooks_of(fast=False)


def test_a_leaf_that_is_used_twice_has_its_turn_when_all_has_arrived() -> None:
    def hooks_of(fast: bool) -> list[Any]:
        called: list[str] = []
        a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
        for name, leaf in {"a": a, "b": b, "c": c}.items():
            leaf.register_hook(lambda _, name=name: called.append(name))

        def f(x: Tensor) -> Tensor:
            return ((a * x + b) * c + a).sum()

        run = mica.compile(f) if fast else f
        for _ in range(3):
            run(torch.ones(2)).backward()
        return called

    assert hooks_of(fast=True) == hooks_of(fast=False)

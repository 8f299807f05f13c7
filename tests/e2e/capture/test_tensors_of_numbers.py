"""Tensors that a program makes of numbers that vary: one record serves them."""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica

Maker = Callable[[float], torch.Tensor]

MAKERS: dict[str, Maker] = {
    "tensor": torch.tensor,
    "as_tensor": torch.as_tensor,
    "asarray": torch.asarray,
    "in float64": lambda v: torch.as_tensor(v, dtype=torch.float64),
    "by its name": lambda v: torch.tensor(data=[v], dtype=torch.float64),
    "a list": lambda v: torch.tensor([v, 1.0, -v]),
    "a list with an int": lambda v: torch.as_tensor([v, 3]),
    "rows": lambda v: torch.tensor([[v, 1.0, 0.0], [2.0, v * v, -0.0]]),
    "a tuple": lambda v: torch.as_tensor((v, v), dtype=torch.float32),
    "ints": lambda v: torch.tensor([int(v * 1000), 3]),
    "one int": lambda v: torch.tensor(int(v * 1000)),
    "a class": lambda v: torch.Tensor([v, 2.0]),
    "another class": lambda v: torch.FloatTensor([v]),
    "as another tensor": lambda v: torch.zeros(1).new_tensor([v, 2.0]),
    "an expression for each": lambda v: torch.tensor([v * i for i in range(4)]),
}
RATES = [0.5, 0.25, 0.3, -0.1, 2.0, 0.7]


def _compare(program: Any, states: list[Any], least_hits: int) -> None:
    eager, own = states
    fast: Any = mica.compile(lambda: program(own))
    for rate in RATES:
        eager.rate = own.rate = rate
        want, got = program(eager), fast()
        assert want.dtype == got.dtype
        assert want.stride() == got.stride()
        assert torch.equal(want, got)
        assert torch.equal(torch.signbit(want), torch.signbit(got))
    assert mica.explain(fast).hits >= least_hits


@pytest.mark.parametrize("name", MAKERS)
def test_of_a_number_of_the_state(name):
    make = MAKERS[name]
    states = [types.SimpleNamespace(rate=0.0) for _ in range(2)]
    _compare(lambda s: make(s.rate / 2), states, len(RATES) - 2)


@pytest.mark.parametrize("name", MAKERS)
def test_of_a_number_read_from_a_tensor(name):
    make = MAKERS[name]

    def program(state: Any) -> torch.Tensor:
        state.count += 1
        return make(state.count.item() / 20) * 1

    states = [types.SimpleNamespace(count=torch.zeros(())) for _ in range(2)]
    _compare(program, states, len(RATES) - 1)


def test_of_a_number_that_is_drawn():
    def program(a: torch.Tensor) -> torch.Tensor:
        return a + torch.tensor([[1.0], [random.random()]])

    fast: Any = mica.compile(program)
    a = torch.ones(2, 3)
    for seed in range(6):
        random.seed(seed)
        want, state = program(a), random.getstate()
        random.seed(seed)
        assert torch.equal(want, fast(a))
        assert random.getstate() == state
    assert mica.explain(fast).hits == 5


def test_of_a_list_of_the_state_into_which_a_number_went():
    # Its other items may change as well.
    def program(state: Any) -> torch.Tensor:
        state.items[0] = state.rate * 2
        return torch.tensor(state.items)

    states = [
        types.SimpleNamespace(rate=0.0, items=[0.0, 1.0]) for _ in range(2)
    ]
    fast: Any = mica.compile(lambda: program(states[1]))
    for i, rate in enumerate(RATES):
        for state in states:
            state.rate, state.items[1] = rate, float(i // 2)
        assert torch.equal(program(states[0]), fast())
        assert states[0].items == states[1].items


@pytest.mark.parametrize("value", [2.5e38, 1e39, float("inf"), float("nan")])
def test_of_a_number_that_float32_has_no_room_for(value):
    state = types.SimpleNamespace(rate=1.0)
    fast: Any = mica.compile(lambda: torch.tensor([state.rate, 1.0]))
    for state.rate in (0.5, 0.25, 0.125, value, 2.0):
        want = torch.tensor([state.rate, 1.0])
        assert torch.equal(want.isnan(), (got := fast()).isnan())
        assert torch.equal(want.nan_to_num(), got.nan_to_num())


def test_what_asgd_keeps_in_tensors_costs_no_record_a_rate():
    def make() -> tuple[Any, Any, Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.ASGD(model.parameters(), lr=0.1)
        rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, model, rates

    eager, model, rates = make()
    step, own, own_rates = make()
    fast: Any = mica.compile(step)
    with torch.enable_grad():
        for _ in range(10):
            x = torch.randn(8, 4)
            assert torch.allclose(eager(x), fast(x), rtol=1e-5)
            rates.step()
            own_rates.step()
    assert torch.allclose(model.weight, own.weight, rtol=1e-5)
    assert mica.explain(fast).hits >= 6

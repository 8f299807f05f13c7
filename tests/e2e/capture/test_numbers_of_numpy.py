"""Functions of numpy's of numbers that vary: what they give is followed."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture import two_worlds
from e2e.capture.two_worlds import World, with_grad
from torch import nn

grad = pytest.fixture(autouse=True)(with_grad)
# Where eager's very bits are asked for, they aren't followed.
check = functools.partial(two_worlds.check, exact=False)

# Of one number; those of two are told which is which.
FUNCTIONS: dict[str, Callable[[float], Any]] = {
    "cos": lambda a: 0.5 * (1 + np.cos(np.pi * a / 20)),
    "sin": lambda a: np.sin(a),
    "exp": lambda a: 2.0 / (1.0 + np.exp(-10 * a)) - 1,
    "log": lambda a: np.log(abs(a) + 1),
    "log10": lambda a: -10 * np.log10(a * a + 0.5),
    "log2": lambda a: np.log2(a * a + 0.5),
    "sqrt": lambda a: np.sqrt(1 + a * a),
    "tanh": lambda a: np.tanh(a),
    "abs": lambda a: np.abs(a),
    "negative": lambda a: np.negative(a) - a,
    "add": lambda a: np.add(a, 1.5),
    "subtract": lambda a: np.subtract(1.5, a),
    "multiply": lambda a: np.multiply(np.exp(-a), a),
    "divide": lambda a: np.divide(1.0, np.exp(a)),
    "power": lambda a: np.power(np.exp(-a), 2.0),
}
# Of what such a function gave.
USES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda n: n,
    "an int beside it": lambda n: 2 * n + n * 3,
    "a float beside it": lambda n: 0.5 - n - 0.25,
    "two of it": lambda n: n / (n + 1),
    "a power": lambda n: n**2 + 0.9**n,
    "its negative": lambda n: -n,
    "without its sign": lambda n: abs(n),
    "a comparison": lambda n: 1 if n > 0.6 else 2,
    "a comparison with it": lambda n: 0.3 < n,
    "the same": lambda n: (n == 1.0, n != n),
    "truth": lambda n: 1 if n else 2,
    "a bool": lambda n: bool(n),
    "no number": lambda n: bool(np.isnan(n)),
    "of math's": lambda n: math.exp(-n) + math.cos(n),
    "a float": lambda n: float(n),
    "an int": lambda n: int(n * 0),
    "rounded": lambda n: round(n, 1),
    "a remainder": lambda n: n % 0.5,
    "rounded down": lambda n: n // 0.5,
    "the larger": lambda n: max(n, 0.5),
    "the smaller": lambda n: min(n, 0.5, 0.7),
    "a sum": lambda n: sum([n, n, 1.0]),
    "a text": lambda n: f"{n:.1f}",
    "a text of all": lambda n: str(n)[:12],
    "a representation": lambda n: repr(round(n, 1)),
    "a part": lambda n: n.real,
    "an item": lambda n: n.item(),
    "a type": lambda n: (type(n).__name__, isinstance(n, float)),
    "a list": lambda n: [n, [n]],
    "a tuple": lambda n: (n, 1),
    "a dict": lambda n: {"n": n},
    "an array": lambda n: float(np.array([n, 1.0]).sum()),
    "of single precision": lambda n: float(np.float32(n)),
    "an index": lambda n: [5, 6, 7][int(n > 0.5)],
    "a key": lambda n: {round(float(n), 1): 1},
}
TENSORS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "times": lambda n, x: x * n,
    "times from the left": lambda n, x: n * x,
    "plus": lambda n, x: n + x - n,
    "over": lambda n, x: x / n + n / (x + 9),
    "a power": lambda n, x: (x * x + 1) ** n,
    "an argument": lambda n, x: torch.add(x, x, alpha=n),
    "filled": lambda n, x: torch.full((2,), n),
    "filled in place": lambda n, x: x.clone().fill_(n),
    "clamped": lambda n, x: x.clamp(-n, n),
    "compared": lambda n, x: (x > n).sum(),
    "a tensor": lambda n, x: torch.tensor(n),
    "a tensor of many": lambda n, x: torch.tensor([n, 1.0]),
    "an item": lambda n, x: x.clone().index_put_((torch.tensor(0),), x[0] * n),
    "set": lambda n, x: x.clone().__setitem__(0, n),
    "in double": lambda n, x: x.double() * n,
    "of ints": lambda n, x: torch.arange(3) * n,
    "mixed": lambda n, x: torch.lerp(x, x * 2, n),
}
NUMBERS = (0.5, 1.5, 0.25, 0.75, 2.0, 1.0, 3.0, 0.125, 1.75)
ODD = (0.0, -1.0, math.inf, -math.inf, math.nan, 1e200, -0.0, 800.0, -800.0)


def world_of(body: Callable[[float, torch.Tensor], Any]) -> World:
    world = World()
    world.log, world.kept = [], None

    def program(x: torch.Tensor) -> Any:
        got = body(x.sum().item(), x)
        world.kept = got
        world.log.append(type(got).__name__)
        return got

    world.program = program
    return world


def close(value: Any) -> Any:
    """Numpy rounds functions in a way of its own: but for the last digits."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), close(value.tolist())
    if isinstance(value, list | tuple):
        return [close(item) for item in value]
    if isinstance(value, dict):
        return {key: close(item) for key, item in value.items()}
    if isinstance(value, float):
        return type(value).__name__, float(f"{value:.6g}")
    return value


def with_number(number: float) -> Any:
    def step(world: World, program: Any) -> Any:
        told = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                got = program(torch.tensor([number, 0.0]))
            except (ValueError, OverflowError, ZeroDivisionError) as error:
                got = type(error).__name__, str(error)
            told = sorted(
                {
                    str(warning.message)
                    for warning in caught
                    if warning.category is RuntimeWarning
                }
            )
        return close(got), close(world.kept), world.log, told

    return step


STEPS = [with_number(number) for number in NUMBERS]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_a_number_of_a_tensor(name):
    function = FUNCTIONS[name]
    assert check(lambda: world_of(lambda a, x: function(a)), *STEPS) >= 6
    check(lambda: world_of(lambda a, x: x * function(a)), *STEPS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_odd_numbers_after_others(name):
    function = FUNCTIONS[name]
    odd = [with_number(number) for number in ODD]
    check(
        lambda: world_of(lambda a, x: function(a)),
        *[*STEPS[:3], *odd, *STEPS, *odd[::-1]],
    )


@pytest.mark.parametrize("name", USES)
def test_uses_of_what_it_gave(name):
    use = USES[name]
    check(lambda: world_of(lambda a, x: use(np.exp(-a))), *STEPS)


@pytest.mark.parametrize("name", TENSORS)
def test_what_it_gave_beside_tensors(name):
    use = TENSORS[name]
    check(lambda: world_of(lambda a, x: use(np.exp(-a), x)), *STEPS)


def test_numpy_that_warns_of_all():
    def body(a: float, x: torch.Tensor) -> Any:
        with np.errstate(all="raise"):
            return np.exp(-a) * 0.5

    odd = [with_number(number) for number in (2.0, 1.0)]
    check(lambda: world_of(body), *STEPS, *odd)


def test_a_rate_by_a_cosine():
    def make() -> World:
        torch.manual_seed(0)
        world = World()
        world.net, world.epoch = nn.Linear(4, 2), 0
        world.optimizer = torch.optim.SGD(world.net.parameters(), 0.1)

        def program(x: torch.Tensor) -> Any:
            rate = 0.01 + 0.05 * (1 + np.cos(np.pi * world.epoch / 20))
            for group in world.optimizer.param_groups:
                group["lr"] = rate
            loss = world.net(x).pow(2).mean()
            world.optimizer.zero_grad()
            loss.backward()
            world.optimizer.step()
            world.epoch += 1
            return rate

        world.program = program
        return world

    def step(seed: int) -> Any:
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))

        def take(world: World, program: Any) -> Any:
            rate = program(x)
            kept = world.optimizer.param_groups[0]["lr"]
            weights = [p.detach() for p in world.net.parameters()]
            return close(rate), close(kept), close(weights), world.epoch

        return take

    assert check(make, *map(step, range(9))) >= 7


@pytest.mark.parametrize("name", FUNCTIONS)
def test_eagers_bits_if_they_are_asked_for(name):
    function = FUNCTIONS[name]
    numbers = torch.rand(300, dtype=torch.float64).tolist()

    def step(number: float) -> Any:
        x = torch.tensor([number, 0.0], dtype=torch.float64)
        return lambda _, program: program(x)

    two_worlds.check(
        lambda: world_of(lambda a, x: (function(a), x * function(a))),
        *map(step, numbers),
    )

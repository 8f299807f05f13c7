"""What the fuzzer of guards found, one program each.

Each is called with an eager twin in a world of its own; tools/guard_fuzz.py.
"""

from __future__ import annotations

import collections
import contextvars
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same

import mica


def check(make: Callable[[], Any], *steps: Callable[[Any, Any], Any]) -> int:
    """Takes steps in an eager and in a compiled world; returns the hits.

    `make` gives a namespace with a `program`; a step gets it and the callable,
    and returns what is compared.
    """
    eager, served = make(), make()
    compiled = mica.compile(served.program, exact=True)
    for number, step in enumerate(steps):
        state = random.getstate()
        want = step(eager, eager.program)
        random.setstate(state)
        got = step(served, compiled)
        try:
            same(got, want)
        except AssertionError as error:
            raise AssertionError(f"step {number}: {got}, not {want}") from error
    return report(compiled).hits


class World:
    """A namespace."""


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.data.add_(1),
        lambda t: torch.Tensor.mul_(t.data, 2),
        lambda t: t.data[:2].zero_(),
        lambda t: t.add_(1),
    ],
)
@pytest.mark.parametrize("first", ["shared", "apart"])
def test_memory_that_data_shares_with_an_argument_is_guarded(write, first):
    def make():
        world = World()
        world.t = torch.tensor([1.0, 2.0, 3.0])

        def program(x):
            write(world.t)
            return torch.sin(x)

        world.program = program
        return world

    def shared(world, fn):
        return fn(world.t[:]), world.t.clone()

    def apart(world, fn):
        return fn(torch.tensor([1.0, 2.0, 3.0])), world.t.clone()

    one, other = (shared, apart) if first == "shared" else (apart, shared)
    hits = check(make, one, other, one, other, apart, shared)
    assert hits >= 2


def test_what_is_added_to_after_update_begins_with_what_update_put_there():
    def make():
        world = World()
        world.k = 1.0

        def program(x):
            world.__dict__.update(k=6.0)
            world.k += 1
            return x * 2

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2)), world.k

    def change(world, fn):
        world.k = 7.5

    check(make, call, call, call, call, change, call, call, call)


def test_a_drawn_number_that_a_context_variable_gets_is_no_constant():
    def make():
        world = World()
        world.var = contextvars.ContextVar("var", default=1.5)

        def program(x):
            world.var.set(int(random.random() * 3))
            return x * 2

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2)), world.var.get()

    for seed in range(4):
        random.seed(seed)
        # A context keeps the variables that were set in it.
        contextvars.copy_context().run(check, make, *[call] * 12)


@pytest.mark.parametrize(
    "container",
    [
        lambda: collections.OrderedDict(n=0.5),
        lambda: collections.defaultdict(float, n=0.5),
        lambda: {"n": 0.5},
        lambda: collections.Counter(n=2),
    ],
)
@pytest.mark.parametrize(
    "drawn", [lambda: random.choice([1.0, 2.0]), lambda: random.randint(1, 2)]
)
def test_a_drawn_number_that_an_item_gets_is_no_constant(container, drawn):
    def make():
        world = World()
        world.items = container()

        def program(x):
            world.items["n"] = drawn()
            return x * 2

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2)), world.items["n"]

    for seed in range(4):
        random.seed(seed)
        check(make, *[call] * 12)

"""All of a dict or an object's attributes, read after some were set."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import x
from e2e.capture.two_worlds import World, check
from torch import nn
from torch.func import functional_call


class Meter:
    """As in PyTorch's own examples."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.val = self.sum = self.avg = 0.0
        self.count = 0

    def update(self, value: float, n: int = 1) -> None:
        self.val = value
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self) -> str:
        return "{name} {val:.3f} ({avg:.3f})".format(**self.__dict__)


def test_a_meter_that_prints_itself(capsys):
    def make() -> World:
        world = World()
        world.meter = Meter("Loss")

        def program(a):
            world.meter.update(a.square().mean().item(), a.size(0))
            print(f"[0] {world.meter}")
            return f"{world.meter}"

        world.program = program
        return world

    def step(seed):
        def take(world, call):
            capsys.readouterr()
            text = call(x(seed))
            return text, vars(world.meter), capsys.readouterr().out

        return take

    assert check(make, *map(step, range(8))) >= 5


def test_attributes_that_the_program_did_not_set_are_guarded():
    def make() -> World:
        world = World()
        world.meter = Meter("a")

        def program(a):
            world.meter.val = a.sum().item()
            return dict(vars(world.meter))

        world.program = program
        return world

    def rename(seed, name):
        def take(world, call):
            world.meter.name = name
            return call(x(seed))

        return take

    def add(seed, **more):
        def take(world, call):
            vars(world.meter).update(more)
            return call(x(seed))

        return take

    def move(seed):
        def take(world, call):
            kept = vars(world.meter).pop("name")
            world.meter.name = kept
            return call(x(seed))

        return take

    steps = [rename(i, "a") for i in range(4)]
    steps += [rename(4, "b"), rename(5, "b"), rename(6, "a")]
    steps += [
        add(7, more=1),
        add(8, more=1),
        add(9, more=2),
        move(10),
        move(11),
    ]
    assert check(make, *steps) >= 4


@pytest.mark.parametrize("first", [True, False])
def test_keys_that_the_program_adds(first):
    """A hit may not take a dict that has the key for one that hasn't."""

    def make() -> World:
        world = World()
        world.d = {"a": 1, "b": 2}

        def program(a):
            if first:
                world.d["c"] = a + 1
            world.d["a"] = a
            return list(world.d), list(world.d.values())

        world.program = program
        return world

    def step(seed, remove):
        def take(world, call):
            if remove:
                world.d.pop("c", None)
            result = call(x(seed))
            return result, world.d

        return take

    removes = [True, True, False, False, True, False, True, True]
    assert check(make, *(step(i, r) for i, r in enumerate(removes))) >= 2


def test_what_is_set_after_it_was_read():
    def make() -> World:
        world = World()
        world.d = {"a": 1, "b": 2}

        def program(a):
            world.d["a"] = a
            before = dict(world.d)
            world.d["b"] = a * 2
            world.d["z"] = a * 3
            return before, dict(world.d)

        world.program = program
        return world

    def step(seed):
        return lambda world, call: (call(x(seed)), world.d)

    def reset(seed):
        def take(world, call):
            world.d.clear()
            world.d.update(a=1, b=2)
            return call(x(seed)), world.d

        return take

    check(make, *(reset(i) for i in range(4)), *(step(i) for i in range(4)))


def test_numbers_that_are_added_to_are_read_with_the_rest():
    def make() -> World:
        world = World()
        world.d = {"n": 0, "k": "v"}

        def program(a):
            world.d["n"] += 1
            return a + 1, dict(world.d)

        world.program = program
        return world

    def step(seed):
        return lambda world, call: (call(x(seed)), world.d)

    assert check(make, *map(step, range(8))) >= 5


def test_parameters_that_are_put_in_for_a_call():
    """functional_call in a step: it puts them in, and back."""

    def make() -> World:
        world = World()
        torch.manual_seed(0)
        world.net = nn.Sequential(
            nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)
        )
        world.optimizer = torch.optim.SGD(world.net.parameters(), 0.1)

        def program(a, b):
            params = dict(world.net.named_parameters())
            loss = functional_call(world.net, params, a).square().mean()
            grads = torch.autograd.grad(
                loss, list(params.values()), create_graph=True
            )
            fast = {
                k: p - 0.1 * g
                for (k, p), g in zip(params.items(), grads, strict=True)
            }
            loss = functional_call(world.net, fast, b).square().mean()
            world.optimizer.zero_grad()
            loss.backward()
            world.optimizer.step()
            return loss.item()

        world.program = program
        return world

    def step(seed):
        def take(world, call):
            with torch.enable_grad():
                loss = call(x(seed, 4, 2), x(seed + 9, 4, 2))
            return loss, world.net.state_dict(), list(world.net[0]._parameters)

        return take

    assert check(make, *map(step, range(6))) >= 4

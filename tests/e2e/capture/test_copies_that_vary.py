"""Copies of objects and dicts of which numbers vary."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    name: str = "a"
    count: int = 3
    parts: list[float] = dataclasses.field(default_factory=list)


class Own:
    """Copies itself."""

    def __init__(self) -> None:
        self.rate = 0.1

    def __deepcopy__(self, memo: Any) -> Own:
        other = type(self)()
        other.rate = self.rate * 2
        memo[id(self)] = other
        return other

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other)


def make_of(program: Callable[..., Any], kind: Any = Config) -> Any:
    def make() -> Any:
        world = World()
        world.config, world.items = kind(), {"a": 1.0, "l": [1, 2.0]}
        world.program = lambda x: program(world, x)
        return world

    return make


def call(rate: float) -> Callable[[Any, Any], Any]:
    def step(world: Any, fn: Any) -> Any:
        world.config.rate = world.items["a"] = rate
        return fn(torch.arange(3.0)), vars(world.config), world.items

    return step


STEPS = [call(rate) for rate in (0.5, 1.5, -2.0, 2.25, 2.25, 7.0)]

COPIES: dict[str, Callable[[Any, Any], Any]] = {
    "deep": lambda w, x: copy.deepcopy(w.config),
    "deep dict": lambda w, x: copy.deepcopy(w.items),
    "deep twice": lambda w, x: copy.deepcopy([w.items, w.items, w.config]),
    "deep with tensors": lambda w, x: copy.deepcopy({"x": x, **w.items}),
    "shallow": lambda w, x: copy.copy(w.config),
    "shallow dict": lambda w, x: copy.copy(w.items),
    "as dict": lambda w, x: dataclasses.asdict(w.config),
    "as tuple": lambda w, x: dataclasses.astuple(w.config),
    "replaced": lambda w, x: dataclasses.replace(w.config, count=5),
    "read": lambda w, x: x * dataclasses.asdict(w.config)["rate"],
    "of a loss": lambda w, x: copy.deepcopy({"loss": x.sum().item()}),
    "zip": lambda w, x: dict(zip(w.items, w.items.values(), strict=True)),
    "generator": lambda w, x: dict((k, v) for k, v in w.items.items()),
    "enumerate": lambda w, x: dict(enumerate([w.items["a"], 1]), other=2),
    "pairs": lambda w, x: dict([("a", w.items["a"]), ("b", 2)], c=3),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_served(name):
    def program(world, x):
        return x * 2, COPIES[name](world, x)

    hits = check(make_of(program), *STEPS)
    assert hits >= 3 or name == "deep with tensors"


@pytest.mark.parametrize(
    "program",
    [
        lambda w, x: copy.deepcopy(w.config),
        lambda w, x: copy.deepcopy(w.config, {id(w.config): 1}),
        lambda w, x: copy.deepcopy([w.config, w.config.rate], memo={}),
        lambda w, x: copy.deepcopy(x=w.config),
        lambda w, x: copy.deepcopy(),
        lambda w, x: copy.deepcopy((w.config.rate, (1.0, [2.0]))),
        lambda w, x: copy.deepcopy(w.config) == w.config,
        lambda w, x: copy.deepcopy(w.config.rate) is w.config.rate,
        lambda w, x: dict([("a", 1), ("b",)]),
        lambda w, x: dict([(["a"], 1)]),
        lambda w, x: dict(k for k in [("a", 1), ("b",)]),
        lambda w, x: dict([("a", 1), ("a", w.items["a"])]),
        lambda w, x: dict([(w.items["a"], 1)], rate=w.config.rate),
        lambda w, x: isinstance((w.items["a"], 1), (tuple, list)),
    ],
)
@pytest.mark.parametrize("kind", [Config, Own])
def test_odd_copies(program, kind):
    def tried(world, x):
        try:
            return x * 2, program(world, x)
        except (TypeError, ValueError) as error:
            return type(error), str(error)

    check(make_of(tried, kind), *STEPS)


@pytest.mark.parametrize("kind", [OrderedDict, deque, Counter, defaultdict])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda v: v.copy()]
)
def test_containers_of_other_classes(kind, copied):
    def make() -> Any:
        world = World()
        world.held = (
            kind([1.0, 2.0])
            if kind is deque
            else kind(None, {"a": 1.0})
            if kind is defaultdict
            else kind({"a": 1.0})
        )
        world.program = lambda x: (x * 2, copied(world.held))
        return world

    def change(value: Any) -> Any:
        def step(world: Any, fn: Any) -> Any:
            world.held[0 if kind is deque else "a"] = value
            return fn(torch.ones(2)), world.held

        return step

    def grow(world: Any, fn: Any) -> Any:
        if kind is deque:
            world.held.append(3)
        else:
            world.held["n"] = 3
        return fn(torch.ones(2))

    check(make, *[change(v) for v in (1.0, 1.0, 2.0, 3.0, True)], grow, grow)


def test_a_changed_deepcopy(monkeypatch):
    def program(world, x):
        return x, copy.deepcopy(world.items)

    def patch(world: Any, fn: Any) -> None:
        monkeypatch.setattr(copy, "deepcopy", lambda value: "changed")

    check(make_of(program), *STEPS[:3], patch, *STEPS[:3])

"""Dicts of the state that are read as a whole while what they hold varies."""

from __future__ import annotations

import collections
import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check

READS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "sum": lambda d: sum(d.values()),
    "sum of": lambda d: sum(v * 2 for v in d.values()),
    "sum from": lambda d: sum((v for v in d.values()), 1.5),
    "max": lambda d: max(d.values()),
    "max of": lambda d: max((v for v in d.values()), key=lambda v: -v),
    "min": lambda d: min(list(d.values()), default=0),
    "any": lambda d: 2 if any(v > 5 for v in d.values()) else 3,
    "all": lambda d: 2 if all(v for v in d.values()) else 3,
    "dict": dict,
    "copy": lambda d: d.copy(),
    "list": lambda d: list(d.values()),
    "items": lambda d: [v for k, v in d.items()],
    "keys": lambda d: [*d],
    "tuple": lambda d: tuple(d.items()),
    "comprehension": lambda d: {k: v * 2 for k, v in d.items() if k != "b"},
    "splat": lambda d: {**d, "z": 1},
    "or": lambda d: d | {"a": 2},
    "call": lambda d: (lambda **k: k["a"])(**d),
    "format": lambda d: "{a} {b}".format(**d),
    "join": lambda d: ", ".join(f"{k}: {v}" for k, v in d.items()),
    "length": lambda d: (len(d), "a" in d, d["b"]),
    "equal": lambda d: d == {"a": 1.5, "b": 2.0, "c": 3},
    "sorted": lambda d: sorted(d.values()),
    "str": str,
    "reversed": lambda d: list(reversed(d)),
    "zip": lambda d: list(zip(d, d.values(), strict=True)),
    "update": lambda d: {"q": 0}.update(d),
}
# Reads by which a value is looked at, so that each is a record of its own.
EXACT = ("any", "all", "equal", "sorted", "str", "max", "max of", "min")


def make_of(program: Callable[..., Any], kind: Any = dict) -> Any:
    def make() -> Any:
        world = World()
        world.items = kind(a=1.5, b=2.0, c=3)
        world.program = lambda *args: program(world.items, *args)
        return world

    return make


def shown(world: Any) -> Any:
    return type(world.items), list(world.items.items())


def call(world: Any, fn: Any) -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = fn(torch.arange(3.0))
    return result, printed.getvalue(), shown(world)


def setting(**values: Any) -> Any:
    return lambda world, fn: world.items.update(values)


def plain(items: Any, name: str) -> Any:
    return lambda world, fn: getattr(world.items, name)(items)


CHANGES = [
    step
    for value in (4.0, 5.5, -1.0, 6.0, 6.0)
    for step in (setting(a=value), call)
]


@pytest.mark.parametrize("name", READS)
def test_reads_of_numbers_that_vary(name):
    def program(items, x):
        return x * 2, READS[name](items)

    hits = check(make_of(program), call, *CHANGES)
    assert hits >= 3 or name in EXACT


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_reads_of_what_the_program_has_set(name, kind):
    def program(items, x):
        items["a"] = x.sum().item()
        items["new"] = 1.0
        items["b"] += 1
        try:
            return x * 2, READS[name](items)
        except TypeError as error:
            return str(error)

    def grow(world: Any, fn: Any) -> None:
        world.items["other"] = 5

    def turn(world: Any, fn: Any) -> None:
        world.items["b"] = world.items.pop("b")

    def shrink(world: Any, fn: Any) -> None:
        del world.items["new"], world.items["c"]

    check(
        make_of(program, kind),
        *[call] * 4,
        *[grow, call, call, call],
        *[turn, call, call, shrink, call, call, setting(c=True), call],
        *[setting(c="text"), call, call, setting(c=None), call],
        *[setting(c=float("nan")), call, call, setting(c=-0.0), call],
    )


@pytest.mark.parametrize("name", ["dict", "items", "keys", "sum", "join"])
def test_reads_of_losses_are_served(name):
    def program(items, x):
        items["a"] = (x * 2).mean().item()
        items.update(b=x.sum().item(), c=float(x.size(0)))
        return x * 2, READS[name](items)

    def more(world: Any, fn: Any) -> Any:
        return fn(torch.full((3,), torch.rand(()).item())), shown(world)

    def same_seed(world: Any, fn: Any) -> Any:
        torch.manual_seed(0)
        return [more(world, fn) for _ in range(6)]

    assert check(make_of(program), same_seed) >= 3


def test_a_key_that_is_removed_and_set_again():
    def program(items, x):
        items["a"] = items.pop("a") + 1
        return x * 2, list(items.items()), dict(items)

    check(make_of(program), *[call] * 5)


def test_what_is_read_before_and_after_it_is_set():
    def program(items, x):
        before = sum(items.values())
        items["a"] = before * 0.5
        items["new"] = x.sum().item()
        return x * before, dict(items), sum(items.values())

    check(make_of(program), *[call] * 5, *CHANGES)


def test_tensors_that_are_set():
    def program(items, x):
        items["a"] = x.mean()
        items["d"] = x * 2
        return sum(v.sum() if torch.is_tensor(v) else v for v in items.values())

    assert check(make_of(program), *[call] * 6) >= 3


def test_an_object_that_shows_its_attributes():
    class Meter:
        def __init__(self, **named: Any) -> None:
            self.name, self.val, self.sum, self.count = "loss", 0.0, 0.0, 0

        def items(self) -> Any:
            return vars(self).items()

        def __str__(self) -> str:
            return "{name} {val:.3f} ({sum:.3f}/{count})".format(
                **self.__dict__
            )

    def program(meter, x):
        meter.val = x.sum().item()
        meter.sum += meter.val
        meter.count += 1
        print(meter)
        return x * 2

    assert check(make_of(program, Meter), *[call] * 7) >= 4


@pytest.mark.parametrize("fold", [max, min])
def test_extremes_of_dicts_by_key(fold):
    def program(items, x):
        rows = [{"i": i, "v": (x * i).sum().item()} for i in range(3)]
        return x, fold(rows, key=lambda row: row["v"]), fold(rows, key=str)

    check(make_of(program), *[call] * 4)


@pytest.mark.parametrize(
    "program",
    [
        lambda items, x: max(()),
        lambda items, x: max((), default=3),
        lambda items, x: max((v for v in ()), wrong=3),
        lambda items, x: min(v for v in (1, "a")),
        lambda items, x: sum((v for v in ("a", "b")), ""),
        lambda items, x: sum(v for v in ("a", 1)),
        lambda items, x: ", ".join(v for v in ("a", 1)),
        lambda items, x: dict(1, a=2),
        lambda items, x: items.update(1),
        lambda items, x: items.update([("k", 1)], b=2),
        lambda items, x: items.update(items),
        lambda items, x: items.update({"self": 1}, other=2, items=3),
        lambda items, x: dict(items, a=2, z=3),
        lambda items, x: any(v for v in (x > 0)),
        lambda items, x: sum(v for v in (x, x)),
        lambda items, x: sum([v for v in (x, x)], x),
        lambda items, x: max(v for v in (x.sum(), x.mean())),
    ],
)
def test_odd_calls(program):
    def tried(items, x):
        try:
            return program(items, x), dict(items)
        except Exception as error:
            return type(error), str(error)

    check(make_of(tried), *[call] * 4)

"""Dicts of numbers that vary, of which a program looks at the keys alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, call, check

LOOKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "sorted": lambda d: [(k, d[k]) for k in sorted(d)],
    "sorted names": lambda d: [(k, d[k]) for k in sorted(d.keys())],
    "sorted items": lambda d: sorted(d.items()),
    "sorted items of an ordered dict": lambda d: sorted(OrderedDict(d).items()),
    "a set": lambda d: len(set(d)),
    "a frozen set": lambda d: "a" in frozenset(d.keys()),
    "the largest": lambda d: d[max(d)],
    "the smallest": lambda d: d[min(d)],
    "any": lambda d: any(d),
    "all": lambda d: all(d.keys()),
    "truth": lambda d: bool(d),
    "an ordered dict": lambda d: OrderedDict(d),
    "an ordered dict of pairs": lambda d: OrderedDict(list(d.items())),
}


def world_of(look: Callable[[dict[str, Any]], Any], kept: bool) -> World:
    world = World()
    world.total, world.log = 0.0, []
    world.table = {"b": 0.0, "a": 0.0}

    def program(x: torch.Tensor) -> Any:
        world.total += x.sum().item()
        table = world.table if kept else {}
        table["b"] = world.total / 2
        table["a"] = world.total / 3
        world.log.append(look(table))
        return x * 2, table["a"]

    world.program = program
    return world


def with_log(seed: int) -> Any:
    def step(world: World, program: Any) -> Any:
        got = call(seed)(world, program)
        return got, world.total, world.table, world.log

    return step


@pytest.mark.parametrize("look", LOOKS)
def test_numbers_under_names_that_a_program_looks_at(look):
    steps = [with_log(seed) for seed in range(8)]
    assert check(lambda: world_of(LOOKS[look], kept=False), *steps) == 6


@pytest.mark.parametrize("look", LOOKS)
def test_names_of_a_dict_that_stays(look):
    steps = [with_log(seed) for seed in range(8)]
    check(lambda: world_of(LOOKS[look], kept=True), *steps)


def test_values_that_are_looked_at():
    """Items in order of their values, with one key left out now and then."""

    def look(table: dict[str, Any]) -> Any:
        by_value = sorted((v, k) for k, v in table.items())
        return by_value, sorted(table.values()), sorted(table)

    def add(world: World, program: Any) -> Any:
        world.table["c"] = 2.0
        return with_log(20)(world, program)

    steps = [with_log(seed) for seed in range(6)]
    check(lambda: world_of(look, kept=False), *steps)
    check(lambda: world_of(look, kept=True), *steps, add, *steps)


SETS: dict[str, Callable[[dict[str, Any], torch.Tensor], Any]] = {
    "set": lambda d, x: d.__setitem__("a", x + 1),
    "set twice": lambda d, x: [d.__setitem__(k, x + 1) for k in ("b", "b")],
    "a default": lambda d, x: d.setdefault("c", x * 3).sum(),
    "a default that is there": lambda d, x: d.setdefault("a", x),
    "taken out": lambda d, x: d.pop("a"),
    "taken out and set": lambda d, x: (d.pop("a"), d.__setitem__("a", x))[0],
    "taken out if there": lambda d, x: d.pop("z", None),
    "removed": lambda d, x: d.__delitem__("b"),
    "removed and set": lambda d, x: [
        d.__delitem__("a"),
        d.__setitem__("a", x * 2),
    ],
}
READS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "items": lambda d: {k: v.sum() for k, v in d.items()},
    "values": lambda d: sum(v.sum() for v in d.values()),
    "names": lambda d: sorted(d),
    "order": lambda d: [*d],
    "a copy": lambda d: dict(d),
    "how many": lambda d: len(d),
    "whether": lambda d: ("a" in d, "b" in d, "c" in d),
}


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("how", SETS)
def test_items_set_by_methods_of_a_dict_that_is_then_read(how, read, kind):
    def make() -> World:
        world = World()
        world.table = kind(a=torch.ones(2), b=torch.zeros(2))

        def program(x: torch.Tensor) -> Any:
            got = SETS[how](world.table, x)
            return got, READS[read](world.table)

        world.program = program
        return world

    def step(seed: int) -> Any:
        def take(world: World, program: Any) -> Any:
            if seed % 3 == 0:  # Somebody else sets what isn't there any more.
                world.table["a"] = torch.ones(2) * seed
                world.table["b"] = torch.ones(2)
            try:
                got = call(seed)(world, program)
            except KeyError as error:
                got = str(error)
            return got, [*world.table.items()]

        return take

    check(make, *map(step, range(9)))

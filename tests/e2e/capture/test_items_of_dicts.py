"""Items that a program sets in dicts of other classes than dict."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check


class Plain(dict):  # type: ignore[type-arg]
    pass


class Missing(dict):  # type: ignore[type-arg]
    def __missing__(self, key):
        return 0


class Telling(dict):  # type: ignore[type-arg]
    def __setitem__(self, key, value):
        super().__setitem__(key, value + 1)


class Halving(dict):  # type: ignore[type-arg]
    def __getitem__(self, key):
        return super().__getitem__(key) / 2


class Ordered(collections.OrderedDict):  # type: ignore[type-arg]
    pass


KINDS = [
    dict,
    collections.OrderedDict,
    collections.Counter,
    lambda **items: collections.defaultdict(int, items),
    Plain,
    Missing,
    Telling,
    Halving,
    Ordered,
]


def shown(world: Any) -> Any:
    kind = world.items
    return type(kind).__name__, list(kind.items()), list(reversed(kind))


def make_of(kind: Any, program: Any) -> Any:
    def make() -> Any:
        world = World()
        world.items = kind(a=1, b=2)
        world.program = lambda *args: program(world.items, *args)
        return world

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_counts_in_dicts(kind):
    def program(items, x, key):
        items[key] += 1
        return x * items["a"]

    def call(key):
        return lambda world, fn: (fn(torch.ones(2), key), shown(world))

    hits = check(make_of(kind, program), *[call(key) for key in "aaaaabbbaa"])
    assert hits >= 4 or kind in (Telling, Halving)


# Telling would add 1 to a text.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != Telling])
def test_keys_that_are_new(kind):
    def program(items, x, key):
        items[key] = x.sum()
        items["last"] = key
        return x

    def call(key):
        def step(world, fn):
            fn(torch.ones(2), key)
            return [(k, str(v)) for k, v in world.items.items()]

        return step

    def forget(world, fn):
        world.items.pop("c", None)
        return list(world.items)

    def turn(world, fn):
        if isinstance(world.items, collections.OrderedDict):
            world.items.move_to_end("a")
        return list(world.items)

    steps = [call("c")] * 3 + [forget] + [call("c")] * 2 + [turn]
    hits = check(make_of(kind, program), *steps, call("c"), call("d"))
    assert hits >= 2 or kind is Halving


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_in_dicts(kind):
    def program(items, x):
        items["a"] = items["a"] * 0.5 + x
        return items["a"] + items["b"]

    def call(world, fn):
        return fn(torch.ones(2)), world.items["a"]

    check(make_of(kind, program), *[call] * 6)


@pytest.mark.parametrize("kind", KINDS)
def test_dicts_that_are_read_as_a_whole_afterwards(kind):
    def program(items, x):
        items["a"] += 1
        return x * sum(items.values()), len(items), list(items)

    check(make_of(kind, program), *[lambda w, fn: fn(torch.ones(2))] * 4)


def test_what_a_defaultdict_makes_itself():
    def make():
        world = World()
        world.sums = collections.defaultdict(lambda: torch.zeros(2))
        world.counts = collections.defaultdict(int)

        def program(x, key):
            world.sums[key] += x
            world.counts[key] += 1
            return world.sums[key] * 2

        world.program = program
        return world

    def call(key):
        def step(world, fn):
            found = fn(torch.ones(2), key)
            return found, dict(world.sums), dict(world.counts)

        return step

    check(make, *[call(key) for key in "aaaabbbaabccc"])


def test_a_class_that_gets_its_own_way_to_set_items():
    def make():
        world = World()

        class Own(dict):
            pass

        world.kind, world.items = Own, Own(a=1)

        def program(x):
            world.items["a"] = 5
            return x

        world.program = program
        return world

    def call(world, fn):
        fn(torch.ones(2))
        return list(world.items.items())

    def patch(world, fn):
        def set_item(self, key, value):
            dict.__setitem__(self, key, value * 10)

        world.kind.__setitem__ = set_item

    def turn(world, fn):
        class Other(dict):
            def __setitem__(self, key, value):
                dict.__setitem__(self, key, value * 3)

        world.items.__class__ = Other

    hits = check(make, *[call] * 4, patch, call, call, turn, call, call)
    assert hits >= 2


def unpacked(x, items):
    swapped = x.permute(*reversed(range(x.dim())))
    return swapped, torch.max(*items.values()), x.view(*range(3, 1, -1))


def test_iterables_whose_items_are_arguments():
    def make():
        world = World()
        world.items = {"a": torch.ones(2), "b": torch.arange(2.0)}
        world.program = lambda x: unpacked(x, world.items)
        return world

    def call(world, fn):
        return fn(torch.ones(2, 3))

    def swap(world, fn):
        world.items["a"] = torch.full((2,), 7.0)

    assert check(make, *[call] * 4, swap, call, call) >= 4

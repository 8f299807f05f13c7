"""The order of keys and attributes that a hit leaves is eager's."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import Any

import pytest
import torch
from e2e.capture.twins_of_calls import agree

X = torch.ones(2)
KEYS = "a b a c b a a c a b c c a b".split()


def pops(d, k, x):
    d[k] = d.pop(k)
    return x


def deletes(d, k, x):
    value = d[k]
    del d[k]
    d[k] = value
    return x


def deletes_and_sets_another_value(d, k, x):
    del d[k]
    d[k] = 5
    return x


def deletes_twice(d, k, x):
    del d[k]
    d["n"] = 1
    d[k] = 1
    del d["n"]
    d["m"] = 2
    return x


def sets_then_moves(d, k, x):
    d["new"] = 1
    d[k] = d.pop(k)
    del d["new"]
    return x


def moves_two(d, k, x):
    other = "a" if k != "a" else "b"
    d[k] = d.pop(k)
    d[other] = d.pop(other)
    d[k] = d.pop(k)
    return x


def moves_a_tensor(d, k, x):
    d[k] = d.pop(k)
    y = x * 2
    d["t"] = y
    d["t"] = d.pop("t")
    return y


def moves_to_the_end(d, k, x):
    value = d.pop(k)
    d.setdefault("s", 1)
    d.setdefault(k, value)
    return x


def updates(d, k, x):
    d.update({k: 1, "u": 2})
    del d["u"]
    return x


def pops_the_last(d, k, x):
    key, value = d.popitem()
    d[k] = value if key == k else d[k]
    d[key] = value
    return x


def pops_the_first(d, k, x):
    first = next(iter(d))
    d[first] = d.pop(first)
    return x


def clears(d, k, x):
    d.clear()
    for key in "cab":
        d[key] = key == k
    return x


CHANGES = [
    pops,
    deletes,
    deletes_and_sets_another_value,
    deletes_twice,
    sets_then_moves,
    moves_two,
    moves_a_tensor,
    moves_to_the_end,
    updates,
    pops_the_last,
    pops_the_first,
    clears,
]
SERVED = CHANGES[:8]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["dict", "ordered", "default", "attributes"])
def test_the_order_after_a_change_of_keys(change, kind):
    def world():
        start = {"a": 1, "b": 2, "c": 3}
        box = type("Box", (), {})()
        vars(box).update(start)
        held: Any = {
            "dict": start,
            "ordered": OrderedDict(start),
            "default": defaultdict(int, start),
            "attributes": vars(box),
        }[kind]

        def f(x, k):
            return change(held, k, x + 1)

        return f, lambda: list(held.items())

    letters, _ = agree(world, *((X, k) for k in KEYS))
    if kind == "dict" and change in SERVED:
        assert "h" in letters, letters


@pytest.mark.parametrize("change", SERVED)
def test_the_order_of_an_arguments_keys(change):
    def world():
        held = {"a": 1, "b": 2, "c": 3}

        def f(x, k, d):
            return change(d, k, x + 1)

        def run(x, k):
            return run.fn(x, k, held)

        run.fn = f
        return run, lambda: list(held.items())

    agree(world, *((X, k) for k in KEYS))


def test_the_order_of_attributes():
    def world():
        class Box:
            pass

        box = Box()
        box.a, box.b, box.c = 1, 2, 3

        def f(x, k):
            value = getattr(box, k)
            delattr(box, k)
            setattr(box, k, value)
            if k == "b":
                del box.a
                box.a = 1
            return x * value

        return f, lambda: list(vars(box).items())

    letters, _ = agree(world, *((X, k) for k in KEYS))
    assert letters.count("h") > 5


def test_the_order_of_globals():
    source = """
def f(x, k):
    global first, second
    if k == "a":
        del first
        first = 1
    else:
        del second
        second = 2
    return x + first
"""

    def world():
        names: dict[str, Any] = {"first": 1, "second": 2}
        exec(source, names)
        return names["f"], lambda: [
            k for k in names if k in ("first", "second")
        ]

    letters, _ = agree(world, *((X, k) for k in KEYS))
    assert letters.count("h") > 5


def test_a_cache_of_the_users_that_drops_what_was_used_least_recently():
    def world():
        cache: dict[int, torch.Tensor] = {}

        def mask(n):
            if n in cache:
                cache[n] = cache.pop(n)
            else:
                cache[n] = torch.full((2,), float(n))
                if len(cache) > 2:
                    cache.pop(next(iter(cache)))
            return cache[n]

        def f(x, n):
            return x + mask(n)

        return f, lambda: list(cache)

    agree(world, *((X, n) for n in (1, 2, 1, 3, 1, 2, 3, 1, 1, 2, 2, 3)))


def test_an_ordered_dict_that_drops_what_was_used_least_recently():
    def world():
        cache: OrderedDict[int, int] = OrderedDict()

        def f(x, n):
            if n in cache:
                cache.move_to_end(n)
            else:
                cache[n] = n
                if len(cache) > 2:
                    cache.popitem(last=False)
            return x * n

        return f, lambda: list(cache)

    agree(world, *((X, n) for n in (1, 2, 1, 3, 1, 2, 3, 1, 1, 2, 2, 3)))


def test_the_order_of_a_set_and_of_a_counter():
    def world():
        members, counts = {"a", "b", "c"}, Counter(a=1, b=2)

        def f(x, k):
            members.discard(k)
            members.add(k)
            counts[k] += 1
            return x + 1

        return f, lambda: (sorted(members), list(counts.items()))

    agree(world, *((X, k) for k in KEYS))


def test_the_order_of_parameters():
    def world():
        layer = torch.nn.Linear(2, 2)
        with torch.no_grad():
            layer.weight.fill_(1.0)
            layer.bias.fill_(0.5)

        def f(x, k):
            name = "weight" if k == "a" else "bias"
            kept = layer._parameters.pop(name)
            layer._parameters[name] = kept
            return layer(x)

        return f, lambda: [name for name, _ in layer.named_parameters()]

    agree(world, *((X, k) for k in KEYS))

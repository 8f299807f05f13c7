"""What the fuzzer of guards found: results of ways, numbers in odd places."""

from __future__ import annotations

import collections
import functools
import gc
import math
import operator
import sys
import types

import pytest
import torch
from e2e.capture.later_passes import grad_is_on
from torch import nn

import mica

_grad = pytest.fixture(autouse=True)(grad_is_on)

WAYS = {
    "a view": lambda x, z: x[:2],
    "a view of a view": lambda x, z: x.view(-1)[1:].unsqueeze(0),
    "two views": lambda x, z: (x[:2], x[1:]),
    "itself and a view": lambda x, z: (x, x[:1]),
    "a product": lambda x, z: x[:2] * z[:2],
}


@pytest.mark.parametrize("kind", WAYS)
def test_results_of_ways_have_the_gradients_of_their_own(kind):
    def program(x, z):
        if z.sum() == 3:
            y = x + 1
        else:
            y = x * z
        return WAYS[kind](x, y)

    def outcome(call):
        told = []
        leaf = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        for z in (1.0, 2.0, 2.0, 2.0, 1.0, 1.0):
            got = call(leaf, torch.full((3,), z))
            parts = got if isinstance(got, tuple) else (got,)
            leaf.grad = None
            sum((part * part).sum() for part in parts).backward()
            told.append(
                (
                    leaf.grad.tolist(),
                    [part.requires_grad for part in parts],
                    [part.data_ptr() == leaf.data_ptr() for part in parts],
                    [part._base is leaf for part in parts],
                )
            )
        return told

    compiled = mica.compile(program)
    assert [t[:2] for t in outcome(compiled)] == [
        t[:2] for t in outcome(program)
    ]
    assert mica.explain(compiled).hits >= 3


def test_numbers_of_a_class_that_is_looked_through_stay_its_own():
    class Plug:
        gain = 1.0

    def program(x):
        found = next(k for k in Plug.__mro__ if "gain" in vars(k))
        return x * math.sqrt(abs(found.gain))

    compiled = mica.compile(program, exact=True)
    for i in range(8):
        if i % 2 == 0:
            Plug.gain = float(i)
        x = torch.ones(3 + i // 4)
        got = compiled(x)
        # What was freed by mistake is another number now.
        others = [sys.getswitchinterval() for _ in range(100)]
        assert torch.equal(got, program(x)), i
        assert torch.equal(compiled(x), program(x)), i
        assert Plug.gain == float(i - i % 2)
        del others
    gc.collect()


def test_keys_that_tensors_give_are_the_small_ints_themselves():
    places = torch.tensor([1, 2, 3])
    kept = collections.OrderedDict(a=1.0)

    def program(x):
        kept[places.argmax().item()] = 1.0
        return x * 2

    compiled = mica.compile(program)
    for _ in range(5):
        compiled(torch.ones(2))
        assert [key is int("2") for key in kept] == [False, True]
        del kept[2]
    assert mica.explain(compiled).hits >= 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: nn.functional.threshold(x, n, 1.0),
        nn.functional.hardshrink,
        lambda x, n: x.clamp(min=n),
        lambda x, n: nn.functional.hardtanh(x, -1.0, n),
    ],
)
def test_bounds_that_are_no_numbers(function, size, dtype):
    x = torch.linspace(-3, 3, size, dtype=dtype)
    x[0] = math.nan
    compiled = mica.compile(lambda x: function(x, math.nan))
    for _ in range(3):
        torch.testing.assert_close(
            compiled(x), function(x, math.nan), rtol=0, atol=0, equal_nan=True
        )


SETS = {
    "update": lambda d, n: d.update({"b": n, "a": 1.0}),
    "pairs": lambda d, n: d.update([("b", n), ("a", 1.0)]),
    "or": lambda d, n: operator.ior(d, {"b": n, "a": 1.0}),
    "init": lambda d, n: d.__init__(b=n, a=1.0),
}
KINDS = [
    dict,
    collections.OrderedDict,
    functools.partial(collections.defaultdict, float),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", SETS)
def test_items_that_code_in_c_sets_are_those_of_each_call(how, kind):
    def make():
        return types.SimpleNamespace(items={"v": kind(a=1.0)})

    def program(world, x):
        items = world.items["v"]
        y = x * items.get("a")
        n = sum(i for i, k in enumerate(items) if k == "a")
        SETS[how](world.items.get("v"), n)
        return y

    eager, ours = make(), make()
    compiled = mica.compile(lambda x: program(ours, x))
    for i, shape in enumerate(((3,), (2, 3), (3,), (3,), (3,), (3,))):
        x = torch.ones(shape)
        assert torch.equal(program(eager, x), compiled(x)), i
        assert ours.items == eager.items, i
        for world in (eager, ours):
            world.items["v"]["a"] = [-0.0, 8.0, 8.0, 5.0, 1.0, 7.0][i]

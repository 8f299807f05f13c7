"""Which class an object is of, and what its class does, is part of a record."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from e2e.capture.other_processes import run_apart
from torch import nn

import mica

World = SimpleNamespace


def agree(
    make: Callable[[], World],
    *changes: Callable[[World], Any],
    served: bool = True,
) -> None:
    """Calls a program plain and compiled, each in a world of its own.

    Both worlds change in the same way after each three calls; `served` says
    that records serve calls before and after the first change.
    """
    mine, other = make(), make()
    fast = mica.compile(mine.f)
    hits = [0]
    for change in (None, *changes):
        if change is not None:
            change(mine)
            change(other)
        for call in range(4):
            x = torch.arange(1.0, 5.0).reshape(2, 2) + call
            same(fast(x), other.f(x))
        hits.append(report(fast).hits)
    if served:
        assert hits[0] < hits[1] < hits[2], str(report(fast))


def classes() -> World:
    class A:
        gain = 2.0

        def __init__(self):
            self.bias = 1.0

        def scale(self, x):
            return x * 2

        @property
        def twice(self):
            return 2.0

        def __call__(self, x):
            return x + 2

        def __add__(self, x):
            return x + 5

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return 2.0

        def __bool__(self):
            return True

        def __eq__(self, other):
            return True

        def __contains__(self, item):
            return True

        def __enter__(self):
            return 2.0

        def __exit__(self, *args):
            return None

        def __iter__(self):
            return iter((2.0, 3.0))

        def __float__(self):
            return 2.0

        __hash__ = object.__hash__

    class B(A):
        gain = 3.0
        late = True

        def scale(self, x):
            return x * 3

        @property
        def twice(self):
            return 3.0

        def __call__(self, x):
            return x + 3

        def __add__(self, x):
            return x + 7

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return 3.0

        def __bool__(self):
            return False

        def __eq__(self, other):
            return False

        def __contains__(self, item):
            return False

        def __enter__(self):
            return 3.0

        def __iter__(self):
            return iter((2.0, 5.0))

        def __float__(self):
            return 3.0

        __hash__ = object.__hash__

    return World(A=A, B=B, object=A())


def with_statement(w: World, x: Any) -> Any:
    with w.object as gain:
        return x * gain


ASKED = {
    "isinstance": lambda w, x: x * (2 if isinstance(w.object, w.B) else 3),
    "type": lambda w, x: x * (2 if type(w.object) is w.A else 3),
    "table": lambda w, x: x * {w.A: 2.0, w.B: 3.0}[type(w.object)],
    "in": lambda w, x: x * (2 if type(w.object) in (w.A,) else 3),
    "dunder": lambda w, x: x * (2 if w.object.__class__ is w.A else 3),
    "name": lambda w, x: x * (2 if type(w.object).__name__ == "A" else 3),
    "issubclass": lambda w, x: (
        x * (2 if issubclass(type(w.object), w.B) else 3)
    ),
    "has": lambda w, x: x * (2 if hasattr(w.object, "late") else 3),
    "has of the class": lambda w, x: x * (2 + hasattr(type(w.object), "late")),
    "attribute": lambda w, x: x * w.object.gain,
    "method": lambda w, x: w.object.scale(x),
    "property": lambda w, x: x * w.object.twice,
    "call": lambda w, x: w.object(x),
    "add": lambda w, x: w.object + x,
    "len": lambda w, x: x * len(w.object),
    "item": lambda w, x: x * w.object[0],
    "bool": lambda w, x: x * (2 if w.object else 3),
    "not": lambda w, x: x * (2 if not w.object else 3),
    "equal": lambda w, x: x * (2 if w.object == 7 else 3),
    "contains": lambda w, x: x * (2 if 1 in w.object else 3),
    "is in a list": lambda w, x: x * (2 if 7 in [w.object] else 3),
    "with": with_statement,
    "iterate": lambda w, x: x * sum(w.object),
    "unpack": lambda w, x: x * [*w.object][1],
    "float": lambda w, x: x * float(w.object),
    "in a list": lambda w, x: x * isinstance([w.object][0], w.B),
    "map": lambda w, x: x * (1 + sum(map(len, [w.object]))),
}


@pytest.mark.parametrize("program", ASKED)
def test_the_class_of_an_object_is_assigned(program):
    def make():
        w = classes()
        w.f = lambda x: ASKED[program](w, x)
        return w

    def become(name):
        def change(w):
            w.object.__class__ = getattr(w, name)

        return change

    agree(make, become("B"), become("A"), become("B"))


def test_super_looks_at_the_class_of_its_object():
    def make():
        class Base:
            def gain(self):
                return 2.0

        class Loud(Base):
            def gain(self):
                return 5.0

        class A(Base):
            def gain(self):
                return super().gain()

        class B(A, Loud):
            pass

        o = A()
        return World(o=o, B=B, f=lambda x: x * A.gain(o))

    agree(make, lambda w: setattr(w.o, "__class__", w.B))


def test_slots_belong_to_the_class_that_has_them():
    def make():
        class A:
            __slots__ = ("gain",)

        class B:
            __slots__ = ("gain",)

        o = A()
        o.gain = 2.0
        return World(o=o, A=A, B=B, f=lambda x: x * o.gain)

    def to_b(w):
        w.o.__class__ = w.B

    def to_a(w):
        w.o.__class__ = w.A

    agree(make, to_b, to_a)


def test_a_module_becomes_another_class():
    def make():
        class Loud(nn.Linear):
            def forward(self, x):
                return super().forward(x) * 10

        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        return World(net=net, Loud=Loud, f=lambda x: net(x))

    agree(
        make,
        lambda w: setattr(w.net[0], "__class__", w.Loud),
        lambda w: setattr(w.net[0], "__class__", nn.Linear),
        lambda w: setattr(w.net[1], "__class__", nn.Tanh),
    )


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [
            a.as_subclass(torch.Tensor) if isinstance(a, Loud) else a
            for a in args
        ]
        return func(*plain, **(kwargs or {})) + 100


TENSOR_USES = {
    "operator": lambda w, x: x * w.W,
    "reflected": lambda w, x: w.W - x,
    "function": lambda w, x: torch.add(x, w.W),
    "method": lambda w, x: x.add(w.W),
    "own method": lambda w, x: w.W.mul(x),
    "item": lambda w, x: x * w.W[0],
    "matmul": lambda w, x: x @ w.W,
    "compare": lambda w, x: (x > w.W).float(),
    "isinstance": lambda w, x: x * (2 if isinstance(w.W, Loud) else 3),
    "parameter": lambda w, x: x * (2 if isinstance(w.W, nn.Parameter) else 3),
    "type": lambda w, x: x * (2 if type(w.W) is torch.Tensor else 3),
}


@pytest.mark.parametrize("use", TENSOR_USES)
def test_the_class_of_a_tensor_of_the_state_is_assigned(use):
    def make():
        w = World(W=torch.full((2, 2), 2.0))
        w.f = lambda x: TENSOR_USES[use](w, x)
        return w

    def become(kind):
        def change(w):
            w.W.__class__ = kind

        return change

    mine, other = make(), make()
    fast = mica.compile(mine.f)
    for kind in (None, Loud, torch.Tensor):
        for w in (mine, other):
            if kind is not None:
                w.W.__class__ = kind
        for call in range(4):
            x = torch.ones(2, 2) + call
            a, b = fast(x), other.f(x)
            same(a.as_subclass(torch.Tensor), b.as_subclass(torch.Tensor))
    assert report(fast).hits >= 4, str(report(fast))


OPERATORS = {
    "__matmul__": lambda x, w: x @ w,
    "__add__": lambda x, w: x + w,
    "__radd__": lambda x, w: 1 + x,
    "__mul__": lambda x, w: x * 2.0,
    "__rsub__": lambda x, w: 3.0 - x,
    "__truediv__": lambda x, w: x / w,
    "__pow__": lambda x, w: x**2,
    "__neg__": lambda x, w: -x,
    "__getitem__": lambda x, w: x[0],
    "__lt__": lambda x, w: x < w,
    "__eq__": lambda x, w: (x == w).float(),
    "__invert__": lambda x, w: ~(x > 0),
    "__iadd__": lambda x, w: torch.relu(x).__iadd__(w),
    "relu": lambda x, w: x.relu(),
    "norm": lambda x, w: x.norm(),
    "__abs__": lambda x, w: abs(x),
    "__len__": lambda x, w: x * len(x),
}


def replace_for_a_while(name):
    weight = torch.eye(2) * 2

    def f(x):
        return OPERATORS[name](torch.sin(x), weight)

    fast = mica.compile(f)
    own = torch.Tensor.__dict__.get(name)
    original = getattr(torch.Tensor, name)
    inputs = [torch.ones(2, 2) + call for call in range(3)]
    for patched in (False, True, False):
        if patched:

            def replacement(*args):
                result = original(*args)
                return result + 2 if name == "__len__" else torch.mul(result, 2)

            setattr(torch.Tensor, name, replacement)
        pairs = []
        try:
            for x in inputs:
                pairs.append((fast(x), f(x)))
        finally:
            if patched and own is not None:
                setattr(torch.Tensor, name, own)
            elif patched:
                delattr(torch.Tensor, name)
        for a, b in pairs:
            same(a, b)
    assert report(fast).hits >= 3, str(report(fast))


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_or_a_method_of_tensors_is_replaced(name):
    if name != "__getitem__":
        replace_for_a_while(name)
        return
    # CPython takes a type for a sequence that once had this, and torch.tensor()
    # such a tensor: not in the process of the other tests.
    run_apart(replace_for_a_while, name)


def test_in_place_operators_by_statement_are_replaced():
    def f(x):
        y = x + 1
        y += 1
        y *= 3
        return y

    fast = mica.compile(f)
    own = torch.Tensor.__imul__
    for scale in (1, 7, 1):
        torch.Tensor.__imul__ = (
            own if scale == 1 else lambda a, b, s=scale: own(a, b * s)
        )
        try:
            for call in range(3):
                x = torch.ones(2, 2) + call
                same(fast(x), f(x))
        finally:
            del torch.Tensor.__imul__
    assert report(fast).hits >= 3


def registries() -> World:
    class Quantised(abc.ABC):
        pass

    class Layer:
        pass

    class Small(Layer):
        pass

    @functools.singledispatch
    def gain(layer):
        return 5.0

    gain.register(Layer, lambda layer: 6.0)
    gain.register(Quantised, lambda layer: 7.0)
    return World(
        Quantised=Quantised, Layer=Layer, Small=Small, gain=gain, layer=Small()
    )


REGISTERED = {
    "isinstance": lambda w, x: (
        x * (2 if isinstance(w.layer, w.Quantised) else 3)
    ),
    "issubclass": lambda w, x: (
        x * (2 if issubclass(w.Small, w.Quantised) else 3)
    ),
    "of a new object": lambda w, x: x * isinstance(w.Small(), w.Quantised),
    "one of several": lambda w, x: x * isinstance(w.layer, (int, w.Quantised)),
    "dispatch": lambda w, x: x * w.gain(w.layer),
    "dispatched": lambda w, x: x * w.gain.dispatch(w.Small)(w.layer),
    "token": lambda w, x: x * (abc.get_cache_token() % 1000),
}


@pytest.mark.parametrize("program", REGISTERED)
def test_classes_are_registered_later(program):
    def make():
        w = registries()
        w.f = lambda x: REGISTERED[program](w, x)
        return w

    agree(
        make,
        lambda w: w.Quantised.register(w.Small),
        lambda w: w.gain.register(w.Small, lambda layer: 9.0),
        served=program not in ("token", "dispatch", "dispatched"),
    )


def test_a_hook_of_an_abstract_class_is_asked_anew():
    def make():
        class Sized(abc.ABC):
            @classmethod
            def __subclasshook__(cls, other):
                return hasattr(other, "size") or NotImplemented

        class Layer:
            pass

        return World(
            Sized=Sized,
            Layer=Layer,
            f=lambda x: x * (1 + isinstance(Layer(), Sized)),
        )

    def change(w):
        w.Layer.size = 3
        w.Sized._abc_caches_clear()

    mine, other = make(), make()
    fast = mica.compile(mine.f)
    for _ in range(3):
        same(fast(torch.ones(2)), other.f(torch.ones(2)))
    change(mine)
    change(other)
    for _ in range(3):
        same(fast(torch.ones(2)), other.f(torch.ones(2)))


def test_a_new_subclass_is_seen():
    def make():
        class Base:
            gain = 1.0

        class First(Base):
            gain = 2.0

        def f(x):
            for plugin in Base.__subclasses__():
                x = x * plugin.gain
            return x

        return World(Base=Base, First=First, f=f)

    def add(w):
        w.second = type("Second", (w.Base,), {"gain": 3.0})

    def drop(w):
        w.second.__bases__ = (w.First,)

    agree(make, add, drop, served=False)


def test_asking_for_an_attribute_that_is_not_there_keeps_a_tensor_known():
    class Box:
        pass

    box = Box()
    box.x = torch.arange(16).reshape(2, 8)

    def f():
        x = box.x
        if hasattr(x, "fake_mode"):
            return x
        if getattr(x, "other", None) is not None:
            return x
        return x.view(-1, 8) + 1

    fast = mica.compile(f)
    for _ in range(3):
        same(fast(), f())
    assert report(fast).hits == 2, str(report(fast))
    box.x = torch.arange(8).reshape(1, 8)
    same(fast(), f())


def items_of(kind, value):
    """A class whose items are found by Python code."""

    class Items(kind):
        def __getitem__(self, key):
            return value

        def __contains__(self, key):
            return value > 5

        def __missing__(self, key):
            return value

    return Items


@pytest.mark.parametrize(
    "use",
    [
        lambda items: items["a"],
        lambda items: "b" in items,
        lambda items: items.get("a"),
        lambda items: items["a"] + len(items),
    ],
)
def test_a_dict_of_another_class_finds_its_items_otherwise(use):
    def make():
        class Plain(dict):
            pass

        items = Plain(a=2.0)
        w = World(items=items, other=items_of(dict, 7.0))
        w.f = lambda x: x * use(items)
        return w

    def turn(w):
        w.items.__class__ = w.other

    agree(make, turn)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: len("abcdef"[:n]),
        lambda x, n: len([1, 2, 3, 4, 5][n:]),
        lambda x, n: x.flatten()[:n].sum(),
        lambda x, n: x.repeat(2, 3)[0, n:].sum(),
    ],
)
def test_a_bound_of_a_slice_is_of_another_class(use):
    def counting(value):
        class Count:
            def __index__(self):
                return value

        return Count

    def make():
        bound = counting(2)()
        w = World(bound=bound, other=counting(3))
        w.f = lambda x: x * use(x, bound)
        return w

    def turn(w):
        w.bound.__class__ = w.other

    agree(make, turn)


def test_a_partial_that_is_given_another_state():
    def make():
        w = World(partial=functools.partial(lambda x, a, k: x * a + k, k=2.0))
        w.f = lambda x: w.partial(x, 3.0)
        return w

    def other_keywords(w):
        function = w.partial.func
        w.partial.__setstate__((function, (), {"k": 5.0}, {}))

    def other_function(w):
        w.partial.__setstate__((lambda x, a: x - a, (), {}, {}))

    def other_arguments(w):
        w.partial.__setstate__((lambda b, x, a: x - a * b, (4.0,), {}, {}))

    agree(make, other_keywords, other_function, other_arguments)

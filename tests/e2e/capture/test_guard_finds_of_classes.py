"""What the fuzzer of guards found of classes of containers, views and tuples.

Each is called with an eager twin in a world of its own; tools/guard_fuzz.py.
"""

from __future__ import annotations

import collections
import copy
import functools
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check


def called(text: str) -> Any:
    """Runs a text on the world; then the result, or the class of the error."""

    def step(world: Any, fn: Any) -> Any:
        if text:
            exec(text, {"torch": torch, **vars(world)})
        try:
            return fn(torch.tensor([1.0, 2.0, 3.0]))
        except Exception as error:
            return type(error).__name__

    return step


CALL = called("")

# A class of its own in each world, and two equal objects of it.
CLASSES = {
    "namedtuple": (
        "C = collections.namedtuple('C', 'k gain')",
        "C(1.0, 2.0)",
    ),
    "tuple": ("class C(tuple): pass", "C((1, 2))"),
    "list": ("class C(list): pass", "C([1, 2])"),
    "dict": ("class C(dict): pass", "C(a=1)"),
}
QUERIES = [
    "v == w",
    "v in [A(), 1.0]",
    "v in (A(), w)",
    "[v] == [w]",
    "(v, 1) == (w, 1)",
    "{'k': v} == {'k': w}",
    "dict(a=v) == dict(a=w)",
    "[w, 1].count(v) == 1",
    "any(v == q for q in [A(), w])",
    "collections.deque([v]) == collections.deque([w])",
    "bool(v)",
    "not v",
    "len(v) > 1",
    "1 in v",
]
CHANGES = [
    "C.__eq__ = lambda self, other: True",
    "C.__eq__ = lambda self, other: False",
    "C.__bool__ = lambda self: False",
    "C.__len__ = lambda self: 0",
    "C.__contains__ = lambda self, item: False",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("kind", CLASSES)
def test_operators_of_a_class_are_replaced(kind: str, query: str) -> None:
    for change in CHANGES:

        def make() -> Any:
            world: Any = World()
            names: dict[str, Any] = {"collections": collections}
            statement, value = CLASSES[kind]
            exec(
                f"{statement}\nclass A: pass\nV = {value}\nW = {value}\n"
                "def program(x):\n"
                "    v, w = V, W\n"
                f"    return x * (2.0 if {query} else 3.0)",
                names,
            )
            world.C = names["C"]
            world.program = names["program"]
            return world

        check(make, CALL, CALL, CALL, called(change), CALL, CALL)


@pytest.mark.parametrize("what", ["_base is None", "_is_view()"])
@pytest.mark.parametrize(
    "view", ["(x * 2).t()", "torch.ones(2, 3).t()[:, 0]", "(x + 1).view(-1)"]
)
def test_a_view_that_nothing_else_shows_is_one(view: str, what: str) -> None:
    def make() -> Any:
        world: Any = World()
        names: dict[str, Any] = {"torch": torch}
        exec(
            f"def program(x):\n    y = {view}\n    return x * (1 + y.{what})",
            names,
        )
        world.program = names["program"]
        return world

    check(make, *[CALL] * 6)


def test_an_argument_and_the_dict_of_its_attributes() -> None:
    class Config:
        def __init__(self) -> None:
            self.k = 2.0

    def make() -> Any:
        world: Any = World()
        world.config = Config()
        world.program = lambda x: (vars(world.config), world.config)
        return world

    def step(world: Any, fn: Any) -> Any:
        both = fn((vars(world.config), world.config))
        return both[0] is vars(world.config), both[1] is world.config

    def changed(world: Any, fn: Any) -> Any:
        both = fn((vars(world.config), world.config))
        world.config.__dict__ = dict(world.config.__dict__)
        again = fn(both)
        return again[0] is vars(world.config), again[0] is both[0]

    check(make, step, step, step, changed, step, changed)


@pytest.mark.parametrize(
    "query", ["0.0", "(OBJ in [nested])", "len([nested, nested])"]
)
def test_few_tuples_that_are_reached_in_many_ways(query: str) -> None:
    depth = 40  # By all ways it would take for ever.

    def make() -> Any:
        world: Any = World()
        names: dict[str, Any] = {"OBJ": object()}
        exec(
            "def program(nested):\n"
            "    x = nested\n"
            "    while isinstance(x, tuple):\n"
            "        x = x[0]\n"
            f"    return x + {query}",
            names,
        )
        world.program = names["program"]
        return world

    def step(world: Any, fn: Any) -> Any:
        nested: Any = torch.ones(2)
        for _ in range(depth):
            nested = (nested, nested)
        return fn(nested)

    check(make, step, step, step)


CALLS = [
    ("max([1.0, 2.0], key=V.wrong)", "K.wrong"),
    ("V.wrong(1)", "K.wrong"),
    ("V.method(3)", "K.method"),
    ("fn()", "fn"),
    ("fn(1, 2)", "fn"),
    ("fn(b=2)", "fn"),
    ("K.static()", "K.static"),
    ("list(map(V.method, [1.0]))[0]", "K.method"),
    ("V(2)", "K.__call__"),
    ("V[1]", "K.__getitem__"),
    ("V == 1", "K.__eq__"),
    ("V < 1", "K.__lt__"),
    ("functools.reduce(V.method, [1.0, 2.0])", "K.method"),
    ("K.method()", "K.method"),
]


@pytest.mark.parametrize("call, function", CALLS)
def test_a_function_whose_arguments_did_not_fit(
    call: str, function: str
) -> None:
    def make() -> Any:
        world: Any = World()
        names: dict[str, Any] = {"functools": functools}
        exec(
            "class K:\n"
            "    wrong = lambda v: v + 1\n"
            "    static = staticmethod(lambda a: a)\n"
            "    def method(self): return 1.0\n"
            "    def __call__(self): return 1.0\n"
            "    def __getitem__(self): return 1.0\n"
            "    def __eq__(self): return True\n"
            "    def __lt__(self): return True\n"
            "V = K()\n"
            "def fn(a): return a\n"
            "def program(x):\n"
            "    try:\n"
            f"        return x * float({call})\n"
            "    except TypeError:\n"
            "        return x + 100",
            names,
        )
        world.K, world.fn = names["K"], names["fn"]
        world.program = names["program"]
        return world

    other = called(f"{function}.__code__ = (lambda *a, **k: 5.0).__code__")
    check(make, CALL, CALL, CALL, other, CALL, CALL)


@pytest.mark.parametrize("kind", ["dict", "collections.Counter"])
def test_a_key_becomes_unhashable(kind: str) -> None:
    class Key:
        pass

    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

    def make() -> Any:
        world: Any = World()
        world.key = Key()
        world.table = eval(kind, {"collections": collections})(a=1.0)
        world.table[world.key] = 2.0
        world.program = lambda x: [v for _, v in list(world.table.items())]
        return world

    def changed(world: Any, fn: Any) -> Any:
        world.key.__class__ = Unhashable
        return CALL(world, fn)

    check(make, CALL, CALL, CALL, changed, CALL)


def test_a_text_among_keys_becomes_unhashable() -> None:
    class Key(str):
        pass

    class Unhashable(str):
        __hash__ = None  # type: ignore[assignment]

    def make() -> Any:
        world: Any = World()
        world.key = Key("c")
        world.table = collections.OrderedDict(a=1.0, b=2.0)
        world.table[world.key] = 3.0
        world.program = lambda x: x * (lambda **k: len(k))(**world.table)
        return world

    def changed(world: Any, fn: Any) -> Any:
        world.key.__class__ = Unhashable
        return CALL(world, fn)

    check(make, CALL, CALL, CALL, changed, CALL)


PARTS = {
    "real": "(x * (1 + 2j)).real",
    "real of a copy": "(x * (1 + 2j)).real.detach()",
    "view of a copy": "torch.view_as_real(x * (1 + 2j)).detach().t()",
    "conj": "(x * (1 + 2j)).conj()",
    "conj of a copy": "(x * (1 + 2j)).conj().detach()",
    "imag of conj": "(x * (1 + 2j)).conj().imag",
    "complex": "torch.view_as_complex((x * 2).view(-1, 2)).detach()",
}


@pytest.mark.parametrize("what", PARTS)
def test_views_of_complex_numbers_parts(what: str) -> None:
    def shown(tensor: torch.Tensor) -> Any:
        base = tensor._base
        seen = None if base is None else (base.dtype, base.shape)
        return tensor._is_view(), seen, tensor.stride(), tensor.is_conj()

    def make() -> Any:
        world: Any = World()
        names: dict[str, Any] = {"torch": torch, "shown": shown}
        exec(
            "def program(x):\n"
            f"    part = {PARTS[what]}\n"
            "    whole = part._base\n"  # Ends a piece.
            "    return x + 1, shown(part), whole is None, part",
            names,
        )
        world.program = names["program"]
        return world

    def step(world: Any, fn: Any) -> Any:
        return fn(torch.tensor([1.0, -2.0, 3.0, 0.5]))

    check(make, *[step] * 6)


def test_a_function_of_the_users_that_gives_a_view() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, rate: float) -> torch.Tensor:
            ctx.rate = rate
            return a.view_as(a)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return g.neg() * ctx.rate, None

    def make() -> Any:
        world: Any = World()

        def program(a: torch.Tensor, rate: float) -> Any:
            b = a * 2
            return b, Scaled.apply(b, rate), Scaled.apply(b, rate).view(2, 2)

        world.program = program
        return world

    def step(world: Any, fn: Any) -> Any:
        grads = []
        for which in (0, 1, 2):
            a = torch.ones(4, requires_grad=True)
            with torch.enable_grad():
                fn(a, 0.5)[which].sum().backward()
            grads.append(a.grad)
        return grads

    check(make, *[step] * 4)


# What Python, or torch.compile, notes down on a class without being asked; one
# of them is new, another attribute gone, so that there are as many as before.
@pytest.mark.parametrize("name", ["__slotnames__", "__doc__"])
@pytest.mark.parametrize(
    "read",
    ["C().k", "C.k", "getattr(C(), 'k', 2.0)", "hasattr(C, 'k') + 1"],
)
def test_a_class_that_gets_a_note_and_loses_an_attribute(
    name: str, read: str
) -> None:
    def make() -> Any:
        world: Any = World()
        names: dict[str, Any] = {"torch": torch}
        exec(
            "class C:\n    gain, k = 3.0, 1.0\n"
            "def program(x):\n"
            f"    C.{name} = []\n    return x.roll(int({read}) % 3)\n",
            names,
        )
        world.C, world.program = names["C"], names["program"]
        return world

    check(make, *[CALL] * 3, called("del C.k"), *[CALL] * 2)


def test_a_copy_of_an_object_whose_class_loses_an_attribute() -> None:
    def make() -> Any:
        world: Any = World()
        names: dict[str, Any] = {"torch": torch, "copy": copy}
        exec(
            "class C:\n    gain, k = 3.0, 1.0\n"
            "def program(x):\n"
            "    return x.roll(int(copy.copy(C()).k) % 3)\n",
            names,
        )
        world.C, world.program = names["C"], names["program"]
        return world

    check(make, *[CALL] * 3, called("del C.k"), *[CALL] * 2)

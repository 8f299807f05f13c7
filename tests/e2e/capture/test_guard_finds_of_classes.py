"""What the fuzzer of guards found of classes of containers, views and tuples.

Each is called with an eager twin in a world of its own; tools/guard_fuzz.py.
"""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check

import mica


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

    fn = mica.compile(eval(f"lambda x: {view}", {"torch": torch}))
    for _ in range(4):
        result = fn(torch.ones(3))
    assert mica.explain(fn).hits >= 1
    assert result._is_view()
    assert result._base is not None


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

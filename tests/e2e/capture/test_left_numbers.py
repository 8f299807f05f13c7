"""Which objects the numbers are that a run leaves: small ints, NaNs."""

from __future__ import annotations

import contextvars
import functools
import itertools
import math
import operator
import random
import threading
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report
from e2e.capture.two_worlds import World, check

import mica


@pytest.mark.parametrize(
    "read",
    [
        lambda world, x: int(x.sum().item()),
        lambda world, x: x.sum().item(),
        lambda world, x: world.rng.randint(0, 3),
        lambda world, x: world.n + 1,
    ],
)
@pytest.mark.parametrize(
    "way", ["returned", "update", "class", "item", "variable"]
)
def test_small_ints_that_a_run_leaves_are_the_interpreter_s_own(read, way):
    def make():
        world = World()
        world.rng, world.n, world.items = random.Random(3), 1, {}
        world.kind = type("Kind", (), {"n": 0})
        world.var = contextvars.ContextVar("var", default=0)

        def program(x):
            found = read(world, x)
            if way == "update":
                world.items.update(n=found)
            if way == "class":
                world.kind.n = found
            if way == "item":
                world.items["n"] = [found]
            if way == "variable":
                world.var.set(found)
            return found if way == "returned" else x * 2

        world.program = program
        return world

    def call(world, fn):
        found = fn(torch.tensor([1, 2]))
        world.n += 1
        left = [world.kind.n, world.var.get(), *world.items.values()]
        left = [v[0] if type(v) is list else v for v in left]
        if way == "returned":
            left.append(found)
        return left, [v is int(str(v)) for v in left]

    # A context keeps the variables that were set in it.
    contextvars.copy_context().run(check, make, *[call] * 6)


@pytest.mark.parametrize("what", [lambda n: n, lambda n: [n]])
def test_small_ints_of_a_variable_that_the_refused_step_reads(what):
    def make():
        world = World()
        world.n, world.write = 0, lambda text: None
        variable = contextvars.ContextVar("var")

        def program(x):
            print("x", file=world)
            variable.set(what(torch.tensor(world.n).item()))
            return x

        world.program, world.variable = program, variable
        return world

    def call(world, fn):
        fn(torch.ones(2))
        found = world.variable.get()
        found = found[0] if type(found) is list else found
        return found, found is int(str(found))

    contextvars.copy_context().run(check, make, *[call] * 4)


def waiting(n):
    yield 0
    yield n


def begun(n):
    generator = waiting(n)
    next(generator)
    return generator


def kind_of(n):
    class Kind:
        number, numbers = n, [n]

    return Kind


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n


# What a program makes of a number, and how the number is read from that.
MADE_OF_A_NUMBER = {
    "a generator": (waiting, lambda made: list(made)[-1]),
    "a generator that waits": (begun, next),
    "a generator expression": (lambda n: (n for _ in "ab"), next),
    "a repeat": (itertools.repeat, next),
    "a getter": (operator.itemgetter, lambda made: made.__reduce__()[1][0]),
    "a slice": (lambda n: slice(n, None), lambda made: made.start),
    "a range": (lambda n: range(n, 9), lambda made: made.start),
    "a method": (lambda n: n.__add__, lambda made: made.__self__),
    "a function in C": (lambda n: n.bit_length, lambda made: made.__self__),
    "a class": (kind_of, lambda made: made.number),
    "a list of a class": (kind_of, lambda made: made.numbers[0]),
    "a list of its instance": (
        lambda n: kind_of(n)(),
        lambda made: made.numbers[0],
    ),
    "a property": (property, lambda made: made.fget),
    "a static method": (staticmethod, lambda made: made.__func__),
    "a partial": (
        lambda n: functools.partial(max, n, n, k=n),
        lambda made: made.args[1],
    ),
    "an instance with slots": (Slotted, lambda made: made.n),
    "a list": (lambda n: [n], lambda made: made[0]),
    "a tuple": (lambda n: (n, [n]), lambda made: made[1][0]),
}


@pytest.mark.parametrize("what", MADE_OF_A_NUMBER)
@pytest.mark.parametrize("place", ["instance", "class", "thread"])
def test_small_ints_are_the_interpreter_s_own_wherever_a_run_leaves_them(
    what, place
):
    make_of, number_of = MADE_OF_A_NUMBER[what]

    def make():
        world = World()
        world.rng, world.kind = random.Random(3), type("Kind", (), {})
        world.local = threading.local()
        world.local.made = None
        holder = {
            "instance": world,
            "class": world.kind,
            "thread": world.local,
        }[place]

        def program(x):
            holder.made = make_of(world.rng.randint(0, 3))
            return x * 2

        world.program, world.holder = program, holder
        return world

    def call(world, fn):
        result = fn(torch.ones(2))
        number = number_of(vars(world.holder)["made"])
        return result, number, number is int(str(number))

    check(make, *[call] * 5)


@pytest.mark.parametrize("way", ["attribute", "argument"])
def test_what_the_user_s_code_is_told_of_are_the_interpreter_s_own_ints(way):
    def make():
        world = World()
        world.n, world.told = 1, []

        def tell(n):
            world.told.append(world.n if way == "attribute" else n)

        mica.annotate(tell, "host")

        def program(x):
            world.n += 1
            y = x * 2
            tell(world.n)
            return y

        world.program, world.tell = program, tell
        return world

    def call(world, fn):
        result = fn(torch.ones(2))
        return result, list(world.told), [v is int(str(v)) for v in world.told]

    check(make, *[call] * 5)


@pytest.mark.parametrize(
    "program, kept",
    [
        ("K.add(V[0] + 1e-3)", 4),
        ("K.add(V[0])", 1),
        ("K.add((V[0] + 1, 2))", 4),
        ("K.add(float('nan'))", 4),
        ("L.append(V[0] * 2)", 4),
        ("L.append(V[0])", 1),
        ("L.append(D['n'])", 1),
        ("return V[0] - 1", 4),
        ("return V[0]", 1),
        ("n = V[0] - 1; L.append(n); return n", 4),
    ],
)
def test_nans_are_as_many_as_the_program_makes(program, kept):
    nan = math.nan
    names: dict[str, Any] = {"K": set(), "L": [], "V": (nan, 1.0)}
    names["D"] = {"n": nan}
    exec(f"def program(x):\n    {program}\n", names)
    compiled: Any = mica.compile(names["program"])
    results = [compiled(torch.ones(2)) for _ in range(4)]
    found = [*names["K"], *names["L"]]
    found += [result for result in results if result is not None]
    assert len({id(one) for one in found}) == kept
    assert report(compiled).hits == 3


@pytest.mark.parametrize(
    "source, read, reached",
    [
        ("V = [1, 2, 3]", "(V * 2)[-1]", "V"),
        ("V = {'v': [1, 2, 3]}", "(V['v'] * 2)[-1]", "V['v']"),
        ("V = [1, 2, 3]", "sum(V)", "V"),
        ("V = {1: 1, 2: 2, 3: 3}", "sum(V.values())", "V"),
    ],
)
def test_what_a_callee_finds_is_the_programs_own(source, read, reached):
    names: dict[str, Any] = {"SEEN": []}
    exec(
        f"{source}\n"
        "class Sink:\n"
        f"    def write(self, text):\n        SEEN.append({reached}[2])\n"
        "SINK = Sink()\n"
        f"def program(x):\n    print({read}, file=SINK)",
        names,
    )
    compiled: Any = mica.compile(names["program"])
    # The second watched run follows the numbers that have changed.
    for i in range(5):
        exec(f"{reached}[1] = -{i}", names)
        compiled(torch.ones(2 + i))
    assert all(one is eval(f"{reached}[2]", names) for one in names["SEEN"])
    assert len(names["SEEN"]) == 10


def test_a_cache_keeps_the_numbers_that_eager_would():
    world = World()
    world.n = 1.0

    @functools.lru_cache(maxsize=2)
    def cached(key):
        return world.n

    def program(x, key):
        world.n = int(x.sum().item())
        return x * 2, cached(key)

    compiled: Any = mica.compile(program)
    for key in (1, 1, 2, 2, 3, 1):
        _, number = compiled(torch.full((3,), float(key)), key)
        assert number is 3 * key
        assert cached(key) is 3 * key

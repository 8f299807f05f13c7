"""What is captured anew and what is served, call by call.

A line is a program, its calls, and what happens at each: "c", it is captured;
"h", a record serves it; "p", it goes in pieces, graphs among them; "e", it
runs eagerly. The program is a function's name, or a lambda's text. A call is
the text of its arguments; a text after "!" changes the world before the next
one. Results, arguments and state are compared with those of an eager twin in a
world of its own. Each "c" leaves one record.
"""

# The texts below use what looks unused.
# ruff: noqa: F401

import bisect
import collections
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import itertools
import logging
import math
import operator
import os
import random
import sys
import threading
import time
import types
import uuid
import warnings
from typing import Any

import numpy
import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, run_text, same
from torch import nn

import mica


class Point:
    def __init__(self, x, y=1):
        self.x, self.y = x, y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __getitem__(self, key):
        return self.x[key]

    def __len__(self):
        return self.y

    def __bool__(self):
        return self.y > 0

    def __call__(self, a):
        return self.x + a

    def __eq__(self, other):
        return self.y == other.y

    @property
    def twice(self):
        return self.x * 2

    @staticmethod
    def make(a):
        return Point(a, 3)

    @classmethod
    def of(cls, a):
        return cls(a, 4)


class Lazy:
    def __getattr__(self, name):
        return len(name)


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


class Child(Point):
    def __call__(self, a):
        return super().__call__(a) * 2


@dataclasses.dataclass
class Options:
    scale: float = 2.0
    shift: int = 1


Pair = collections.namedtuple("Pair", "left right")


class Kind(enum.Enum):
    ADD = 1
    MUL = 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0
        self.names = ["a"]
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, a):
        return self.drop(self.layer(a)) * self.scale + len(self.names)


class Shifted(nn.Linear):
    def forward(self, a):
        return super().forward(a) + 1


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("total", torch.zeros(4))

    def forward(self, a):
        self.calls += 1
        self.total += a.sum(0)
        return a + self.calls


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, a):
        before, self.last = self.last, a * 2
        return a if before is None else a + before


def write_item(a, at):
    a[at] = 7
    return a


def write_list(items):
    items.append(items[0] + 1)
    return items


def write_dict(items, key):
    items[key] = items["a"] * 2


def swap(items):
    items[0], items[1] = items[1], items[0]


def write_attribute(point):
    point.x = point.x + 1
    return point


def accumulate(a, *rest, **named):
    for item in rest:
        a = a + item
    for key in sorted(named):
        a = a * named[key]
    return a


def only_keyword(a, *, n=1):
    return a + n


def branch(a, flag):
    if flag:
        return a + 1
    return a * 2


def loop(a, n):
    for i in range(n):
        a = a + i
    return a


def search(a, n):
    i = 0
    while i * i < n:
        i += 1
    else:
        a = a * 2
    return a + i


def skip(a, items):
    for item in items:
        if item is None:
            continue
        if item < 0:
            break
        a = a + item
    return a


def by_shape(a):
    return a + 1 if a.shape[0] > 2 else a * 2


def by_type(a):
    if isinstance(a, (list, tuple)):
        return a[0] + 1
    return a + 2


def by_value(a):
    if a.sum() > 0:
        return a + 1
    return a - 1


def by_length(items):
    return sum(items) if len(items) > 1 else items[0] * 2


def match(a, how):
    match how:
        case {"scale": scale}:
            return a * scale
        case [shift]:
            return a + shift
        case _:
            return a


def try_key(a, table):
    try:
        return a + table["x"]
    except KeyError:
        return a


def closure(a, n):
    def inner(b):
        return b + n

    return inner(a)


def recursive(a, n):
    return a if n == 0 else recursive(a + 1, n - 1)


def generator(a, n):
    def items():
        for i in range(n):
            yield a + i

    return list(items())


def make_adder(n):
    return lambda a: a + n


def from_numpy(a, array):
    return a + torch.from_numpy(array)


def nested_calls(a):
    return branch(loop(a, 2), True)


# What a program reads and sets: each world has its own.
WORLD = """\
X = torch.arange(12.0).reshape(3, 4)
Y = X * 0.5 - 1
SMALL = torch.ones(2, 4)
WIDE = torch.ones(3, 5)
DOUBLE = X.double()
INTS = torch.arange(12).reshape(3, 4)
FLAT = X.t()
NUMBER = 2
LIST = [1, 2]
SCALE = torch.tensor(2.0)
rows = types.SimpleNamespace(first=1, limit=2)

POINT, LAZY, NET = Point(torch.ones(4)), Lazy(), Net().eval()
COUNTING, KEEPING = Counting(), Keeping()
TABLE = {"a": 1, "b": 2}
KIND = Kind.ADD
SLOTTED = Slotted(torch.ones(4))
ARRAY = numpy.ones(4, "f")

ADD_ONE = make_adder(1)
cached = functools.lru_cache(lambda n: n * 2)
PARTIAL = functools.partial(accumulate, n=2)
NESTED = [[{"n": 2}]]
GET = TABLE.get

class Holder:
    TABLE = {"n": 2}

class Meta(type):
    META_TABLE = {"n": 2}

class WithMeta(metaclass=Meta):
    pass

@functools.lru_cache
def remembered(n):
    return {"n": 2}

@functools.cache
def kept_all(n):
    return {"n": 2}

remembered(1), kept_all(1)

ALIAS = types.SimpleNamespace(x=torch.ones(4), y=torch.zeros(4))
PAIRS = [torch.ones(4), torch.zeros(4)]
LOG = []
COUNT = itertools.count()
TALLY = collections.Counter()
OLD_FORWARD = Net.forward
HOOK = None
BNET = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU()).eval()

def grow(a):
    LIST.append(1)
    return a + len(LIST)

def rebind(a):
    global NUMBER
    NUMBER = 5
    return a + NUMBER

def mutable_default(a, seen=[]):
    return a + len(seen)

mutable_default.__annotations__ = {"n": 2}

"""

STATE = (
    "X",
    "Y",
    "SCALE",
    "NUMBER",
    "LIST",
    "TABLE",
    "POINT",
    "rows",
    "ALIAS",
    "PAIRS",
    "LOG",
    "TALLY",
)


def sequences(text: str) -> list[Any]:
    """The parameters of a test of sequences: program, steps, what happens.

    Args:
      text: A sequence a line, themes between them on lines of their own.
    """
    found = []
    theme = ""
    for line in text.splitlines():
        if "|" not in line:
            theme = line
            continue
        calls, want = line.rsplit(" => ", 1)
        program, *steps = calls.split(" | ")
        name = f"{theme}: {line}"
        found.append(pytest.param(program, steps, want, id=name))
    return found


def make_world(program: str) -> dict[str, Any]:
    """Returns a world of its own: what WORLD names, and the program."""
    if not program.isidentifier():
        program = "lambda " + program
    names = {k: v for k, v in globals().items() if not k.startswith("_")}
    return run_text(f"<{program}>", f"{WORLD}program = {program}\n", **names)


def _call(*args, **kwargs):
    return args, kwargs


def arguments(step: str, world: dict[str, Any]) -> Any:
    """Returns a call's arguments, and those by keyword, made anew."""
    return eval(f"_call({step})", world | {"_call": _call})


def _state(world):
    modules = [world[name] for name in ("NET", "COUNTING", "KEEPING", "BNET")]
    return [
        *(world[name] for name in STATE),
        *(dict(module.state_dict()) for module in modules),
        world["COUNTING"].calls,
        world["KEEPING"].last,
    ]


def check_sequence(program: str, steps: list[str], want: str) -> None:
    """Checks one sequence.

    Args:
      program: A function's name here or in a world, or a lambda's text.
      steps: Calls' arguments, and changes of the world behind "! ".
      want: A letter a call: "c", "h", "p" or "e".
    """
    eager, served = make_world(program), make_world(program)
    compiled = mica.compile(served["program"])
    told = []
    kept = []  # What a call returned stays comparable while it lives.
    for step in steps:
        if step.startswith("! "):
            for world in (eager, served):
                exec(step[2:], world)
            continue
        found = []
        for world, fn in ((eager, eager["program"]), (served, compiled)):
            args, kwargs = arguments(step, world)
            torch.manual_seed(0)
            random.seed(0)
            if fn is compiled:
                result, letter = call_and_tell(fn, *args, **kwargs)
                told.append(letter)
            else:
                result = fn(*args, **kwargs)
            drawn = [random.getstate(), torch.get_rng_state()]
            found.append([result, args, kwargs, _state(world), drawn])
        same(found[1], found[0])
        kept.append(found)
    explanation = mica.explain(compiled)
    assert "".join(told) == want, str(explanation)
    of_graphs = sum(graph.num_watched for graph in explanation.graphs)
    made = of_graphs + explanation.dropped
    assert made == want.count("c")

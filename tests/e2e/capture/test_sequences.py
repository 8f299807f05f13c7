"""What is captured anew and what is served, call by call, theme by theme.

A line is a program, its calls, and what happens at each: "c", it is captured;
"h", a record serves it; "p", it goes in pieces, graphs among them; "e", it
runs eagerly. The program is a function's name, or a lambda's text. A call is
the text of its arguments; a text after "!" changes the world before the next
one. Results, arguments and state are compared with those of an eager twin in a
world of its own. Each "c" leaves one record.
"""

# The texts below use what looks unused.
# ruff: noqa: F401

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

SEQUENCES = """\
scalars
a, n: a + n | X, 1 | X, 1 | X, 2 | X, 1 | X, 2 => chchh
a, n: a * n | X, 0.5 | X, 0.5 | X, 0.25 | X, 0.75 | X, 0.5 => chchh
a, n: a + n | X, 1 | X, 1.0 | X, True | X, 1 => ccch
a, n: a + n | X, True | X, False | X, True => cch
a, n: a + n | X, 2j | X, 2j | X, 1j => eee
a, n: a + n.__class__(1) | X, 1 | X, 2 | X, 1.5 => ccc
a, n: (a, n) | X, 1 | X, 1 | X, 2 => chc
a, n: (a * 2, n + 1) | X, 1 | X, 1 | X, 2 | X, 2 => chch
a, n: a[n] | X, 0 | X, 0 | X, 1 | X, 0 => chch
a, n: a.sum(n) | X, 0 | X, 1 | X, 0 => cch
a, n: a if n is None else a + n | X, None | X, 1 | X, None | X, 1 => cchh
a, n: a + len(n) | X, "ab" | X, "ab" | X, "cd" | X, "abc" => chcc
a, n: a if n == "x" else -a | X, "x" | X, "y" | X, "x" | X, "z" => cchc
a, n: a + n // 2 + n % 3 | X, 5 | X, 5 | X, 4 => chc
a, n: a + math.floor(n) | X, 1.5 | X, 1.5 | X, 2.5 => chc
a, n: a + math.sqrt(n) | X, 2.0 | X, 2.0 | X, 3.0 | X, 4.0 => chch
a, n: a * -n | X, 1.5 | X, 2.5 | X, 3.5 | X, 1.5 => cchh
a, n: a + max(n, 2) | X, 1 | X, 1 | X, 3 => chc
a, n: a + round(n, 1) | X, 1.25 | X, 1.25 | X, 2.75 => chc
a, n: a + int(n) | X, "3" | X, "3" | X, "4" => chc
a, n: a.to(n) | X, torch.float64 | X, torch.float64 | X, torch.int32 => chc
a, n: a + float("nan") * n | X, 0.0 | X, 0.0 => ch
a, n: a + (n if n > 0 else -n) | X, 1.5 | X, 1.5 | X, -1.5 | X, 2.5 => chcc
a, n: a | X, 1 | X, 2 | X, 3 => ccc
a, n: a * (n and 2) | X, 0 | X, 0 | X, 3 => chc
a, n: f"{n}" == "3" and a + 1 | X, 3 | X, 3 | X, 4 => chc
containers
items: items[0] + items[1] | [X, Y] | [X, Y] | (X, Y) | [Y, X] | [X, Y, X] => \
chchc
items: items[0] | [X] | [X] | [Y] => chh
items: items[0] + 1 | [X, 1] | [X, 1] | [X, 2] => chc
items: items["a"] + 1 | {"a": X} | {"a": X} | {"a": Y, "b": 1} | {"b": 1, \
"a": Y} => chcc
items: items["a"]["b"][0] + 1 | {"a": {"b": [X]}} | {"a": {"b": [X]}} | {"a": \
{"b": (X,)}} => chc
items: [v + 1 for v in items.values()] | {"a": X} | {"a": X} | {"b": X} | \
{"a": X, "b": X} => chcc
items: {k: v * 2 for k, v in items.items()} | {"a": X} | {"a": X} | {"b": X} \
=> chc
items: items.get("a", SCALE) + 1 | {} | {} | {"a": X} | {} => chch
items: [a + 1 for a in items] | [X, Y] | [X, Y] | [X] | [X, Y] => chch
items: sum(items) | [X, Y] | [X, Y] | (X, Y) => chc
items: items[::-1] | [X, Y] | [X, Y] | [X, Y, X] => chc
items: (items, items) | [X] | [X] | [Y] => chh
items: [items[0], items[0] + 1] | [X] | [X] => ch
items: items + [SCALE] | [X] | [X] | [X, Y] => chc
items: "a" in items | {"a": 1} | {"a": 1} | {"b": 1} | {"a": 1} => chch
items: len(items) | [X] | [X] | [X, X] => chc
items: sorted(items)[0] + SCALE | [2, 1] | [2, 1] | [1, 3] => chc
items: dict(items, b=SCALE) | {"a": X} | {"a": X} | {"a": Y} => chh
items: set(items) == {1, 2} and SCALE + 1 | [1, 2] | [1, 2] | [2, 1] | [1, 3] \
=> chcc
items: items.left + items.right | Pair(X, Y) | Pair(X, Y) | Pair(Y, X) | \
Pair(X, 1) => chhc
items: items._replace(left=items.left + 1) | Pair(X, 1) | Pair(X, 1) | \
Pair(X, 2) => chc
items: items[0] is items[1] and items[0] + 1 | [X, X] | [X, X] | [X, Y] | [Y, \
Y] => chch
items: list(zip(items, items[1:])) | [X, Y] | [X, Y] => ch
items: [i * a for i, a in enumerate(items)] | [X, Y] | [X, Y] | [X, Y, X] => \
chc
items: collections.deque(items, maxlen=1)[0] + 1 | [X, Y] | [X, Y] | [Y] => \
chc
items: items.scale * SCALE + items.shift | Options() | Options() | \
Options(3.0) | Options(2.0, 5) => chcc
items: dataclasses.replace(items, shift=SCALE + 1) | Options() | Options() | \
Options(3.0) => chc
items: max(items, key=len)[0] + 1 | [[X], [X, Y]] | [[X], [X, Y]] | [[X, Y], \
[X]] => chc
items: items[KIND.name] + 1 | {"ADD": X} | {"ADD": X} | ! KIND = Kind.MUL | \
{"MUL": X} | {"MUL": X} => chch
items: SCALE * TABLE["a"] | 1 | 1 | ! TABLE["a"] = 3 | 1 | 1 | ! TABLE["b"] = \
9 | 1 => chchh
items: SCALE * len(LIST) | 1 | 1 | ! LIST.append(3) | 1 | ! LIST.pop() | 1 => \
chch
changes of containers
write_list | [X] | [X] | [Y] | [X, Y] => chhc
write_dict | {"a": X}, "b" | {"a": X}, "b" | {"a": Y}, "b" | {"a": X}, "c" => \
chhc
swap | [X, Y] | [X, Y] | [Y, X] => chh
items: items.append(items[0] + 1) | [X] | [X] | [Y] => chh
items: items.pop() + 1 | [X, Y] | [X, Y] | [Y] => chc
items: items.update(b=items["a"] + 1) | {"a": X} | {"a": X} => ch
items: items.setdefault("a", SCALE) + 1 | {} | {} | {"a": X} => chc
grow | X | X | X | X => eppp
tensors
a: a + 1 | X | X | Y | SMALL | X | SMALL => chhchh
a: a + 1 | X | DOUBLE | X | DOUBLE | INTS => cchhc
a: a + 1 | X | FLAT | X | FLAT => cchh
a: a * 2 | X | X[:2] | X[1:] | X[:, :2] => cchc
a, b: a + b | X, X | X, X | X, Y | Y, Y | X, X => chchh
a, b: a + b | X, SCALE | X, SCALE | X, X | X, SMALL[0] => chcc
a: a[1:, :2] | X | X | Y => chh
a: a[..., None, 1] | X | X => ch
a: a[a > 3] | X | X | Y => chc
a: a[[0, 2]] | X | X => ch
a: a[INTS[0] % 3] | X | X => ch
a: a.shape[0] * a | X | X | SMALL | X => chch
a: a.dtype == torch.float32 and a + 1 | X | X | DOUBLE | X => chch
a: a.view(a.size(0), -1) | X | X | SMALL => chc
a: a.numel() + a | X | X | SMALL => chc
a: a.ndim + a | X | X | X[0] | X => chch
a: a.new_zeros(a.shape) + a | X | X | SMALL => chc
a: [row * 2 for row in a] | X | X | SMALL | X => chch
a: [*a] | X | X | Y => chh
a: len(a) + a | X | X | SMALL => chc
a: a.T @ a | X | X | Y => chh
a: a.requires_grad or a + 1 | X | X | Y => chh
a: a.is_contiguous() and a + 1 | X | X | FLAT => chc
a: a.stride(0) + a | X | X | FLAT => chc
a: a + a.sum().item() | X | X | Y | X => chhh
a: a + int(a.sum()) | X | X | Y => chc
a: float(a.max()) * a | X | X | Y => chh
a: a.tolist()[0][0] + a | X | X => ch
a: bool(a.any()) and a + 1 | X | X | Y | X * 0 => chhc
a: torch.cat([a, a]).split(2) | X | X => ch
a: torch.stack(list(a)).chunk(2, 1) | X | X => ch
a: (a > 2).nonzero() | X | X | Y => chc
a: torch.unique(a) + 1 | X | X | Y => chh
a: a.max(1) | X | X | Y => chh
a: a.max(1).values + 1 | X | X => ch
a: a is X and a + 1 | X | X | Y => chc
a: torch.is_tensor(a) and a + 1 | X | X => ch
a: a.device.type == "cpu" and a + 1 | X | X => ch
in place
a: a.add_(1) | X | X | Y => chh
a: a.mul_(2).add_(a) | X | X => ch
a: torch.relu_(a) | X | X => ch
write_item | X, 0 | X, 0 | X, 1 => chc
write_item | X, (slice(None), 1) | X, (slice(None), 1) => ch
write_item | X, X > 3 | X, X > 3 => ch
a, b: a.copy_(b) | X, Y | X, Y | X, DOUBLE => chc
a, b: a.add_(b) is a | X, Y | X, Y | X, X => chc
a: a[0].add_(1) | X | X | Y => chh
a: a.view(-1)[::2].zero_() | X | X => ch
a: a.t_() | X | X | X => eee
a: torch.add(a, 1, out=a) | X | X => ch
a: (a.zero_(), a) | X | X => ch
a: a.clone().fill_(3) | X | X | SMALL => chc
a: a.__iadd__(1) | X | X => ch
a: a.detach().add_(1) is a | X | X => ch
a: SCALE.add_(a.sum()) | X | X | X => chh
a: a.requires_grad_() | X | X => ec
functions
ADD_ONE | X | X | Y => chh
accumulate | X, 1 | X, 1 | X, 1, 2 | X, 1 => chch
accumulate | X, n=2 | X, n=2 | X, m=2 | X, n=2, m=3 => chcc
accumulate | X, Y | X, Y | X, Y, Y | X, X => chcc
accumulate | X, *[1, 2] | X, 1, 2 | X, **{"n": 2} => chc
only_keyword | X | X | X, n=1 | X, n=2 => chcc
mutable_default | X | X | ! mutable_default.__defaults__[0].append(1) | X | X \
=> chch
closure | X, 1 | X, 1 | X, 2 => chc
recursive | X, 3 | X, 3 | X, 2 => chc
generator | X, 2 | X, 2 | X, 3 => chc
nested_calls | X | X | Y => chh
a: make_adder(3)(a) | X | X => ch
a: functools.partial(branch, flag=True)(a) | X | X => ch
a: functools.reduce(operator.add, [a, a, a]) | X | X => ch
a: list(map(ADD_ONE, [a, a])) | X | X => ch
a: list(filter(torch.is_tensor, [a, 1])) | X | X => ch
a: [f(a) for f in (torch.sin, torch.cos)] | X | X => ch
a: list(itertools.chain([a], [a + 1])) | X | X => ch
a: list(itertools.product([a], [1, 2])) | X | X => ch
a: (lambda b=2: a * b)() | X | X => ch
a: branch(a, NUMBER > 1) | X | X | ! NUMBER = 0 | X | ! NUMBER = 3 | X => \
chcc
a: branch(a, True) | X | X | ! branch = lambda a, flag: a - 1 | X | X => chch
a: a + cached(3) | X | X => ec
a, f: f(a) | X, torch.sin | X, torch.sin | X, torch.cos => chc
a, f: f(a) | X, ADD_ONE | X, ADD_ONE | X, make_adder(2) => chc
rebind | X | X | X => chh
classes
p: p.x + p.y | Point(X) | Point(X) | Point(Y) | Point(X, 2) | Point(X) => \
cchch
p: p.twice | Point(X) | Point(X) | Child(X) => ccc
p: p[0] | Point(X) | Point(X) => cc
p: len(p) + p.x | Point(X) | Point(X) | Point(X, 2) => ccc
p: p and p.x + 1 | Point(X) | Point(X) | Point(X, 0) => ccc
p, q: (p + q).x | Point(X), Point(Y) | Point(X), Point(Y) => cc
p, a: p(a) | Point(X), Y | Point(X), Y | Child(X), Y | Child(X), Y => cccc
a: Point(a, 2) | X | X | Y => chh
a: Point.make(a).x + Point.of(a).y | X | X => ch
p: p == Point(1, 1) and p.x + 1 | Point(X) | Point(X) | Point(X, 2) => ccc
p: getattr(p, "x") + hasattr(p, "z") | Point(X) | Point(X) => cc
p: isinstance(p, Child) or p.x + 1 | Point(X) | Point(X) | Child(X) => ccc
a: LAZY.abc + a | X | X => ch
a: POINT.x + a | X | X | ! POINT.x = torch.zeros(4) | X | X | ! POINT.y = 5 | \
X => chchh
a: POINT(a) | X | X | ! POINT.__class__ = Child | X | X => chch
a: type("T", (Point,), {"n": 3})(a).n + a | X | X => ch
a: Slotted(a).x + 1 | X | X => ch
a: SLOTTED.x + a | X | X | ! SLOTTED.x = 1 | X => chc
write_attribute | Point(X) | Point(X) | Point(Y) => eee
a: setattr(POINT, "z", a * 2) | X | X => ch
a: copy.copy(POINT).x + a | X | X => ep
a: KIND is Kind.ADD and a + 1 | X | X | ! KIND = Kind.MUL | X => chc
modules
NET | X | X | SMALL | X => chch
NET | X | X | ! NET.scale = 3.0 | X | X | ! NET.scale = 4.0 | X => chchh
NET | X | X | ! NET.names.append("b") | X | X => chch
NET | X | X | ! NET.layer.bias.data.zero_() | X => chh
NET | X | X | ! NET.layer = nn.Linear(4, 4); nn.init.ones_(NET.layer.weight); \
nn.init.ones_(NET.layer.bias) | X | X => chch
NET | X | X | ! NET.seen = torch.ones(4) | X => chh
NET | X | X | ! NET.new = 1 | X => chh
NET | X | X | ! NET.double() | DOUBLE | DOUBLE => chch
NET | X | X | ! NET.layer.weight.requires_grad_(False) | X => chc
NET | X | X | ! NET.drop.p = 0.1 | X => chc
NET | X | X | ! NET.layer.register_forward_hook(lambda m, i, o: o + 1) | X | \
X => chch
a: NET(a) | X | X | ! NET.drop.train(True); NET.drop.p = 0.0 | X | X => chch
COUNTING | X | X | X | X => cccc
KEEPING | X | X | X | X => cchh
a: nn.functional.linear(a, NET.layer.weight) | X | X => ch
a: [p.sum() for p in NET.parameters()] | X | X => ch
a: sum(p.numel() for p in NET.parameters()) + a | X | X => ch
a: dict(NET.named_buffers())["seen"] + a | X | X => ch
a: NET.training or a + 1 | X | X | ! NET.train() | X => chc
a: nn.Sequential(NET.layer, nn.ReLU())(a) | X | X => ch
builtins
a: a + abs(-2) + pow(2, 3) + divmod(7, 2)[1] | X | X => ch
a: a + min(1, 2) + max([3, 4]) + sum((1, 2)) | X | X => ch
a: a * all([True, 1]) + any([0]) | X | X => ch
a: [a + i for i in reversed(range(3))] | X | X => ch
a: a + ord("a") - len(chr(98) + hex(3)) | X | X => ch
a: a + int("12", 3) + float("0.5") | X | X => ch
a: isinstance(a, torch.Tensor) and callable(len) and a + 1 | X | X => ch
a: a[slice(0, 2)] | X | X => ch
a: list(zip(a, range(3))) | X | X => ch
a: "{:.1f}".format(2.25) == "2.2" and a + 1 | X | X => ch
a: a + len("a b c".split()) + "abc".find("c") | X | X => ch
a: a + operator.mul(2, 3) + math.gcd(4, 6) | X | X => ch
a: print() or a + 1 | X | X => ch
a: next(iter([a, 1])) + 1 | X | X => ch
a: type(a)(a) is not None and a + 1 | X | X => ch
a: vars(rows)["first"] + a | X | X | ! rows.first = 4 | X => chc
numpy
a: from_numpy(a, ARRAY) | X | X | ! ARRAY[0] = 5 | X => chc
a: a + numpy.sqrt(4.0) | X | X => ch
a: a * numpy.prod([2, 3]) | X | X => ch
a: a + torch.tensor(numpy.arange(4)) | X | X => ch
a, n: a + n | X, numpy.float32(2) | X, numpy.float32(2) | X, numpy.float32(3) \
=> chc
a, n: a[n] | X, numpy.int64(1) | X, numpy.int64(1) | X, numpy.int64(2) => chc
a: a.sum().numpy().item() | X | X => ch
a: a.sum().numpy() + 1 | X | X => ch
a: numpy.asarray(a.shape).prod() + a | X | X | SMALL => chc
control flow
branch | X, True | X, True | X, False | X, True => chch
branch | X, 1 | X, 1 | X, 0 => chc
branch | X, [] | X, [] | X, [1] => chc
loop | X, 2 | X, 2 | X, 3 | X, 2 => chch
search | X, 5 | X, 5 | X, 9 | X, 10 => chcc
skip | X, [1, None, 2] | X, [1, None, 2] | X, [1, -1, 2] => chc
by_shape | X | X | SMALL | X | SMALL => chchh
by_type | X | X | [X] | (X,) | X => chcch
by_value | X | X | -X | X | -X => chchh
by_length | [X] | [X] | [X, Y] | [X] => chch
match | X, {"scale": 2} | X, {"scale": 2} | X, [3] | X, None => chcc
try_key | X, {"x": 1} | X, {"x": 1} | X, {} | X, {} => chch
a: a + 1 if a.dim() == 2 else a | X | X | X[0] => chc
a, n: a + (n > 1) + (not n) | X, 2 | X, 2 | X, 0 => chc
a, items: [v for v in items if v > 1][0] + a | X, [1, 2] | X, [1, 2] | X, [3, \
0] => chc
a: next(i for i in range(5) if i * i > NUMBER) + a | X | X | ! NUMBER = 9 | X \
=> chc
sizes
a: a.reshape(-1) | X | X | SMALL | WIDE | X => chcch
a: a @ a.T | X | SMALL | WIDE | X => ccch
a: torch.zeros(a.shape[0], 2) | X | SMALL | X | SMALL => cchh
a: a[: a.shape[0] // 2] | X | X | SMALL => chc
a: a.expand(2, *a.shape) | X | X | SMALL => chc
a: torch.arange(a.shape[1]) + a | X | X | WIDE => chc
a: a.mean(0, keepdim=True) - a | X | SMALL | WIDE | X => ccch
a: a | X | SMALL | X => cch
random state
a: a + random.random() * 0 | X | X => ep
a: (random.seed(3), a + random.random()) [1] | X | X => ep
a: torch.manual_seed(1) and a + torch.rand(4) | X | X => ee
a: a + numpy.random.RandomState(0).rand() | X | X => ep
a: nn.functional.dropout(a, 0.0) | X | X => ch
what only the class or C code holds
a: Holder().TABLE["n"] + a | X | X | ! Holder.TABLE["n"] = 4 | X => chc
a: WithMeta.META_TABLE["n"] + a | X | X | ! WithMeta.META_TABLE["n"] = 4 | X \
=> chc
a: vars(rows).get("first") + a | X | X | ! rows.first = 4 | X => chc
a: len(vars(rows)) + a | X | X | ! rows.third = 4 | X => chc
a: PARTIAL.keywords["n"] + a | X | X | ! PARTIAL.keywords["n"] = 4 | X => chc
a: PARTIAL(a) | X | X | ! PARTIAL.keywords["n"] = 4 | X => chc
a: remembered(1)["n"] + a | X | X | ! remembered(1)["n"] = 4 | X => chc
a: kept_all(1)["n"] + a | X | X | ! kept_all(1)["n"] = 4 | X => chc
a: GET("a") + a | X | X | ! TABLE["a"] = 4 | X => chc
a: GET.__self__["a"] + a | X | X | ! TABLE["a"] = 4 | X => chc
a: mutable_default.__annotations__["n"] + a | X | X | ! \
mutable_default.__annotations__["n"] = 4 | X => chc
a: NESTED[0][0]["n"] + a | X | X | ! NESTED[0][0]["n"] = 4 | X => chc
changes of arguments
items: items.reverse() | [X, Y] | [X, Y] => ch
items: items.append(items.pop(0)) | [X, X] | [X, X] => ch
items: items.append(items.pop(0)) | [X, Y] | [X, Y] => ch
items: items.__setitem__(0, items[0] + 1) | [X] | [X] => ch
items: items.update(a=items["b"], b=items["a"]) | {"a": X, "b": Y} | {"a": X, \
"b": Y} => ch
items: items.clear() or items.extend([SCALE, SCALE + 1]) | [X, Y] | [X, Y] => \
ch
items: items["c"].__setitem__(0, items["c"][1]) | {"c": [X, Y]} | {"c": [X, \
Y]} => ch
p: setattr(p, "scale", p.scale + 1) | Options(X) | Options(X) => ch
p: setattr(p, "x", Y) | Point(X) | Point(X) | Point(X) => cch
a, items: items.__setitem__(0, a) or a + 1 | X, [X] | X, [X] | X, [Y] => chc
aliases
a: ALIAS.x.add_(1) + ALIAS.y | X | X | ! ALIAS.y = ALIAS.x | X | X => chch
a: ALIAS.x.add_(1) + ALIAS.y | X | X | ! ALIAS.y = ALIAS.x[:] | X | X => chch
a: ALIAS.x.add_(1) + ALIAS.y | X | X | ! ALIAS.y = ALIAS.x.view(2, \
2).t().reshape(-1) | X | X => chch
a: ALIAS.x.add_(a[0]) + a | X | X | ! ALIAS.x = X[0] | X | X => chch
a: PAIRS[0].mul_(2) + PAIRS[1] | X | X | ! PAIRS[1] = PAIRS[0] | X | X => \
chch
a, b: a.add_(1) + b | X, Y | X, Y | X, X | X, X | X, X[:] | X, X[:] => chchch
a, b: a[:2].add_(1).sum() + b[1:] | X, Y | X, X | X, X => cch
a, items: a.add_(1) + items[0] | X, [Y] | X, [Y] | X, [X] | X, [X] => chch
a: NET.layer.weight.add_(1) + NET.layer.bias | X | X | ! NET.layer.bias = \
nn.Parameter(NET.layer.weight.data[0]) | X | X => chch
effects
a: LOG.append(float(a.sum())) or a + 1 | X | X | Y => chc
a: LOG.append(a.shape) or a + 1 | X | X | SMALL => chc
a: LOG.append(time.time() > 0) or a + 1 | X | X => ep
a: logging.getLogger("m").setLevel(10) or a + 1 | X | X => ep
a: logging.getLogger("m").debug("x") or a + 1 | X | X => ep
a: a + numpy.random.rand() * 0 | X | X => ep
a: a + random.randint(1, 6) | X | X | X => epp
a: a + torch.rand(4) | X | X | X => chh
a: a + torch.randn_like(a) | X | X | X => chh
a: torch.nn.functional.dropout(a, 0.5) | X | X | X => chh
a: a + next(COUNT) | X | X | X => epp
a: (TALLY.update(["x"]), a + TALLY["x"])[1] | X | X | X => eee
a: a + len(os.environ.get("MICA_NOPE", "")) | X | X | ! \
os.environ["MICA_NOPE"] = "abc" | X | ! os.environ.pop("MICA_NOPE", 0) | X => \
chch
a: a + os.path.exists("none") | X | X => ep
a: a + time.monotonic() * 0 | X | X => ep
a: a + hash("x") * 0 + hash((1, 2)) % 3 | X | X => ch
a: a + id(a) * 0 | X | X => ep
a: a + uuid.uuid4().int * 0 | X | X => ep
a: a + torch.initial_seed() * 0 | X | X => ep
a: a + torch.get_num_threads() | X | X => ep
a: (torch.set_grad_enabled(False), a + 1)[1] | X | X => ch
a: a + (torch.get_default_dtype() == torch.float32) | X | X | ! \
torch.set_default_dtype(torch.float64) | X | ! \
torch.set_default_dtype(torch.float32) | X => chch
a: gc.collect() * 0 + a | X | X => ep
a: sys.getrefcount(a) * 0 + a | X | X => ep
a: threading.current_thread().name == "MainThread" and a + 1 | X | X => ch
a: inspect.currentframe().f_lineno * 0 + a | X | X => ep
module state
NET | X | X | ! NET.load_state_dict({k: v + 1 for k, v in \
NET.state_dict().items()}) | X | X => chhh
NET | X | X | ! NET.layer.register_forward_pre_hook(lambda m, i: (i[0] + 1,)) \
| X | X => chch
NET | X | X | ! nn.init.zeros_(NET.layer.weight) | X => chh
NET | X | X | ! NET.forward = lambda a: a * 3 | X | X => chch
NET | X | X | ! Net.forward = lambda self, a: a * 4 | X | X | ! Net.forward = \
OLD_FORWARD | X => chchh
NET | X | X | ! NET.layer.weight.data = torch.ones(4, 4) | X => chh
NET | X | X | ! NET.layer.weight = nn.Parameter(torch.ones(4, 4)) | X => chc
NET | X | X | ! del NET.layer.bias; NET.layer.bias = None | X => chc
NET | X | X | ! HOOK = \
torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1) | \
X | X | ! HOOK.remove() | X => chchh
NET | X | X | ! nn.utils.parametrizations.weight_norm(NET.layer) | X | X => \
chch
NET | X | X | ! NET.layer.weight.data.t_() | X | X => chhh
NET | X | X | ! NET.to(torch.float64).to(torch.float32) | X => chh
NET | X | X | ! NET.layer.requires_grad_(True) | X => chh
NET | X | X | ! NET.add_module("extra", nn.ReLU()) | X => chh
NET | X | X | ! NET.layer.__class__ = Shifted | X | X => chch
NET | X | X | ! NET.layer.in_features = 7 | X => chh
NET | X | X | ! NET.register_buffer("seen", torch.ones(4)) | X => chh
BNET | X | X | ! BNET.train() | X | X | X | ! BNET.eval() | X | X => chchhhh
BNET | X | ! BNET[0].momentum = 0.5 | X | ! BNET.train() | X | X | ! \
BNET[0].momentum = None | X | X => ccchcc
BNET | X | X | ! BNET[0].eps = 0.5 | X => chc
BNET | X | X | ! BNET[0] = nn.Identity() | X => chc
BNET | X | X | ! BNET.append(nn.ReLU()) | X => chc
BNET | X | X | ! BNET[0].track_running_stats = False; BNET[0].running_mean = \
None; BNET[0].running_var = None | X => chc
scalar provenance
a: (a.sum().item() > 0, 1)[0] * a | X | X | -X | X => chch
a: {"k": a.sum().item() > 0}["k"] * a | X | X | -X | X => chch
a: (lambda b=(a.sum().item() > 0): a if b else -a)() | X | X | -X | X => chch
a: a * [1, 2][int(a.sum().item() > 0)] | X | X | -X | X => chch
a: a + int(a[0, 1].item()) + 1 | X | X | X + 1 | X => chch
a: a + bool(a[0, 0]) | X | X | X + 1 => chc
a: a[: int(a[0, 2])] | X | X | X + 1 | X => chch
a: torch.zeros(int(a[0, 2])) | X | X | X + 1 | X => chch
a: a.sum().item() if a.sum().item() > 0 else a | X | X | -X | X => chch
a: max(a[0, 1].item(), a[0, 2].item()) * a | X | X | -X | X => chch
a: a * min(1.0, a[0, 1].item() / 3) | X | X | X + 5 | X => chch
a: a + round(a[0, 1].item()) | X | X | X + 5 => chc
a: f"{a[0, 1].item():.2f}" == "1.00" and a + 1 | X | X | X + 5 => chc
a: str(a[0, 1].item()) == "1.0" or a + 1 | X | X | X + 5 => chc
a: a + math.exp(a[0, 1].item()) | X | X | X + 5 => chc
a: a + len(str(a[0, 1].item())) | X | X | X * 10 | X => chch
a: a * (a[0, 1].item() == 1) | X | X | X + 1 | X => chch
a: a * (1 if a[0, 1] == 1 else 2) | X | X | X + 1 | X => chch
a: a * float(f"{a[0, 1].item()}") | X | X | X + 1 | X => chch
a: a.item() if a.numel() == 1 else a + 1 | X | X | X[0, 1] | X[0, 1] | X[0, \
2] => chchh
a: [i for i in a[0].tolist() if i > 1][0] + a | X | X | X + 5 | X => chch
a: a[0].numpy().max() + a | X | X | X + 5 | X => chch
a: numpy.asarray(a[0]).sum() * a | X | X | X + 5 => chc
a: a + torch.tensor(a[0].tolist()) | X | X | X + 5 => chc
a: a + torch.tensor([a[0, 1].item(), 1]).sum() | X | X | X + 5 => chc
a: a.clamp(max=a[0, 2].item()) | X | X | X + 5 => chh
a: torch.where(a > a.mean().item(), a, 0) | X | X | X + 5 => chh
a: torch.full((2,), a[0, 1].item()) | X | X | X + 5 => chh
a: torch.linspace(0, a[0, 1].item(), 3) | X | X | X + 5 => chh
a: torch.arange(a[0, 2].item()) | X | X | X + 5 | X => cheh
a: a.repeat(int(a[0, 1]), 1) | X | X | X + 1 | X => chch
a: a.view(int(a[0, 3]), -1) | X | X | X + 1 | X => chch
a: a ** a[0, 2].item() | X | X | X + 1 | X => chhh
a: a // a[0, 2].item() | X | X | X + 1 | X => chhh
a: a.sum().item() ** 0.5 + a | X | X | X + 5 => chh
a: -a.sum().item() + a | X | X | X + 5 => chh
a: (a.sum().item() - 1) / 2 * a | X | X | X + 5 => chh
a: divmod(a.sum().item(), 7)[1] + a | X | X | X + 5 => chc
a: a if not a.sum().item() else a + 1 | X | X | X * 0 => chc
a: a + (a.sum().item() in (66.0, 3)) | X | X | X + 5 => chc
a: a + 1 if all(v > 0 for v in a[0].tolist()) else a - 1 | X | X | X + 5 | X \
=> chch
a: sorted(a[0].tolist())[0] + a | X | X | -X | X => chch
a: a.argmax().item() + a | X | X | -X | X => chch
a: a[a.argmax().item() // 4] | X | X | -X | X => chch
a: a.max().item() is None or a + 1 | X | X => ch
a: (a.nonzero().shape[0]) * a | X | X | X + 1 | X => chch
a: a.unique().numel() + a | X | X | X * 0 | X => chch
a: a.isnan().any().item() or a + 1 | X | X | X * float("nan") | X => chch
a: a.equal(X) and a + 1 | X | X | Y | X => epep
a: torch.equal(a, Y) or a + 1 | X | X | Y | X => epep
a: torch.allclose(a, X) and a + 1 | X | X | Y | X => epep
a: (a == X).all() and a + 1 | X | X | Y | X => chch
a: a in [1, 2] if a.numel() == 1 else a | X | X | X[0, 1] | X[0, 3] => chcc
a: X[0] in a and a + 1 | X | X | Y => chc
a: [X, Y].index(a) if a is X else a | X | X => ch
a: a.tolist() == [[1]] or a + 1 | X | X => ch
changes of arguments, one object or two
a, items: LIST.append(1) or a + len(items) | X, [1, 2] | X, [1, 2] | X, LIST \
=> chc
a, items: items.append(a) or a + len(LIST) | X, [1, 2] | X, [1, 2] | X, LIST \
| X, [1, 2] => chcc
items, more: items.append(SCALE) or len(more) + SCALE | [X], [X] | [X], [X] | \
LIST, LIST => chc
items: items.pop("a") + 1 | {"a": X, "b": Y} | {"a": X, "b": Y} => ch
items: items.__setitem__("a", items.pop("a")) | {"a": X, "b": Y} | {"a": X, \
"b": Y} => ch
items: items.setdefault("c", []).append(SCALE * 2) | {"a": X} | {"a": X} | \
{"a": Y} => chh
items: items.append([items[0], {"k": items[0] * 2}]) | [X] | [X] | [Y] => chh
items: (items.append(items[0] * 2), items[-1] + 1)[1] | [X] | [X] | [Y] => \
chh
items: (items["a"].add_(1), items.update(b=items["a"]), items)[2] | {"a": X} \
| {"a": X} => ch
items: items.move_to_end("a") | collections.OrderedDict(a=X, b=Y) | \
collections.OrderedDict(a=X, b=Y) => ch
items: items.insert(0, 0.5) or items[0] * SCALE | [0.25] | [0.25] | [0.75] | \
[0.85] => chcc
items: items.update({3}) or SCALE + len(items) | {1, 2} | {1, 2} => ee
p: setattr(p, "new", SCALE * 3) | Options(1) | Options(1) => ch
p: delattr(p, "scale") | Options(1) | Options(1) => ch
p: setattr(p, "scale", p.scale + 1) | Options(X) | Options(Y) | Options(1) => \
chc
outcomes of comparisons
a: a * 2 if a.sum().item() > 0 else a | X + 1 | X + 2 | X + 3 | X + 4 | -X | \
-X - 1 | X => chhhchh
a: a * 2 if 0 < a.mean().item() <= 100 else a | X + 1 | X + 2 | X * 300 | X * \
400 | -X | X => chchch
a: a * 2 if a.sum().item() == 66 else a | X | X | X + 1 | X + 2 | X => chchh
a: a * 2 if a.sum().item() != 66 else a | X + 1 | X + 2 | X | X + 3 => chch
a: a * 2 if a.sum().item() else a | X + 1 | X + 2 | X * 0 | X + 3 => chch
a: a * 2 if not a.sum().item() else a | X + 1 | X + 2 | X * 0 | X + 3 => chch
a: a * max(a.sum().item(), 0.5) | X + 1 | X + 2 | -X | -X - 1 | X => chchh
a: a * min(1.0, a.sum().item()) | X + 1 | X + 2 | -X | -X - 1 | X => chchh
a: a if math.isnan(a.sum().item()) else a + 1 | X + 1 | X + 2 | X * \
float("nan") | X + 3 => chch
a: a if math.isinf(a.sum().item()) else a + 1 | X + 1 | X + 2 | X * \
float("inf") | X + 1 + float("inf") | X + 3 => chhch
a: a if math.isfinite(a.sum().item()) else a + 1 | X + 1 | X + 2 | X * \
float("inf") | X + 3 => chch
a: a * (1 / a.sum().item() if a.sum().item() > 0 else 1.0) | X + 1 | X + 2 | \
X * 0 | X + 3 => cheh
a, n: a * n if n > 0.5 else a | X, 0.75 | X, 0.8 | X, 0.9 | X, 0.25 | X, 0.3 \
| X, 0.9 | X, float("nan") => cchchhh
a, n: a * min(n, 1.0) | X, 0.75 | X, 0.8 | X, 1.5 | X, 2.5 | X, 0.3 => ccchh
a, n: (a * n, n > 0.5) | X, 0.75 | X, 0.8 | X, 0.9 | X, 0.25 | X, 0.3 => \
cchch
a: a + (a[0, 1].item() < a[0, 2].item()) | X | X + 1 | -X | X * 2 => chch
a: sorted([a[0, 1].item(), a[0, 2].item()])[0] + a | X | X + 1 | -X | X * 2 \
=> cccc
a: a[a > a.mean().item()] | X | X | X + 1 => chh
a: a.clamp(max=2.0) if a.max().item() > 2 else a.clone() | X | X + 1 | X * 0 \
| X + 5 => chch
a: a * 2 if a[0, 1].item() > SCALE else a | X | X + 1 | X + 5 | X + 6 => chch
a, n: a * 2 if n > a.mean() else a | X, 0.5 | X, 0.75 | X, 100.5 | X, 200.5 \
=> ccch
a, n: a * 2 if 1 < n < 2 else a | X, 1.5 | X, 1.25 | X, 1.75 | X, 2.5 | X, \
3.5 | X, 1.1 => cchchh
"""


def _lines():
    theme = ""
    for line in SEQUENCES.splitlines():
        if "|" not in line:
            theme = line
            continue
        text, want = line.rsplit(" => ", 1)
        program, *steps = text.split(" | ")
        yield pytest.param(program, steps, want, id=f"{theme}: {line}")


def _world(program):
    if not program.isidentifier():
        program = "lambda " + program
    names = {k: v for k, v in globals().items() if not k.startswith("_")}
    return run_text(f"<{program}>", f"{WORLD}program = {program}\n", **names)


def _call(*args, **kwargs):
    return args, kwargs


def _state(world):
    modules = [world[name] for name in ("NET", "COUNTING", "KEEPING", "BNET")]
    return [
        *(world[name] for name in STATE),
        *(dict(module.state_dict()) for module in modules),
        world["COUNTING"].calls,
        world["KEEPING"].last,
    ]


@pytest.mark.parametrize(("program", "steps", "want"), list(_lines()))
def test_sequence(program, steps, want):
    eager, served = _world(program), _world(program)
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
            args, kwargs = eval(f"_call({step})", world | {"_call": _call})
            torch.manual_seed(0)
            random.seed(0)
            if fn is compiled:
                result, letter = call_and_tell(fn, *args, **kwargs)
                told.append(letter)
            else:
                result = fn(*args, **kwargs)
            found.append([result, args, kwargs, _state(world)])
        same(found[1], found[0])
        kept.append(found)
    explanation = mica.explain(compiled)
    assert "".join(told) == want, str(explanation)
    assert len(explanation.graphs) == want.count("c")

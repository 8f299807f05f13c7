"""Random programs with state: served as eager, in values and in identities.

A program is a method of random statements over numbers, tensors and containers
that its object, a nested object and its globals hold. It is called several
times; in between, the outside changes that state. After each call, the result
and all state are compared with those of an eager twin: values, types, which
objects are one, and which tensors share memory. So are random generators, which
programs draw from.
"""

from __future__ import annotations

import collections
import pickle
import random
from typing import Any

import numpy
import pytest
import torch
from e2e.capture.agreement_of_calls import assert_served, run_text
from torch import Tensor

import mica

SEEDS_A_TEST = 25
CALLS = 7

STATEMENTS = """\
self.count += {int}
self.count = self.count * 2 % 7
self.hidden = torch.tanh(self.hidden + y)
self.rate = self.rate * 0.9
self.list.append(y * 2)
self.list.append(self.count)
self.list.clear()
self.list = [y, self.count]
self.list = self.list + [1]
self.list.insert(0, y)
self.list.extend([1, y])
self.list.pop() if self.list else None
y = y + len(self.list)
self.dict["key"] = y + 1
self.dict.pop("key", None)
self.dict["number"] = self.dict["number"] + 1
self.dict["number"] += {int}
y = y + self.dict["number"]
y = y + self.dict.get("key", 0)
y = y * self.rate
y = y + self.count
self.other = self.hidden
self.other = y
y = y + self.other
self.hidden, self.other = self.other, self.hidden
self.buffer.add_(y)
self.hidden.mul_(0.5)
y = y + self.buffer
self.set.add(self.count % 3)
GLOBALS["number"] += 1
y = y - GLOBALS["number"]
GLOBALS["tensor"] = y
self.flag = not self.flag
self.maybe = None if self.maybe is not None else y
y = y if self.maybe is None else y + self.maybe
self.float = self.float + 1
self.counter["a"] += 1
z, self.hidden = self.hidden, y; y = y + z
self.deque.append(y)
y = y + sum(self.deque)
self.tuple = (self.hidden, self.count)
y = y + self.tuple[0] * self.tuple[1]
self.inner.number += 1
self.inner.tensor = y
y = y + self.inner.tensor + self.inner.number
y = torch.relu(y) + 0.1
y = torch.tanh(y) * 0.5 + x
y = y * random.random()
y = y + self.rng.gauss(0.0, 1.0)
self.rate = random.uniform(0.5, 1.0)
self.rate = self.rate * random.random()
self.count = random.randint(0, 2)
self.float += random.random()
self.dict["number"] = numpy.random.randint(0, 3)
self.list.append(numpy.random.beta(0.5, 0.5))
self.hidden = self.hidden * self.rng.random()
GLOBALS["number"] = random.choice([0, 5])
z = random.random(); y = y + z * self.rate
y = y + numpy.random.randn() * self.count
for i, item in enumerate(self.list): y = y + item * i""".splitlines()

CONDITIONS = """\
self.count % 3 == 0
self.count > 4
len(self.list) > 2
"key" in self.dict
self.rate > 0.5
self.flag
self.hidden is not None
self.maybe is None
x.shape[0] == 2
GLOBALS["number"] % 2 == 0
self.count in self.set
bool((y.sum() > 0).item())
isinstance(self.float, float)
self.list and True
random.random() < 0.5
numpy.random.rand() > self.rate
self.rng.random() * self.count > 0.5
numpy.random.randn() * y.sum().item() > 0
self.counter["a"] > 2""".splitlines()

RESULTS = """\
y
(y, self.hidden)
(y, self.list)
{"y": y, "count": self.count}
(y + 0, self.other)
self.hidden
(y, self.buffer)
(y.sum(), self.list[:1])""".splitlines()

OUTSIDE = """\
m.count = 0
m.hidden = torch.ones(2, 3)
m.list.clear()
m.list = []
m.list.append(torch.ones(2, 3))
m.rate = 0.25
m.dict.pop("key", None)
m.dict["key"] = torch.ones(2, 3)
m.other = m.hidden
m.flag = True
GLOBALS["number"] = 5
m.buffer.zero_()
m.set.clear()
m.maybe = m.other
m.inner.tensor = m.buffer
m.hidden = m.buffer""".splitlines()

WORLD = """\
class Inner:
    def __init__(self):
        self.number, self.tensor = 0, torch.zeros(2, 3)

class Model:
    def __init__(self):
        self.count, self.rate, self.float, self.flag = 0, 1.0, 1.5, False
        self.hidden, self.other = torch.zeros(2, 3), torch.ones(2, 3)
        self.buffer, self.maybe = torch.zeros(2, 3), None
        self.list, self.dict, self.set = [], {"number": 0}, set()
        self.counter = collections.Counter()
        self.deque = collections.deque(maxlen=2)
        self.tuple, self.inner = (torch.zeros(2, 3), 1), Inner()
        self.rng = random.Random(3)

    def forward(self, x):
        y = x * 2
"""


def _statement(rng: random.Random, indent: int) -> list[str]:
    start = "    " * indent
    kind = rng.randrange(20)
    if kind < 18 or indent > 3:
        text = rng.choice(STATEMENTS)
        return [start + text.replace("{int}", rng.choice(["1", "2", "-1"]))]
    if kind == 18:
        head = f"for _ in range({rng.randint(1, 3)}):"
    else:
        head = f"if {rng.choice(CONDITIONS)}:"
    lines = [start + head]
    for _ in range(rng.randint(1, 2)):
        lines += _statement(rng, indent + 1)
    if kind == 19 and rng.random() < 0.5:
        lines += [start + "else:", *_statement(rng, indent + 1)]
    return lines


def _program(rng: random.Random) -> str:
    lines: list[str] = []
    for _ in range(rng.randint(2, 8)):
        lines += _statement(rng, 2)
    lines.append(f"        return {rng.choice(RESULTS)}")
    return WORLD + "\n".join(lines) + "\n"


def _make(seed: int, source: str) -> dict[str, Any]:
    world = run_text(
        f"<random state {seed}>",
        source,
        torch=torch,
        collections=collections,
        random=random,
        numpy=numpy,
        GLOBALS={"number": 0, "tensor": None},
    )
    world["m"] = world["Model"]()
    return world


def _generators() -> tuple[Any, Any]:
    return random.getstate(), numpy.random.get_state(legacy=False)


def _set_generators(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    numpy.random.set_state(states[1])


def _form(tree: Any, known: dict[Any, int]) -> Any:
    """Returns a tree as plain tuples; objects by the order of their finding."""
    if isinstance(tree, random.Random):
        tree = pickle.dumps(tree)
    if isinstance(tree, bytes):
        return tree
    if isinstance(tree, (int, float, str, type(None))):
        return tree
    which = known.setdefault(id(tree), len(known))
    if isinstance(tree, Tensor):
        memory = ("memory", tree.untyped_storage().data_ptr())
        shared = known.setdefault(memory, len(known))
        return (which, shared, str(tree.dtype), tree.shape, tree.clone())
    if isinstance(tree, tuple):
        return ("tuple", [_form(item, known) for item in tree])
    kind = type(tree).__name__
    if isinstance(tree, set):
        return (kind, which, sorted(tree))
    if isinstance(tree, (list, collections.deque)):
        return (kind, which, [_form(item, known) for item in tree])
    items = tree if isinstance(tree, dict) else vars(tree)
    return (kind, which, [(k, _form(v, known)) for k, v in items.items()])


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(_same(x, y) for x, y in pairs)
    if isinstance(a, float):
        return a == pytest.approx(b, nan_ok=True)
    return bool(a == b)


def _check(seed: int) -> int:
    """Returns how many calls were served."""
    rng = random.Random(seed)
    source = _program(rng)
    eager, served = _make(seed, source), _make(seed, source)
    compiled = mica.compile(served["m"].forward)
    kept = []  # What a call returned stays comparable while it lives.
    for call in range(CALLS):
        if rng.random() < 0.25:
            change = rng.choice(OUTSIDE)
            exec(change, eager)
            exec(change, served)
        shape = (2, 3) if rng.random() < 0.9 else (1, 3)
        x = torch.randn(shape, generator=torch.Generator().manual_seed(call))
        forms = []
        random.seed(call)
        numpy.random.seed(call)
        before = _generators()
        for world, fn in ((eager, eager["m"].forward), (served, compiled)):
            mine = x.clone()
            _set_generators(before)
            try:
                result = fn(mine)
            except Exception as error:
                result = (type(error).__name__, str(error))
            kept.append((mine, result))
            parts = [result, world["m"], world["GLOBALS"], mine]
            known: dict[Any, int] = {}
            forms.append([_form(part, known) for part in parts])
            forms[-1].append(pickle.dumps(_generators()))
        assert _same(*forms), f"seed {seed}, call {call}:\n{source}\n{forms}"
    return mica.explain(compiled).hits


@pytest.mark.parametrize("group", range(8))
def test_random_state(group: int) -> None:
    assert_served(_check, group * SEEDS_A_TEST, SEEDS_A_TEST)

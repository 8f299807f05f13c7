"""Keys and members that a program leaves are the objects that eager's would be.

A small int is the one that all share, wherever it stands; and a set has its
members in the same order, which goes by how it was made.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import random
import subprocess
import sys
import textwrap
import types
from typing import Any

import pytest
import torch

import mica


class Dict(dict):  # type: ignore[type-arg]
    pass


class Ordered(collections.OrderedDict):  # type: ignore[type-arg]
    pass


@dataclasses.dataclass
class Pair:
    a: Any = 0
    b: Any = 0


# Where the number n comes from.
SOURCES = {
    "item": "n = T.item()",
    "draw": "n = random.randint(0, 3)",
    "generator": "n = RNG.randrange(5)",
    "state": "n = W.n",
    "argument": "n = k",
    "size": "n = x.shape[0]",
    "counter": "W.n += 1; n = W.n",
    "list": "n = T3.tolist()[1]",
    "argmax": "n = int(x.argmax())",
}
LEFT = """\
W.d = {n: n}
W.d = collections.OrderedDict([(n, 1), ('a', n)])
W.d = Dict({n: n})
W.d = Ordered({n: n})
W.d = collections.defaultdict(list); W.d[n].append(n)
W.d = collections.Counter([n, 5])
W.d = {n, 4, 11, 3 + 8}
W.d = frozenset((n, 4, 11))
W.d = set(); W.d.add(n); W.d.add(4); W.d.add(12); W.d.discard(4)
W.d = {(n, 1): n}
W.d = {frozenset([n]): 2}
W.d = types.SimpleNamespace(a=n)
W.d = Pair(n, {n})
W.d = Pair(); W.d.__dict__[n] = n
W.d = {i: n for i in range(n)}
W.d = collections.ChainMap({n: n}, {1: n})
W.d = dict.fromkeys([n], n)
W.d = {n: n}.popitem()
W.d = {'alpha', 'beta', 'gamma', 'delta', 'epsilon', str(n)}
W.o[n] = n
W.o.setdefault(n, n)
W.o.update({n: n})
W.s[n] = n
W.m.add(n)
W.f[n] += 1
W.c.update([n])
W.oo[n] = 1
return x * 2, {n: n}, Ordered({n: n}), {n, 11}, frozenset([n])
a[n] = n
g[n] = n
a[n, 1] = n""".split("\n")


def numbers(value: Any) -> Any:
    """All that is in a value, small ints by which object they are."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value, id(value)
    if isinstance(value, torch.Tensor):
        return value.tolist()
    kind = type(value).__name__
    if isinstance(value, dict):
        items = [(numbers(k), numbers(v)) for k, v in value.items()]
        return kind, items
    if isinstance(value, (list, tuple, set, frozenset)):
        return kind, [numbers(v) for v in value]
    if hasattr(value, "__dict__"):
        return kind, numbers(vars(value))
    return value


def make(source: str, left: str) -> Any:
    world = types.SimpleNamespace(
        n=3,
        d=None,
        o=collections.OrderedDict(a=1, b=2),
        s=Dict(a=1),
        m={1, "q"},
        f=collections.defaultdict(int),
        c=collections.Counter(),
        oo=Ordered(z=1),
    )
    names: dict[str, Any] = {
        **globals(),
        "W": world,
        "T": torch.tensor(3),
        "T3": torch.tensor([1, 2, 3]),
        "RNG": random.Random(5),
    }
    text = f"{source}\n{left}\nreturn x * 2"
    exec("def program(x, k, a, g):\n" + textwrap.indent(text, "    "), names)
    return world, names


_NAMES = list(SOURCES)
CASES = [
    (source, left)
    for i, left in enumerate(LEFT)
    for source in ("argument", _NAMES[i % len(_NAMES)])
]


@pytest.mark.parametrize(("source", "left"), CASES)
def test_keys_and_members_are_eagers(source, left):
    worlds = [make(SOURCES[source], left) for _ in range(2)]
    eager = worlds[0][1]["program"]
    compiled = mica.compile(worlds[1][1]["program"], exact=True)
    for call in range(6):
        found = []
        for (world, names), fn in zip(worlds, (eager, compiled), strict=True):
            random.seed(call // 2 + 1)
            if call == 4:
                names["T"].fill_(2)
                world.n = 2
            x = torch.tensor([1.0, 2.0, 3.0])
            args = [3 + call // 3, {"u": 1}, collections.OrderedDict(v=1)]
            found.append(numbers([fn(x, *args), world, args]))
        assert found[0] == found[1], f"call {call}"


SETS = """
import torch, types, mica
world = types.SimpleNamespace(kept=set())
def program(x):
    world.kept = {"a", "b", "c", "d", x.shape[0]}
    big = {f"k{i}" for i in range(40)} - {"k3", "k4"}
    small = {"e", "f", "g", "h"}
    small.discard("e")
    small.add("i")
    return x * 2, small, big, frozenset("qwer")
def order(result):
    return [list(one) for one in (*result[1:], world.kept)]
x = torch.ones(2)
want = order(program(x))
compiled = mica.compile(program)
for _ in range(3):
    got = compiled(x)
    assert order(got) == want, (order(got), want)
    got[1].update("xyz")
assert compiled._mica_report()["hits"] == 2
"""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.once("it runs in processes of its own")
def test_sets_are_ordered_as_eagers_whatever_texts_hash_to(seed):
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SETS],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        check=True,
        timeout=120,
    )

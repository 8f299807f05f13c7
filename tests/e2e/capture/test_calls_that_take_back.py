"""A call into the world outside that takes back what the program changed.

Before it comes to that it shows the change; and it may raise.
"""

from __future__ import annotations

import collections
import contextvars
import types
from typing import Any

import pytest
import torch

import mica


class Dict(dict):  # type: ignore[type-arg]
    pass


class List(list):  # type: ignore[type-arg]
    pass


class Slots:
    __slots__ = ("v",)

    def __init__(self) -> None:
        self.v = 1


class Plain:
    v = 1


# What the state is at first, what the program does, and what takes that back.
CHANGES = {
    "an item": (lambda: {"a": 1}, "C['a'] = 2", "C['a'] = 1"),
    "an ordered item": (
        lambda: collections.OrderedDict(a=1, b=2),
        "C['a'] = 2",
        "C['a'] = 1",
    ),
    "an item by its method": (
        lambda: collections.OrderedDict(a=1, b=2),
        "C.__setitem__('a', 2)",
        "C['a'] = 1",
    ),
    "items": (
        lambda: collections.OrderedDict(a=1),
        "C.update(a=2)",
        "C['a'] = 1",
    ),
    "an order": (
        lambda: collections.OrderedDict(a=1, b=2),
        "C.move_to_end('a')",
        "C.move_to_end('b')",
    ),
    "a subclass": (lambda: Dict(a=1), "C['a'] = 2", "C['a'] = 1"),
    "a count": (
        lambda: collections.Counter(a=1),
        "C.update(['a'])",
        "C['a'] = 1",
    ),
    "a list": (lambda: [1, 2], "C.append(5)", "C.pop()"),
    "a list's item": (lambda: [1, 2], "C[0] = 5", "C[0] = 1"),
    "a list in a dict": (
        lambda: {"a": [1]},
        "C['a'].append(5)",
        "C['a'].pop()",
    ),
    "a list's subclass": (lambda: List([1]), "C.append(5)", "C.pop()"),
    "a list's order": (lambda: [2, 1], "C.sort()", "C.reverse()"),
    "a deque": (lambda: collections.deque([1]), "C.append(5)", "C.pop()"),
    "a set": (lambda: {1, 2}, "C.add(5)", "C.discard(5)"),
    "an attribute": (Plain, "C.v = 2", "C.v = 1"),
    "a new attribute": (Plain, "C.q = 2", "del C.q"),
    "attributes": (Plain, "C.__dict__.update(q=2)", "del C.q"),
    "a slot": (Slots, "C.v = 2", "C.v = 1"),
    "a class": (lambda: type("K", (), {"v": 1}), "C.v = 2", "C.v = 1"),
    "a variable": (
        lambda: contextvars.ContextVar("v", default=1),
        "C.set(2)",
        "C.set(1)",
    ),
}
PROGRAM = """
class Sink:
    n = 0
    seen = []
    def write(self, text):
        Sink.n += 1
        if text == "\\n":
            return
        Sink.seen.append(show(C))
        if Sink.n > 8:
            raise OSError("full")
        {back}
SINK = Sink()
def program(x):
    y = x * 2
    {change}
    print("text", file=SINK)
    return y
"""


def show(value: Any) -> str:
    if isinstance(value, contextvars.ContextVar):
        return str(value.get())
    if isinstance(value, types.SimpleNamespace | Plain):
        return str(vars(value))
    return str(value.v) if hasattr(value, "v") else repr(value)


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_call_takes_back_it_shows_first(what):
    contextvars.copy_context().run(compare, what)  # It would keep variables.


def compare(what: str) -> None:
    first, change, back = CHANGES[what]
    worlds: list[Any] = []
    for _ in range(2):
        names = {"C": first(), "show": show}
        exec(PROGRAM.format(change=change, back=back), names)
        worlds.append(names)
    fns = [worlds[0]["program"], mica.compile(worlds[1]["program"])]
    for call in range(8):
        found = []
        for names, fn in zip(worlds, fns, strict=True):
            try:
                result = fn(torch.ones(2)).tolist()
            except OSError as error:
                result = str(error)
            sink = names["Sink"]
            found.append([result, show(names["C"]), sink.n, sink.seen])
        assert found[0] == found[1], call

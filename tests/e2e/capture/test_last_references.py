"""A program that takes the last reference to an object of its state.

Whoever sees its end (a weak reference, a finalizer) sees it when eager's would,
also in the run that is watched.
"""

from __future__ import annotations

import collections
import types
import weakref
from typing import Any

import pytest
import torch

import mica


class Thing:
    def __init__(self, value: float = 2.0) -> None:
        self.value = value


class Loud(Thing):
    said: list[str]

    def __del__(self) -> None:
        self.said.append("gone")


# How the state holds the thing, and how the program lets go of it.
LOSSES = {
    "a list": (lambda t: [t], "W.held.clear()"),
    "its item": (lambda t: [t, 1], "W.held[0] = 3"),
    "its last item": (lambda t: [1, t], "W.held.pop()"),
    "a removed item": (lambda t: [t, 1], "del W.held[0]"),
    "a slice": (lambda t: [t, 1], "W.held[:1] = []"),
    "a dict": (lambda t: {"t": t}, "W.held.clear()"),
    "its value": (lambda t: {"t": t}, "W.held['t'] = None"),
    "a removed value": (lambda t: {"t": t}, "del W.held['t']"),
    "a popped value": (lambda t: {"t": t}, "W.held.pop('t')"),
    "a key": (lambda t: {t: 1}, "W.held.clear()"),
    "an ordered dict": (
        lambda t: collections.OrderedDict(t=t),
        "W.held.popitem()",
    ),
    "a deque": (lambda t: collections.deque([t]), "W.held.popleft()"),
    "a set": (lambda t: {t}, "W.held.clear()"),
    "an attribute": (
        lambda t: types.SimpleNamespace(t=t),
        "W.held.t = None",
    ),
    "a removed attribute": (
        lambda t: types.SimpleNamespace(t=t),
        "del W.held.t",
    ),
    "a place": (lambda t: t, "W.held = None"),
    "a read one": (lambda t: [t], "y = y * W.held[0].value; W.held.clear()"),
    "a read place": (lambda t: t, "y = y * W.held.value; W.held = None"),
    "a used one": (
        lambda t: [t],
        "t = W.held[0]; y = y * t.value; W.held.clear(); t = None; W.held = 1",
    ),
}
ASKS = {
    "a reference": "W.ref() is None",
    "a value": "len(W.values)",
    "a found value": "W.values.get('t') is None",
    "a key": "len(W.keys)",
    "a set": "len(W.set)",
    "a callback": "len(W.said)",
}


def make(loss: str, asked: str, kind: type) -> Any:
    hold, text = LOSSES[loss]
    world: Any = types.SimpleNamespace(said=[])

    def renew() -> None:
        thing: Any = kind()
        if kind is Loud:
            thing.said = world.said
        world.held = hold(thing)
        if kind is Loud:
            return
        world.ref = weakref.ref(thing, lambda _: world.said.append("gone"))
        world.values = weakref.WeakValueDictionary(t=thing)
        world.keys = weakref.WeakKeyDictionary({thing: 1})
        world.set = weakref.WeakSet([thing])

    names: dict[str, Any] = {"W": world}
    lines = ["y = x * 2", *text.split("; "), f"return y + float({asked})"]
    exec("def program(x):\n" + "".join(f"    {n}\n" for n in lines), names)
    world.renew = renew
    return world, names["program"]


def compare(loss: str, asked: str, kind: type) -> None:
    eager, program = make(loss, asked, kind)
    served, own = make(loss, asked, kind)
    compiled = mica.compile(own)
    for call in range(4):
        found = []
        for world, fn in ((eager, program), (served, compiled)):
            world.renew()
            world.said.clear()
            found.append([fn(torch.ones(2)).tolist(), list(world.said)])
        assert found[0] == found[1], f"call {call}"


@pytest.mark.parametrize("asked", ASKS)
@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_referenced_weakly_dies_at_once(loss, asked):
    compare(loss, ASKS[asked], Thing)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_finalizer_runs_at_once(loss):
    compare(loss, ASKS["a callback"], Loud)

"""Copies of objects in programs, and the addresses that id() gives."""

from __future__ import annotations

import copy
from typing import Any

import torch
from e2e.capture.agreement_of_calls import check, report, same, x
from torch import nn

import mica

CALLS = [(x(seed),) for seed in range(4)]


class Config:
    def __init__(self) -> None:
        self.width = 3
        self.rates = {"slow": [1, 2]}


class Own:
    """Says itself how it is copied."""

    def __init__(self) -> None:
        self.width = 3

    def __deepcopy__(self, memo: dict[int, Any]) -> Own:
        result = Own()
        memo[id(self)] = result
        result.width = copy.deepcopy(self.width, memo) + 1
        return result


class Kept:
    """Says itself what is kept of it."""

    def __init__(self) -> None:
        self.width = 3

    def __getstate__(self) -> dict[str, int]:
        return {"width": self.width + 1}


CONFIG = Config()
OWN, KEPT = Own(), Kept()
TABLE = [[1, 2], {"a": (3, 4)}]


def deep(a):
    config = copy.deepcopy(CONFIG)
    config.width += 1
    config.rates["slow"].append(5)
    return a * config.width + sum(config.rates["slow"])


def shallow(a):
    config = copy.copy(CONFIG)
    config.width = 7
    return a * config.width


def of_containers(a):
    table = copy.deepcopy(TABLE)
    table[0].append(9)
    return a * sum(table[0]) + table[1]["a"][1]


def by_hand(a):
    return a * copy.deepcopy(OWN).width + copy.copy(KEPT).width


def each_once(a):
    seen: dict[int, torch.Tensor] = {}
    b = a + 1
    for t in [a, b, a]:
        if id(t) not in seen:
            seen[id(t)] = t * 2
    met = {id(t) for t in (a, b)}
    met.add(id(seen))
    return [seen[id(t)] for t in [a, b, a] if id(t) in met]


def test_copies_are_of_one_graph():
    for f in (deep, shallow, of_containers, by_hand, each_once):
        # Some other module may register with copyreg meanwhile: a miss.
        assert report(check(f, *CALLS)).hits >= 2
    assert CONFIG.width == 3
    assert CONFIG.rates == {"slow": [1, 2]}


def test_what_is_copied_is_guarded():
    config = Config()

    def f(a):
        return a * copy.deepcopy(config).rates["slow"][0]

    fn = mica.compile(f)
    for value in (1, 1, 6, 6):
        config.rates["slow"][0] = value
        same(fn(*CALLS[0]), f(*CALLS[0]))
    assert report(fn).hits == 2


def test_who_is_the_same_tensor_is_guarded():
    def f(a, b):
        return a * len({id(a): 1, id(b): 2})

    fn = mica.compile(f)
    a, b = x(0), x(1)
    for args in [(a, b), (a, b), (a, a), (b, b), (b, a)]:
        same(fn(*args), f(*args))


def test_an_address_that_is_used_otherwise_is_refused():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = 0

        def forward(self, a):
            again = self.last == id(a)
            self.last = id(a)
            return a + (1 if again else 2)

    fn = mica.compile(Net())
    plain = Net()
    a, b = x(0), x(1)
    for arg in (a, b, a, a, b, b):
        same(fn(arg), plain(arg))


def test_an_address_in_a_result_is_refused():
    for f in (
        lambda a: (a * 2, id(a)),
        lambda a: (a * 2, {id(a): 3}),
        lambda a: (a * 2, [{"at": (1, id(a))}]),
        lambda a: (a * 2, str(id(a))),
        lambda a: (a * 2, id(a) % 7),
    ):
        fn = mica.compile(f)
        kept = [x(seed) for seed in range(4)]
        for a in kept:
            same(fn(a), f(a))
        assert not report(fn).hits

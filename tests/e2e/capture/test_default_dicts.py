"""Defaultdicts: what their factories make, and dicts that are new each call."""

from __future__ import annotations

import collections
import functools
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import same
from torch import nn

import mica


class Books:
    """A program's state: what keeps it is a defaultdict of some factory."""

    def __init__(self, factory: Any) -> None:
        self.made = 0
        self.items: Any = collections.defaultdict(factory or self.make)

    def make(self) -> list[float]:
        self.made += 1
        return [float(self.made)]

    def renewed(self, x):
        """Fills an empty one, and leaves another empty one."""
        items = self.items
        items["a"].append(2.0)
        items["b"].append(x.sum())
        count = len(items["a"]) + len(items["b"])
        self.items = collections.defaultdict(items.default_factory)
        return x * count + items["b"][-1]

    def kept(self, x):
        """Fills one that stays: the first call differs from the others."""
        first = self.items["a"]
        return x * len(first), len(self.items), list(self.items)

    def looked(self, x):
        """Asks without filling."""
        items = self.items
        n = len(items)
        y = x + (1 if "a" in items else 2) + len(items.get("a", ()))
        return y * (len(items) - n + 1)

    def state(self) -> Any:
        return self.made, repr(self.items), self.items.default_factory


def shown(value: Any) -> str:
    return repr(value).split(" at 0x")[0]


@pytest.mark.parametrize("factory", [list, lambda: [1.0], None, "partial"])
@pytest.mark.parametrize("method", ["renewed", "kept", "looked"])
def test_what_isnt_there_is_made(factory, method):
    if factory == "partial":
        factory = functools.partial(list, (1, 2))
    eager, ours = Books(factory), Books(factory)
    program = getattr(eager, method)
    compiled = mica.compile(getattr(ours, method))
    for i in range(6):
        x = torch.arange(3.0) + i
        same(compiled(x), program(x))
        assert shown(ours.state()[:2]) == shown(eager.state()[:2])
        assert type(ours.items) is collections.defaultdict
        assert (ours.state()[2] is list) == (eager.state()[2] is list)
    told = mica.explain(compiled)
    if factory is not None:  # A bound method, with a count of its own.
        assert told.hits >= 3, str(told)


def test_a_factory_that_raises_leaves_nothing():
    class Stop(Exception):
        pass

    def stop():
        raise Stop

    items = collections.defaultdict(stop)
    compiled = mica.compile(lambda x: x * items["a"])
    for _ in range(4):
        with pytest.raises(Stop):
            compiled(torch.ones(2))
    assert not items
    items.default_factory = None
    for _ in range(3):
        with pytest.raises(KeyError, match="a"):
            compiled(torch.ones(2))
    items.default_factory = int
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [0.0, 0.0]
    assert items == {"a": 0}


def test_a_new_one_makes_what_its_function_says():
    def program(x):
        sums = collections.defaultdict(lambda: x.sum() * 0)
        for i in range(4):
            sums[i % 2] = sums[i % 2] + x[i]
        nested: Any = collections.defaultdict(
            lambda: collections.defaultdict(int)
        )
        for word in ("a", "b", "a"):
            nested[word]["n"] += 1
        return sums[0] - sums[1] * nested["a"]["n"]

    compiled = mica.compile(program)
    for i in range(5):
        x = torch.arange(4.0) * i
        assert torch.equal(compiled(x), program(x))
    assert mica.explain(compiled).hits == 4


def test_as_an_argument_and_as_a_result():
    def program(items, x):
        made = collections.defaultdict(list, a=[x * 2])
        made["b"].append(items["n"])
        return made, x * len(items["l"])

    compiled = mica.compile(program)
    for factory in (list, list, tuple, list, str, str):
        given = [collections.defaultdict(factory, n=2) for _ in range(2)]
        x = torch.ones(2)
        want, got = program(given[0], x), compiled(given[1], x)
        torch.testing.assert_close(got, want)
        assert type(got[0]) is collections.defaultdict
        assert got[0].default_factory is list
        assert given[0] == given[1]
        assert given[1].default_factory is factory
    assert mica.explain(compiled).hits >= 3


@pytest.mark.parametrize("has_overflow", [False, True])
def test_a_step_with_a_scaler_is_one_graph(has_overflow):
    losses = []
    for run in (lambda step: step, mica.compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

        def step(x, y, model=model, optimizer=optimizer, scaler=scaler):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss.item(), scaler.get_scale()

        called = run(step)
        told = []
        with torch.enable_grad():
            for i in range(14):
                x = torch.randn(8, 8, generator=torch.manual_seed(i))
                if has_overflow and i in (5, 9):
                    x = x * float("inf")
                told += called(x, torch.arange(8) % 4)
            told.append(float(model[0].weight.detach().double().sum()))
        losses.append(told)
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert mica.explain(called).hits >= 7, str(mica.explain(called))

"""One float object in several places: each of them is followed by itself."""

import collections
import types

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same

import mica

HALF = 0.5
TABLE = {"k": HALF}
PAIR = types.SimpleNamespace(rate=HALF, other=HALF)
X = torch.ones(2)


def _of_a_global(x, n):
    return x * n + TABLE["k"] * 10


def _of_a_default(x, n, d=HALF):
    return x * n + d * 10


def _of_another_argument(x, n, m=HALF):
    return x * n + m * 10


def _of_the_state(x, n):
    return x * n + PAIR.other * 10


@pytest.mark.parametrize(
    "fn",
    [_of_a_global, _of_a_default, _of_another_argument, _of_the_state],
)
def test_an_argument_that_varies(fn):
    compiled = mica.compile(fn)
    for n in (0.25, HALF, 0.75, 1.5):
        same(compiled(X, n), fn(X, n))
    assert report(compiled).hits >= 2


def test_state_that_varies():
    def fn(x):
        return x * PAIR.rate + PAIR.other * 10

    compiled = mica.compile(fn)
    for rate in (0.25, HALF, 0.75, 1.5):
        PAIR.rate = rate
        same(compiled(X), fn(X))
    assert report(compiled).hits >= 2


@pytest.mark.parametrize("kind", [list, tuple])
def test_an_item_that_varies(kind):
    def fn(x, items):
        return x * items[0] + items[1] * 10

    compiled = mica.compile(fn)
    for n in (0.25, 0.75, HALF, 1.5, 2.5):
        items = kind([n, HALF])
        same(compiled(X, items), fn(X, items))
        assert items == kind([n, HALF])


def test_state_that_is_read_and_set():
    world = types.SimpleNamespace(mean=HALF, start=HALF)

    def fn(x):
        world.mean = world.mean * 0.5 + x.sum().item()
        return x * world.mean + world.start

    twin = types.SimpleNamespace(mean=HALF, start=HALF)
    compiled = mica.compile(fn)
    for i in range(6):
        x = X * i
        twin.mean = twin.mean * 0.5 + x.sum().item()
        same(compiled(x), x * twin.mean + twin.start)
        assert world.mean == pytest.approx(twin.mean)


@pytest.mark.parametrize("other", [2, 300])
def test_an_int_that_stands_in_two_places(other):
    table = {"k": other}

    def fn(x, n):
        return x * n + table["k"] * 10

    compiled = mica.compile(fn)
    for n in (1, other, 3, other, 4):
        same(compiled(X, n), fn(X, n))
    assert report(compiled).hits >= 2


def test_a_small_int_is_the_one_that_all_share():
    table = {"k": 2}

    def fn(x, n):
        return x * n + table["k"] * 10, n is table["k"]

    compiled = mica.compile(fn)
    for n in (1, 2, 3, 2, 4):
        same(compiled(X, n), fn(X, n))


def test_ints_are_shared_again_after_a_capture():
    state = types.SimpleNamespace(count=0)

    def fn(x):
        state.count = state.count + 1
        return x * state.count

    compiled = mica.compile(fn)
    for _ in range(6):
        compiled(X)
    assert report(compiled).hits >= 2
    assert state.count is 6  # noqa: F632


def test_an_int_that_stands_for_one_that_stands_for_another():
    table = collections.defaultdict(int)

    def fn(x, key):
        table[key] = table[key] + 2
        if table[key] > 5:
            table[key] = 0
        return x, {"k": table[key]}

    compiled = mica.compile(fn)
    for call in range(24):
        _, copy = compiled(X, "ab"[call // 4 % 2])
        shared = {0: 0, 2: 2, 4: 4}[copy["k"]]
        assert copy["k"] is shared, call

"""Promoted scalars and go where nothing follows them are exact."""

from __future__ import annotations

import math
import textwrap

import pytest
import torch
from e2e.capture.twin_worlds import Twins, programs

import mica

USES = programs("numbers.txt")
WORLD = USES.pop("world")[0]
VALUES = [(1.5, 3), (2.5, 4), (3.25, 5), (4.5, 3), (1.75, 4), (3.75, 2)]

# Where v and n come from: what defines f, and what calls it.
SOURCES = {
    "an argument": ("def f(x, v, n):\n{use}", "R = FN(X, V, N)"),
    "an attribute": (
        "class S: pass\nS = S(); S.v = 0.0; S.n = 0\n"
        "def f(x):\n    v = S.v; n = S.n\n{use}",
        "S.v = V; S.n = N; R = FN(X)",
    ),
    "a global": (
        "V = 0.0; N = 0\ndef f(x):\n    v = V; n = N\n{use}",
        "WORLD['V'] = V; WORLD['N'] = N; R = FN(X)",
    ),
    "a closure": (
        "def make(v=0.0, n=0):\n"
        "    def inner(x):\n        return g(x, v, n)\n"
        "    def put(a, b):\n        nonlocal v, n\n        v = a; n = b\n"
        "    return inner, put\n"
        "f, put = make()\ndef g(x, v, n):\n{use}",
        "put(V, N); R = FN(X)",
    ),
    "a list": (
        "L = [0.0, 0]\ndef f(x):\n    v = L[0]; n = L[1]\n{use}",
        "L[0] = V; L[1] = N; R = FN(X)",
    ),
    "item()": (
        "def f(x, v, n):\n    v = v.item(); n = n.item()\n{use}",
        "R = FN(X, torch.tensor(V, dtype=torch.float64), torch.tensor(N))",
    ),
    "a draw": (
        "D = random.Random(0)\n"
        "def f(x):\n    v = D.uniform(1, 5); n = D.randrange(2, 6)\n{use}",
        "R = FN(X)",
    ),
}


def run(use: str, source: str) -> Twins:
    body = textwrap.indent(USES[use][0] + "\nreturn r", "    ")
    make, call = SOURCES[source]
    text = f"{WORLD}\n{make.replace('{use}', body)}\n"
    twins = Twins(f"{use} of {source}", text)
    for v, n in VALUES:
        twins.call(
            call,
            then="(X, STATE_T)",
            X=torch.linspace(-1.0, 1.5, 6),
            V=float(str(v)),
            N=int(str(n)),
        )
    return twins


# An attribute, as numbers are found there, and for each use another source.
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_number_is_eager_s(use):
    others = [source for source in SOURCES if source != "an attribute"]
    run(use, "an attribute")
    run(use, others[list(USES).index(use) % len(others)])


# `y[i] = v` makes a tensor of the number, which the program follows.
STORES = [
    "set_item",
    "set_item_int",
    "set_slice",
    "set_all",
    "set_mask",
    "set_index_list",
    "set_index_tensor",
    "set_unpack",
    "set_star",
    "set_for",
    "set_two_dims",
    "set_from_expr",
    "set_requires_grad",
    "set_double",
    "set_loop",
    "set_via_fn",
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("use", STORES)
def test_a_number_stored_in_a_tensor_is_followed(use, source):
    assert run(use, source).letters.endswith("hhh")


def test_a_number_too_large_for_its_tensor_raises_as_eager():
    letters = run("set_big", "an attribute").letters
    assert "h" in letters and letters[3] == "e", letters


def test_an_exponent_that_varies_is_a_root_at_a_half():
    x = torch.tensor([4.0, -0.0, -math.inf, 2.0])
    compiled = mica.compile(lambda x, n: (x**n, x.pow(n)))
    for n in (1.5, 1.5, 2.5, 0.5, -0.5, 2.0, 3.0, 0.5):
        want = (x**n, x.pow(n))
        torch.testing.assert_close(compiled(x, n), want, equal_nan=True)
        for got, power in zip(compiled(x, n), want, strict=True):
            is_zero = power == 0
            assert torch.equal(got[is_zero].signbit(), power[is_zero].signbit())
    assert mica.explain(compiled).hits > 8

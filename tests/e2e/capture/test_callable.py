"""Compiled callables as callables: errors, threads, methods, reports."""

from __future__ import annotations

import gc
import time
import types
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from e2e.capture.agreement_of_calls import Net, X, check, report, same, x
from torch import nn

import mica


def test_exceptions_are_eagers():
    def f(a, b):
        return a @ b

    c = mica.compile(f)
    c(x(0, 2, 3), x(0, 3, 2))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        c(x(0, 2, 3), x(0, 2, 3))
    same(c(x(0, 2, 3), x(0, 3, 2)), f(x(0, 2, 3), x(0, 3, 2)))

    def g(table, i):
        return torch.nn.functional.embedding(i, table)

    c = mica.compile(g)
    c(x(0), torch.tensor([0, 1]))
    c(x(0), torch.tensor([2, 1]))
    with pytest.raises(IndexError):
        c(x(0), torch.tensor([0, 9]))
    same(c(x(0), torch.tensor([2, 1])), g(x(0), torch.tensor([2, 1])))

    def h(a):
        if a.shape[0] == 2:
            raise KeyError("two")
        return a

    c = mica.compile(h)
    c(x(0, 3))
    for _ in range(2):
        with pytest.raises(KeyError, match="two"):
            c(x(0, 2))
    with pytest.raises(TypeError, match="missing"):
        c()


def test_failed_run_writes_nothing():
    def f(a, table, i):
        a.add_(1)
        return torch.nn.functional.embedding(i, table)

    c = mica.compile(f)
    for index in (1, 2, 1):
        c(x(0), x(1), torch.tensor([index]))
    a = x(0)
    with pytest.raises(IndexError):
        c(a, x(1), torch.tensor([9]))
    same(a, x(0) + 1)  # Once, by eager.


def test_caught_exceptions():
    def f(a, d):
        try:
            return a * d["k"]
        except KeyError:
            return a - 1

    check(f, (x(), {"k": 2}), (x(), {}), (x(), {"k": 2}), hits=1)

    def g(a, b):
        try:
            return a @ b
        except RuntimeError:
            return a

    check(g, (x(0, 2, 3), x(0, 2, 3)), (x(0, 2, 3), x(0, 2, 3)))


def test_recursion_and_nesting():
    inner = mica.compile(lambda a: a * 2)

    def f(a, depth):
        return inner(a) if depth == 0 else f(a, depth - 1) + 1

    check(f, (x(0), 3), (x(1), 3), (x(1), 2), hits=1)


def test_nested_compiled_changes():
    k = [2.0]
    inner = mica.compile(lambda a: a * k[0])
    outer = mica.compile(lambda a: inner(a) + 1)
    same(outer(X), X * 2 + 1)
    same(outer(X), X * 2 + 1)
    assert report(outer).hits == 1
    k[0] = 3.0
    same(outer(X), X * 3 + 1)


def test_threads():
    m = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 4)).eval()
    c = mica.compile(m)

    def work(seed):
        with torch.no_grad():
            for i in range(200):
                a = x(seed * 1000 + i)
                same(c(a), m(a))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_keeps_no_input_alive():
    c = mica.compile(lambda a, b: a + b[0])
    a, b = x(0), [x(1)]
    refs = [weakref.ref(a), weakref.ref(b[0])]
    c(a, b)
    c(a, b)
    del a, b
    gc.collect()
    assert all(r() is None for r in refs)
    assert report(c).hits == 1


def test_method_decorator_and_forwarding():
    class Runner:
        def __init__(self, k):
            self.k = k

        @mica.compile
        def step(self, a):
            return a * self.k

    r, s = Runner(2), Runner(3)
    for a in (x(0), x(1)):
        same(r.step(a), a * 2)
        same(s.step(a), a * 3)
    r.k = 5
    same(r.step(X), X * 5)

    m = mica.compile(Net())
    assert m.eval() is m
    assert m.training is False
    assert m.scale == 2.0
    m.scale = 4.0
    assert m.__wrapped__.scale == 4.0
    assert len(list(m.parameters())) == 4
    assert m.to(torch.float64) is m


def test_fullgraph_raises():
    @mica.compile(fullgraph=True)
    def f(a):
        time.sleep(0)
        return a

    with pytest.raises(mica.CaptureError, match="sleep"):
        f(X)


def test_volatile_constant_gives_up():
    c = mica.compile(lambda a, k: a * len(k))
    for k in range(60):
        same(c(X, "k" * k), X * k)
    r = report(c)
    assert r.captures < 40
    assert len(r.graphs) <= 16
    assert r.given_up


def test_foreign_tracer_stays():
    import sys

    seen = []

    def tracer(frame, event, arg):
        seen.append(event)
        return tracer

    c = mica.compile(lambda a: a + 1)
    old = sys.gettrace()
    sys.settrace(tracer)
    try:
        same(c(X), X + 1)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(old)
    assert seen
    same(c(X), X + 1)
    same(c(X), X + 1)
    assert report(c).hits >= 1


def test_simple_namespace_and_enum():
    import enum

    class Mode(enum.Enum):
        A = 1
        B = 2

    ns = types.SimpleNamespace(k=2.0)

    def f(a, mode):
        return a * ns.k if mode is Mode.A else a + mode.value

    c = check(f, (x(), Mode.A), (x(), Mode.B), (x(1), Mode.A))
    ns.k = 3.0
    same(c(X, Mode.A), f(X, Mode.A))


def test_explain_reads_well():
    e = mica.explain(Net().eval())(X)
    assert str(e).startswith("Net: one graph\n")
    assert "fc.weight" in e.details()
    assert e.is_one_graph
    same(
        mica.Executor("cpu").run(e.graphs[0].program, feed={"a": X})[0].shape,
        X.shape,
    )

"""Changes by ways that few programs take, made at each call."""

from __future__ import annotations

import functools
import gc
import threading
import types
import weakref
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import Net, X, check, report, same, x
from torch import nn

import mica


def effects(fn: Any, read: Any, calls: int = 5) -> list[Any]:
    """What `read()` says after each call of the compiled `fn`."""
    compiled = mica.compile(fn)
    seen = []
    for _ in range(calls):
        compiled(X)
        seen.append(read())
    return seen


class Tally:
    total = 0
    log: list[int] = []

    def __init__(self):
        self.n = 0


@pytest.mark.parametrize(
    "bump",
    [
        lambda t, xs: list(map(xs.append, [1])),
        lambda t, xs: xs.extend([1]),
        lambda t, xs: xs.__iadd__([1]),
        lambda t, xs: xs.insert(0, 1),
        lambda t, xs: xs.__setitem__(slice(0, 0), [1]),
        lambda t, xs: t.__dict__.__setitem__("n", t.n + 1),
        lambda t, xs: t.__dict__.update(n=t.n + 1),
        lambda t, xs: setattr(t, "n", t.n + 1),
        lambda t, xs: object.__setattr__(t, "n", t.n + 1),
        lambda t, xs: vars(t).__setitem__("n", t.n + 1),
        lambda t, xs: setattr(type(t), "total", type(t).total + 1),
        lambda t, xs: globals().__setitem__("BUMPED", BUMPED + 1),
        lambda t, xs: exec("t.n += 1", {"t": t}),
        lambda t, xs: sorted([3, 1], key=lambda v: xs.append(1) or v),
        lambda t, xs: functools.partial(xs.append, 1)(),
        lambda t, xs: __import__("operator").iadd(xs, [1]),
        lambda t, xs: __import__("operator").methodcaller("append", 1)(xs),
        lambda t, xs: t.log.append(1),
        lambda t, xs: [xs.append(v) for v in (1,)],
        lambda t, xs: tuple(xs.append(v) for v in (1,)),
        lambda t, xs: xs.append(len(xs)) if X.sum() > 0 else None,
    ],
)
def test_each_effect_happens_each_time(bump):
    t, xs = Tally(), []
    Tally.total = 0
    Tally.log = []
    globals()["BUMPED"] = 0

    def f(a):
        bump(t, xs)
        return a + 1

    def read():
        return len(xs) + t.n + Tally.total + BUMPED + len(Tally.log)

    first = effects(f, read, 6)
    steps = {b - a for a, b in zip(first, first[1:], strict=False)}
    assert len(steps) == 1 and steps != {0}, first


BUMPED = 0


def test_lru_cache():
    calls = []

    @functools.lru_cache
    def table(n):
        calls.append(n)
        return torch.full((4,), float(n + len(calls)))

    def f(a, n):
        return a + table(n)

    c = mica.compile(f)
    for _ in range(4):
        same(c(X, 1), f(X, 1))
    table.cache_clear()
    for _ in range(3):
        same(c(X, 1), f(X, 1))


def test_mapping_proxy_and_thread_local():
    inner = {"k": 2.0}
    proxy = types.MappingProxyType(inner)

    class Local(threading.local):
        k = 1.0

    local = Local()

    def f(a):
        return a * proxy["k"] + local.k

    c = mica.compile(f)
    same(c(X), f(X))
    inner["k"] = 3.0
    same(c(X), f(X))
    local.k = 7.0
    same(c(X), f(X))
    results = []
    thread = threading.Thread(target=lambda: results.append(c(X)))
    thread.start()
    thread.join()
    same(results[0], X * 3.0 + 1.0)


def test_cycle_is_collected():
    m = Net().eval()
    m.fast = mica.compile(m.forward)
    same(m.fast(X), m(X))
    same(m.fast(X), m(X))
    assert report(m.fast).hits == 1
    ref = weakref.ref(m)
    del m
    gc.collect()
    assert ref() is None


def test_weakref_and_proxy():
    class Holder:
        k = 2.0

    h = Holder()
    ref, proxy = weakref.ref(h), weakref.proxy(h)

    def f(a):
        return a * ref().k + proxy.k

    c = mica.compile(f)
    same(c(X), f(X))
    h.k = 5.0
    same(c(X), f(X))


def test_iterators_made_before():
    it = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    zipped = zip(range(9), range(9), strict=True)

    def f(a):
        for v in zipped:
            return a + next(it) + v[0]

    c = mica.compile(f)
    assert [c(torch.zeros(1)).item() for _ in range(4)] == [1, 3, 5, 7]


def test_tensor_metadata_changes_in_place():
    def f(a):
        b = a + 1
        b.t_()
        b.unsqueeze_(0)
        b.mul_(2)
        return b.squeeze_(0) + 1

    check(f, (x(0),), (x(1),), (x(2),), hits=2)

    def g(a):
        a.t_()
        return a + 1

    check(g, (x(0),), (x(1),), (x(2),))


def test_state_tensor_shared_through_data():
    w = nn.Parameter(x(3, 4))
    v = nn.Parameter(torch.empty(4))
    v.data = w.data

    def f(a):
        w.data.add_(1)
        return a + v

    c = mica.compile(f)
    for k in range(1, 4):
        same(c(X), X + x(3, 4) + k)
    v.data = torch.zeros(4)
    same(c(X), X)
    same(c(X), X)


def test_exec_and_type_made_inside():
    def f(a):
        cls = type("K", (), {"k": 3.0})
        return a * cls.k

    check(f, (x(0),), (x(1),))

    def g(a):
        return a * len(globals())

    check(g, (x(0),), (x(1),))


def test_global_written_inside():
    global BUMPED
    BUMPED = 0

    def f(a):
        global BUMPED
        BUMPED += 1
        return a * BUMPED

    c = mica.compile(f)
    for k in range(1, 6):
        same(c(X), X * k)


def test_warnings_each_time():
    import warnings

    def f(a):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return a

    c = mica.compile(f)
    for _ in range(4):
        with pytest.warns(UserWarning):
            c(X)


def test_random_numbers_that_decide():
    def f(a):
        r = torch.rand(3)
        if r.sum() > 1.5:
            return a + r.sum()
        return a - torch.rand(3).sum()

    c = mica.compile(f)
    torch.manual_seed(1)
    got = [c(X) for _ in range(12)]
    torch.manual_seed(1)
    same(got, [f(X) for _ in range(12)])
    assert report(c).hits > 0


def test_random_numbers_before_a_failure():
    def f(table, i):
        r = torch.rand(2)
        return torch.nn.functional.embedding(i, table) + r.sum()

    c = mica.compile(f)
    for fn in (c, f):
        torch.manual_seed(1)
        fn(x(0), torch.tensor([0])), fn(x(0), torch.tensor([1]))
        with pytest.raises(IndexError):
            fn(x(0), torch.tensor([9]))
        fn.last = torch.rand(1) if fn is f else None
        if fn is c:
            mine = torch.rand(1)
    same(mine, f.last)


def test_argument_that_is_state():
    w = x(3, 4, 4)

    def f(a):
        return a @ w if a is not w else a + w

    c = mica.compile(f)
    for a in (w, x(1, 4, 4), w, x(2, 4, 4), w):
        same(c(a), f(a))

    def g(a):
        return a @ w

    for first, second in ((w, x(1, 4, 4)), (x(1, 4, 4), w)):
        c = mica.compile(g)
        for a in (first, first, second, second, first):
            same(c(a), g(a))

    options = {"k": 2.0}

    def h(a, o):
        return a * o["k"] + options["k"]

    c = mica.compile(h)
    same(c(X, options), h(X, options))
    same(c(X, options), h(X, options))
    same(c(X, {"k": 2.0}), h(X, {"k": 2.0}))
    same(c(X, {"k": 3.0}), h(X, {"k": 3.0}))


def test_argument_container_compared_to_state():
    box = [1.0]

    def f(a, b):
        return a + 1 if b is box else a - 1

    c = mica.compile(f)
    for b in ([1.0], box, [1.0], box):
        same(c(X, b), f(X, b))


def test_operators_that_work_by_themselves_in_memory():
    check(lambda a: torch.nn.functional.max_pool1d(a, 2), (x(0),), (x(1),))
    check(
        lambda a, n: torch.tensor_split(a, n)[0],
        (x(0), torch.tensor([1, 2])),
        (x(0), torch.tensor([2, 3])),
    )
    pack = nn.utils.rnn.pack_padded_sequence
    rnn = nn.GRU(4, 4, batch_first=True)

    def f(a, lengths):
        packed = pack(a, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(rnn(packed)[0])[0]

    check(
        f,
        (x(0, 2, 3, 4), torch.tensor([3, 1])),
        (x(1, 2, 3, 4), torch.tensor([2, 2])),
        (x(1, 2, 3, 4), torch.tensor([3, 1])),
    )


def test_partial_writes_to_new_memory():
    def f(a):
        out = torch.empty(3, 8)
        out[:, :4] = a
        out[:, 4:] = a * 2
        return out

    check(f, (x(0),), (x(1),), hits=1)


def test_named_results_of_torch():
    check(lambda a: (a.sort(), a.topk(2), a.max(1)), (x(0),), (x(1),), hits=1)


def test_torch_ops_and_recurrent_layers():
    check(lambda a: torch.ops.aten.add(a, a), (x(0),), (x(1),), hits=1)
    for layer in (nn.GRU(4, 4), nn.LSTM(4, 4), nn.RNN(4, 4)):
        check(layer, (x(0),), (x(1),), hits=1)


def test_autograd_functions_run_forward():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    check(lambda a: Double.apply(a) + 1, (x(0),), (x(1),), hits=1)

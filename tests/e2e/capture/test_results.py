"""What comes out, and the state of torch that it depends on."""

from __future__ import annotations

import collections

import pytest
import torch
from e2e.capture.agreement_of_calls import X, check, report, same, x
from torch import nn

import mica


def test_results_are_new_each_time():
    c = mica.compile(lambda a: a + 1)
    first = c(x(0))
    kept = first.clone()
    second = c(x(1))
    c(x(2))
    same(first, kept)
    assert first.data_ptr() != second.data_ptr()


def test_nested_results():
    Pair = collections.namedtuple("Pair", "a b")

    class Out(collections.OrderedDict):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.extra = 1

    class Plain:
        def __init__(self, v):
            self.v = v

    def f(a):
        h = a + 1
        out = Out(last=h, all=[h, a])
        return {
            "p": Pair(h, 3),
            "o": out,
            "q": Plain({"z": h * 2}),
            "n": None,
            "s": {1, 2},
            "t": (h, [h]),
        }

    c = check(f, (x(0),), (x(1),), (x(2),), hits=2)
    a = x(5)
    r = c(a)
    assert r["o"]["all"][1] is a
    assert r["o"]["last"] is r["p"].a is r["t"][0] is r["t"][1][0]


def test_view_results_share_memory():
    def f(a):
        h = a + 1
        return h, h[0], h.t(), a[1:], a.view(-1)

    c = mica.compile(f)
    for seed in range(3):
        a, p = x(seed), x(seed)
        got, want = c(a), f(p)
        same(got, want)
        for results, source in ((got, a), (want, p)):
            results[1].zero_()
            results[3].fill_(5)
            assert (results[0][0] == 0).all()
            assert (results[2][:, 0] == 0).all()
            assert (source[1:] == 5).all()
        same(got, want)
    assert report(c).hits == 2


def test_returns_state_and_inputs_as_themselves():
    m = nn.Linear(4, 4)
    c = mica.compile(lambda a: (a, m.weight, m, a.detach()))
    for seed in range(3):
        a = x(seed)
        r = c(a)
        assert r[0] is a
        assert r[1] is m.weight
        assert r[2] is m
        assert r[3].data_ptr() == a.data_ptr()


def test_expanded_and_strided_results():
    check(
        lambda a: ((a + 1).expand(2, 3, 4), (a * 2)[:, ::2], (a - 1)[1]),
        (x(0),),
        (x(1),),
        hits=1,
    )


def test_constant_results():
    c = check(
        lambda a: (
            3,
            "s",
            None,
            2.5,
            a.shape,
            torch.float32,
            torch.tensor([1, 2]),
        ),
        (x(0),),
        (x(1),),
        hits=1,
    )
    r = c(X)
    r[6].add_(1)
    same(c(X)[6], torch.tensor([1, 2]))


def test_iterator_results_are_refused():
    c = mica.compile(lambda a: (t for t in [a, a + 1]))
    for _ in range(3):
        assert len(list(c(X))) == 2


def test_grad_mode_and_autocast():
    m = nn.Linear(4, 4)
    c = mica.compile(lambda a: m(a).detach())
    same(c(X), m(X).detach())
    with torch.enable_grad():
        same(c(X), m(X).detach())
        assert c(X).requires_grad is False
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same(c(X), m(X).detach())
        assert c(X).dtype == torch.bfloat16
    same(c(X), m(X).detach())
    with torch.inference_mode():
        assert c(X).is_inference() == m(X).is_inference()
    same(c(X), m(X).detach())


def test_autocast_inside():
    m = nn.Linear(4, 4)

    def f(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m(a)

    check(f, (x(0),), (x(1),))


def test_no_grad_and_inference_mode_inside():
    m = nn.Linear(4, 4)

    @torch.no_grad()
    def f(a):
        return m(a)

    @torch.inference_mode()
    def g(a):
        return m(a)

    with torch.enable_grad():
        check(f, (x(0),), (x(1),), hits=1)
        c = mica.compile(g)
        for seed in range(3):
            got, want = c(x(seed)), g(x(seed))
            assert got.is_inference() == want.is_inference()
            torch.testing.assert_close(got.clone(), want.clone())


def test_default_dtype_and_device():
    c = mica.compile(lambda a: a.sum() + torch.ones(2))
    f = lambda a: a.sum() + torch.ones(2)  # noqa: E731
    same(c(X), f(X))
    torch.set_default_dtype(torch.float64)
    try:
        same(c(X), f(X))
    finally:
        torch.set_default_dtype(torch.float32)
    torch.set_default_device("meta")
    try:
        assert c(X.to("meta")).device.type == "meta"
    finally:
        torch.set_default_device(None)
    same(c(X), f(X))


def test_modes_and_subclasses():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    calls = []

    class D(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    class F(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    class T(torch.Tensor):
        pass

    c = mica.compile(lambda a: a + 1)
    c(X), c(X)
    with D():
        c(X)
    with F():
        c(X)
    assert len(calls) == 2
    assert type(c(X.as_subclass(T))) is T


@pytest.mark.parametrize(
    "make",
    [bytearray, object, lambda: iter("abc"), lambda: reversed(range(3))],
    ids=["bytearray", "object", "str_iterator", "range_iterator"],
)
def test_new_objects_that_the_collector_does_not_track(make):
    compiled = mica.compile(lambda a: (a + 1, make()))
    made = [compiled(X)[1] for _ in range(4)]
    assert len({id(item) for item in made}) == 4


@pytest.mark.parametrize(
    "fn",
    [
        lambda t: t.detach(),
        lambda t: (t, t.detach(), t.detach() * 2),
        lambda t: t.detach()[None],
        lambda t: t.data,
    ],
)
def test_what_is_detached_requires_no_grad(fn):
    compiled = mica.compile(fn)
    leaf = torch.ones(3, requires_grad=True)
    with torch.enable_grad():
        for _ in range(3):
            for t in (leaf, (leaf * 2).sum()):
                same(compiled(t), fn(t))
    assert report(compiled).hits == 4


def test_attributes_of_an_ordered_dict_come_along():
    """So load_state_dict() finds the versions of what `state_dict()` told."""

    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def states(a):
        return model.state_dict()

    def own(a):
        out = collections.OrderedDict(a=a * 2, b=a)
        out._metadata = {"version": 2, "of": out["a"]}
        return out, {"inner": collections.OrderedDict(c=a + 1)}

    def in_pieces(a):
        out = collections.OrderedDict(a=a * 2)
        out.told = [a]
        open("/dev/null").close()
        out["b"] = a + 1
        out.more = out["b"]
        return out

    for program in (states, own, in_pieces):
        compiled = mica.compile(program)
        for seed in range(5):
            same(compiled(x(seed)), program(x(seed)))
            got = compiled(x(seed))
            for part in got if isinstance(got, tuple) else (got,):
                want = program(x(seed))
                want = want[0] if isinstance(want, tuple) else want
                if "inner" not in part:
                    same(vars(part), vars(want))
        if program is not in_pieces:
            assert report(compiled).hits >= 8


def test_attributes_of_an_ordered_dict_that_is_left_come_along():
    model, kept = nn.BatchNorm1d(4), {"best": None}

    def program(a):
        kept["best"] = model.state_dict()
        return a * 2

    compiled = mica.compile(program)
    for seed in range(4):
        compiled(x(seed))
        assert kept["best"]._metadata == model.state_dict()._metadata
    assert report(compiled).hits == 3

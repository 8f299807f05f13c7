"""What comes in: guards on arguments."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import X, check, report, same, x

import mica


def test_hits_for_new_values():
    check(lambda a: a * 2 + 1, (x(0),), (x(1),), (x(2),), hits=2)


def test_scalars_are_guarded_by_type_and_value():
    c = check(
        lambda a, k: a * k,
        (x(), 2),
        (x(), 2),
        (x(), 3),
        (x(), 2.0),
        (x(), True),
        hits=1,
    )
    assert len(report(c).graphs) == 4


def test_negative_zero_and_nan():
    f = lambda a, k: a / k  # noqa: E731
    check(
        f,
        (x(), 0.0),
        (x(), -0.0),
        (x(), float("nan")),
        (x(), float("nan")),
        hits=2,  # By the second record, which takes any float.
    )


def test_shapes_dtypes_strides_layout():
    check(
        lambda a: a + 1,
        (x(0, 3, 4),),
        (x(1, 3, 4),),
        (x(0, 4, 3).t(),),
        (x(0, 3, 4).double(),),
        (x(0, 3, 8)[:, ::2],),
        (x(0, 1, 4).expand(3, 4),),
        hits=1,
    )


def test_branch_on_metadata():
    def f(a):
        if a.shape[0] > 3:
            return a + 1
        if a.is_contiguous():
            return a - 1
        return a * 5

    check(
        f,
        (x(0, 4, 4),),
        (x(0, 3, 4),),
        (x(0, 4, 3).t(),),
        (x(1, 3, 4),),
        hits=1,
    )


def test_same_tensor_twice_then_two():
    def f(a, b):
        a.add_(1)
        return a + b

    compiled = mica.compile(f)
    for same_object in (True, True, False, False, True):
        a, b = x(0), x(1)
        p, q = a.clone(), b.clone()
        if same_object:
            b, q = a, p
        same(compiled(a, b), f(p, q))
        same([a, b], [p, q])


def test_identity_of_tensors_decides():
    def f(a, b):
        return a + 1 if a is b else a - b

    c = mica.compile(f)
    a, b = x(0), x(1)
    same(c(a, b), f(a, b))
    same(c(a, a), f(a, a))
    same(c(b, b), f(b, b))
    same(c(b, a), f(b, a))
    assert report(c).hits == 2


def test_overlapping_views_with_write():
    def f(a, b):
        a.mul_(2)
        return b + 1

    c = mica.compile(f)
    for offsets in ((0, 6), (0, 6), (0, 3), (0, 0), (2, 0)):
        base, other = torch.arange(12.0), torch.arange(12.0)
        got = c(base[offsets[0] :][:6], base[offsets[1] :][:6])
        want = f(other[offsets[0] :][:6], other[offsets[1] :][:6])
        same(got, want)
        same(base, other)


def test_numpy_shares_memory_of_two_tensors():
    def f(a, b):
        a.mul_(2)
        return b + 1

    c = mica.compile(f)
    for shared in (False, False, True):
        array, plain = np.ones(4, np.float32), np.ones(4, np.float32)
        b, q = (
            (torch.from_numpy(array), torch.from_numpy(plain))
            if shared
            else (torch.ones(4), torch.ones(4))
        )
        same(c(torch.from_numpy(array), b), f(torch.from_numpy(plain), q))


def test_containers_of_inputs():
    Pair = collections.namedtuple("Pair", "a b")

    def f(box):
        return [box["k"][0] + box["k"][1], box["p"].a * box["n"]]

    def box(seed, n=2):
        return {
            "k": [x(seed), x(seed + 1)],
            "p": Pair(x(seed + 2), None),
            "n": n,
        }

    check(f, (box(0),), (box(5),), (box(1, 3),), hits=1)


def test_dict_order_and_keys_are_guarded():
    def f(d):
        out = 0
        for i, v in enumerate(d.values()):
            out = out + v * (i + 1)
        return out

    check(
        f,
        ({"a": x(0), "b": x(1)},),
        ({"b": x(0), "a": x(1)},),
        ({"a": x(0)},),
        ({"a": x(3), "b": x(1)},),
        hits=1,
    )


def test_dataclass_and_instances_as_inputs():
    @dataclasses.dataclass
    class Batch:
        ids: torch.Tensor
        scale: float = 1.0

    class Plain:
        def __init__(self, t, k):
            self.t, self.k = t, k

    def f(b):
        return b.ids * b.scale

    check(f, (Batch(x(0)),), (Batch(x(1)),), (Batch(x(1), 2.0),), hits=1)

    def g(p):
        return p.t * p.k

    c = mica.compile(g)
    for seed in range(4):
        same(c(Plain(x(seed), 2)), g(Plain(x(seed), 2)))
    same(c(Plain(x(9), 3)), g(Plain(x(9), 3)))
    assert report(c).hits >= 2


def test_mutated_argument_container():
    def f(items, a):
        items.append(a + 1)
        return len(items)

    c = mica.compile(f)
    mine, plain = [], []
    for seed in range(5):
        assert c(mine, x(seed)) == f(plain, x(seed))
    same(mine, plain)


def test_keyword_arguments_and_defaults():
    def f(a, *rest, k=2, **more):
        return a * k + sum(more.values()) + len(rest)

    c = mica.compile(f)
    same(c(x(), k=3), f(x(), k=3))
    same(c(x(), k=3), f(x(), k=3))
    same(c(x(), 1, 2, z=5), f(x(), 1, 2, z=5))
    same(c(x()), f(x()))
    f.__kwdefaults__["k"] = 7
    same(c(x()), f(x()))


def test_mutable_default_argument():
    def f(a, memo=[]):  # noqa: B006
        memo.append(1)
        return a * len(memo)

    c = mica.compile(f)
    results = [c(X)[0, 1].item() for _ in range(6)]
    assert results == [1, 2, 3, 4, 5, 6]


def test_a_view_isnt_detached_in_place():
    """Eager refuses that, and no guard tells whether a tensor is a view."""

    def program(a):
        a.detach_()
        return a * 2

    compiled = mica.compile(program)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="detach views in-place"):
        compiled(torch.ones(3)[:])


def test_what_a_program_made_is_detached_in_place():
    compiled = mica.compile(lambda a: (a * 2).detach_() + 1)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert report(compiled).hits == 2

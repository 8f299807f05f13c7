"""Calls over lists of tensors that share memory with each other."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same

import mica


def twice(a, b):
    torch._foreach_add_([a, b, a], 1.0)


def crosswise(a, b):
    torch._foreach_add_([a, b], [b, a])


def views(a, b):
    torch._foreach_mul_([a[:2], a[1:], b], 2.0)


def chain(a, b):
    torch._foreach_addcmul_([a, b], [b, a], [a, b], value=0.5)


def itself(a, b):
    torch._foreach_mul_([a, b], [a, b])


def maximum(a, b):
    torch._foreach_maximum_([a, b, a], [b, a, b])


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "program", [twice, crosswise, views, chain, itself, maximum]
)
def test_each_item_sees_what_those_before_it_wrote(program, exact):
    def make():
        a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 1.5, 2.0])

        def f(x):
            program(a, b)
            return x + a

        return f, a, b

    eager, served = make(), make()
    compiled = mica.compile(served[0], exact=exact)
    for _ in range(4):
        same(compiled(torch.ones(3)), eager[0](torch.ones(3)))
        same(served[1:], eager[1:])
    assert report(compiled).hits == 3

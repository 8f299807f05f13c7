"""Sums are eager's to the bit, on versions that add what was lost, too."""

import math
import random
import sys

import pytest
import torch
from e2e.capture.agreement_of_calls import report

import mica
from mica.in_python import add_up

X = torch.ones(3)
MOST = sys.float_info.max
NUMBERS = (0, 1, -3, True, 2**62, 2**63, -(2**63), 2**70, 1j)
NUMBERS += (0.1, -0.1, 0.0, -0.0, 1e16, -1e16, 1e308, 5e-324)
NUMBERS += (MOST, -MOST, -MOST / 3, math.inf, -math.inf, math.nan)


def test_add_up_is_sum():
    draw = random.Random(0)

    def some_number():
        if draw.random() < 0.6:
            return draw.choice(NUMBERS)
        return draw.uniform(-1, 1) * 2.0 ** draw.randrange(-100, 1024)

    for _ in range(4000):
        numbers = [some_number() for _ in range(draw.randrange(7))]
        start = draw.choice((0, 0, 1, 0.0, -0.0, 1.5, 2**63, True, 1j))
        want, got = sum(numbers, start), add_up(iter(numbers), start)
        assert (type(got), repr(got)) == (type(want), repr(want)), numbers


@pytest.mark.parametrize(
    "add",
    [
        lambda n: sum([1e16, n, -1e16]),
        lambda n: sum(k for k in (1e16, n, 3, -1e16)),
        lambda n: sum((k for k in (n, 0.1, n, 0.2)), -0.5),
        lambda n: sum({1: 1e16, 2: n, 3: -1e16}.values()),
    ],
)
def test_sums_of_numbers_that_vary_are_served(add):
    compiled = mica.compile(lambda x, n: (x * n, add(n)))
    for n in (0.3, 0.7, 1.1, 2.9, 0.3):
        product, total = compiled(X, n)
        assert torch.equal(product, X * n)
        assert (type(total), repr(total)) == (float, repr(add(n)))
    assert report(compiled).hits == 3

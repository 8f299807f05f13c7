"""functools' caches are left as eager leaves them."""

from __future__ import annotations

import functools

import pytest
import torch
from e2e.capture.twins_of_calls import agree

X = torch.ones(2)


@pytest.mark.parametrize("size", [None, 0, 1, 2, 8])
def test_what_is_kept_and_counted(size):
    def world():
        made = []

        @functools.lru_cache(maxsize=size)
        def mask(n):
            made.append(n)
            return torch.full((2,), float(n))

        def f(x, n):
            return x + mask(n)

        f.handle = mask
        return f, lambda: (mask.cache_info(), made)

    def elsewhere(number, mask):
        if number in (3, 7):
            mask(9)
        if number == 9:
            mask.cache_clear()

    calls = [(X, n) for n in (1, 2, 1, 3, 1, 2, 3, 1, 1, 2, 2, 3, 1, 1, 1)]
    agree(world, *calls, between=elsewhere)


def test_a_mask_that_is_kept_is_one_graph():
    def world():
        @functools.lru_cache(maxsize=8)
        def mask(n, device="cpu"):
            return torch.ones(n, n, device=device).tril()

        def f(x):
            y = mask(2) @ x
            return y + mask(2, device="cpu").sum()

        return f, mask.cache_info

    letters, _ = agree(world, *((X,),) * 6)
    assert letters.endswith("hhhh")


def test_what_is_used_last_is_kept_longest():
    def world():
        @functools.lru_cache(maxsize=2)
        def number(n):
            return n * 2

        def f(x):
            return x * number(1)

        f.handle = number
        return f, number.cache_info

    def elsewhere(number, cached):
        cached(number % 3 + 2)

    agree(world, *((X,),) * 8, between=elsewhere)


def test_a_cached_method():
    def world():
        class Model(torch.nn.Module):
            @functools.lru_cache  # noqa: B019
            def table(self, n):
                return torch.arange(float(n))

            @functools.cached_property
            def scale(self):
                return torch.full((2,), 3.0)

            def forward(self, x):
                return x * self.table(2) + self.scale

        model = Model()

        def f(x):
            return model(x)

        def show():
            return Model.table.cache_info(), sorted(vars(model))

        return f, show

    letters, _ = agree(world, *((X,),) * 6)
    assert letters.endswith("hhh")


def test_a_cached_function_as_a_callback():
    def world():
        @functools.cache
        def twice(n):
            return n * 2

        def f(x):
            return x * sum(map(twice, (1, 2, 1)))

        return f, twice.cache_info

    agree(world, *((X,),) * 6)


def test_a_cache_of_constants_that_pushes_its_own_results_out():
    def world():
        made = []

        @functools.lru_cache(maxsize=1)
        def twice(n):
            made.append(n)
            return n * 2

        def f(x):
            return x * twice(1) * twice(2)

        return f, lambda: (twice.cache_info(), made)

    agree(world, *((X,),) * 6)


def test_a_cached_function_between_prints_one_of_which_raises():
    def world():
        import io

        out = io.StringIO()

        @functools.cache
        def twice(n):
            return n * 2

        def f(x):
            a = twice(1)
            print("one", a, file=out)
            return x * a * twice(1)

        f.handle = out
        return f, twice.cache_info

    def close(number, out):
        if number == 4:
            out.close()

    letters, _ = agree(world, *((X,),) * 6, between=close)
    assert "h" in letters

"""Reductions of any axes, layouts and types, and orders, are eager's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import mica

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.int64, torch.int32, torch.uint8, torch.bool]

REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "std": torch.std,
    "var": torch.var,
    "any": torch.any,
    "all": torch.all,
    "count": torch.count_nonzero,
    "logsumexp": torch.logsumexp,
    "norm": lambda x, dim: torch.linalg.vector_norm(x, 2, dim),
    "norm 1": lambda x, dim: torch.linalg.vector_norm(x, 1, dim),
    "norm inf": lambda x, dim: torch.linalg.vector_norm(x, torch.inf, dim),
    "norm -inf": lambda x, dim: torch.linalg.vector_norm(x, -torch.inf, dim),
    "var 0": lambda x, dim: torch.var(x, dim, correction=0),
    "std mean": lambda x, dim: torch.cat(
        [t.flatten() for t in torch.std_mean(x, dim)]
    ),
    "std keepdim": lambda x, dim: torch.std(x, dim, keepdim=True),
}
ONE_AXIS: dict[str, Callable[..., Tensor]] = {
    "prod": torch.prod,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "max": lambda x, dim: torch.max(x, dim).values,
    "min": lambda x, dim: torch.min(x, dim).indices,
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
}
AXES = [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x,
    "permuted": lambda x: x.permute(2, 0, 1),
    "cut": lambda x: x[:, :, 2:-1],
    "steps": lambda x: x[:, ::2],
}
SHAPES = [(3, 4, 7), (2, 300, 9), (5, 3, 3000)]


def check(one: Callable[..., Tensor], x: Tensor, dim: object) -> None:
    want = one(x, dim)
    compiled = mica.compile(lambda x: one(x, dim), fullgraph=True)
    for _ in range(2):
        got = compiled(x)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if not want.is_floating_point():
        assert torch.equal(got, want)
        return
    exact = one(x.double(), dim)
    unit = torch.finfo(want.dtype).eps
    apart = (got.double() - exact).abs().nan_to_num()
    eagers = (want.double() - exact).abs().nan_to_num()
    assert torch.equal(got.isnan(), want.isnan())
    # Of float64 the exact numbers are eager's, rounded in another order.
    times, least = (64, 100) if want.dtype == torch.float64 else (4, 1)
    allowed = 2 * eagers + times * unit * (exact.abs().nan_to_num() + least)
    assert bool((apart <= allowed).all())


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    x = torch.randn(shape, dtype=torch.float64)
    if dtype.is_floating_point:
        return (x + 1).to(dtype)
    return (x * 2).abs().to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_eagers(
    name: str, layout: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    for shape in SHAPES:
        x = LAYOUTS[layout](numbers(shape, dtype))
        for dim in AXES:
            check(REDUCTIONS[name], x, dim)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64], ids=str)
@pytest.mark.parametrize("size", [3, 70])
def test_windows_that_overlap_are_eagers(size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (numbers((3, 4, 100), dtype) * 0.7).to(dtype).unfold(-1, size, 1)
    names = [*REDUCTIONS] if dtype.is_floating_point else ["sum", "any", "all"]
    for name in names:
        check(REDUCTIONS[name], x, -1)
        check(REDUCTIONS[name], x, (0, -1))
    for name in ("prod", "argmax", "min"):
        check(ONE_AXIS[name], x, -1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ONE_AXIS)
def test_reductions_of_one_axis_are_eagers(
    name: str, layout: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    for shape in SHAPES[:2]:
        x = LAYOUTS[layout](numbers(shape, dtype)) * 0.7
        for dim in (0, 1, -1):
            check(ONE_AXIS[name], x, dim)


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", ["any", "all", "count"])
def test_counts_of_integers_are_eagers(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape in SHAPES:
        for layout in LAYOUTS.values():
            for dim in AXES:
                check(REDUCTIONS[name], layout(numbers(shape, dtype)), dim)


@pytest.mark.parametrize("dtype", INTS[:2], ids=str)
@pytest.mark.parametrize("name", ["prod", "argmax", "argmin", "max", "cumsum"])
def test_integers_are_eagers(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape in SHAPES[:2]:
        for layout in LAYOUTS.values():
            x = layout(numbers(shape, dtype))
            for dim in (0, 1, -1):
                check(ONE_AXIS[name], x, dim)


SPECIAL = [torch.nan, torch.inf, -torch.inf, -0.0, 0.0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [*REDUCTIONS, "prod", "argmax", "argmin"])
def test_numbers_that_are_not_finite_are_eagers(
    name: str, dtype: torch.dtype
) -> None:
    one = (REDUCTIONS | ONE_AXIS)[name]
    for special in SPECIAL:
        for other in SPECIAL:
            x = torch.ones(40, 70, dtype=dtype)
            x[::3, 5] = special
            x[7, ::2] = other
            x[9] = special
            compiled = mica.compile(lambda x: (one(x, 0), one(x, 1)))
            for _ in range(2):
                got = compiled(x)
            for a, b in zip(got, (one(x, 0), one(x, 1)), strict=True):
                torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_mean_far_from_zero_leaves_variances_their_digits(
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(0)
    x = (torch.randn(300, 3000, dtype=torch.float64) + 300).to(dtype)
    compiled = mica.compile(lambda x: (x.var(0), x.var(1), x.var()))
    for _ in range(2):
        got = compiled(x)
    wide = x.double()
    tolerance = max(1e-5, 2 * torch.finfo(dtype).eps)
    for a, b in zip(got, (wide.var(0), wide.var(1), wide.var()), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=0)


ORDERS: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: x.flip(-1),
    "flip rows": lambda x: x.flip(0, 1),
    "flip all": lambda x: x.flip(0, 1, 2),
    "flip ends": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll(5, 1),
    "roll back": lambda x: x.roll(-2, -1),
    "roll all": lambda x: x.roll(7),
    "roll far": lambda x: x.roll(1000, 0),
    "tril": lambda x: x.tril(),
    "tril 2": lambda x: x.tril(2),
    "tril -40": lambda x: x.tril(-40),
    "triu": lambda x: x.triu(),
    "triu -3": lambda x: x.triu(-3),
    "triu far": lambda x: x.triu(2**62),
}


@pytest.mark.parametrize("dtype", FLOATS + INTS, ids=str)
@pytest.mark.parametrize("name", ORDERS)
def test_elements_go_where_eagers_go(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    one = ORDERS[name]
    for shape in [(3, 20, 33), (2, 33, 20), (1, 5, 64)]:
        x = numbers(shape, dtype)
        compiled = mica.compile(lambda x: one(x), fullgraph=True)
        for _ in range(2):
            got = compiled(x)
        assert torch.equal(got, one(x))

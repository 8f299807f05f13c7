"""Kernels that move or choose elements give eager's bits, in every type."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import mica

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]
FLOATING = DTYPES[:4]

COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.reshape(37, 84).t().contiguous(),
    "few columns": lambda x: x.reshape(3, -1).t().contiguous(),
    "few rows": lambda x: x.reshape(-1, 3).t().contiguous(),
    "permuted": lambda x: x.reshape(7, 37, 12).permute(2, 1, 0).contiguous(),
    "channels last": lambda x: x.reshape(3, 4, 7, 37).contiguous(
        memory_format=torch.channels_last
    ),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 12, 7, 37), 2),
    "pixel_shuffle 3": lambda x: F.pixel_shuffle(
        x.reshape(-1)[:2520].reshape(1, 18, 10, 14), 3
    ),
    "every other": lambda x: x.reshape(37, 84)[::2, ::3].clone(),
    "expanded": lambda x: x.reshape(37, 1, 84).expand(37, 5, 84).contiguous(),
    "columns expanded": lambda x: (
        x.reshape(37, 84, 1).expand(37, 84, 5).contiguous()
    ),
    "one expanded": lambda x: x.reshape(-1)[5].expand(6, 7).contiguous(),
    "part": lambda x: x.reshape(37, 84)[3:30, 5:70].clone(),
    "joined": lambda x: torch.cat(
        x.reshape(37, 84).chunk(4, 1)[::-1] + (x.reshape(37, 84),), 1
    ),
    "stacked": lambda x: torch.stack([x.reshape(37, 84)] * 3, 2),
    "padded": lambda x: F.pad(x.reshape(3, 4, 7, 37), (1, 2, 3, -2)),
    "padded with 1": lambda x: F.pad(x.reshape(37, 84), (16, 1), value=1),
    "gathered": lambda x: x.reshape(37, 84)[[5, 0, -1]],
    "selected": lambda x: x.reshape(37, 84).index_select(
        1, torch.tensor([5, 0, 83])
    ),
    "nothing": lambda x: x.reshape(37, 84)[:0].t().contiguous(),
}


def _numbers(dtype: torch.dtype) -> Tensor:
    if dtype == torch.bool:
        return torch.rand(37 * 84) > 0.5
    return (torch.randn(37 * 84) * 50).abs().to(dtype)


def _agree(program: Callable[[Tensor], object], *inputs: Tensor) -> None:
    compiled = mica.compile(program, fullgraph=True)
    for x in inputs:
        got, want = compiled(x), program(x)
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    (graph,) = mica.explain(compiled).graphs
    assert graph.hits == len(inputs) - 1
    assert "reference" not in graph.kernels, graph.plan_text


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str, dtype: torch.dtype) -> None:
    _agree(COPIES[name], *(_numbers(dtype) for _ in range(3)))


EXTREMES: dict[str, Callable[[Tensor], object]] = {
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1, keepdim=True),
    "argmax of all": torch.argmax,
}


@pytest.mark.parametrize("dtype", [*FLOATING, torch.int64], ids=str)
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("columns", [1, 7, 64, 200])
def test_extremes(name: str, dtype: torch.dtype, columns: int) -> None:
    def rows(seed: int) -> Tensor:
        torch.manual_seed(seed)
        # Many are equal, zeros have both signs.
        x = torch.randint(-3, 3, (9, columns)).float() * -0.5
        if dtype.is_floating_point:
            x[0, columns // 2 :] = float("nan")
            x[1] = float("-inf")
            x[2, -1] = float("inf")
            x[3] = float("nan")
        return x.to(dtype)

    _agree(EXTREMES[name], rows(0), rows(1), rows(2))


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (2, {}),
        (3, {"stride": 1, "padding": 1}),
        (4, {"stride": 3, "dilation": 2}),
        (5, {"stride": 2, "padding": 2, "ceil_mode": True}),
    ],
)
def test_pooling_along_rows(
    kernel: int, options: dict[str, int], dtype: torch.dtype
) -> None:
    def rows(seed: int) -> Tensor:
        torch.manual_seed(seed)
        x = torch.randn(2, 3, 41)
        x[0, 0, 5] = float("nan")
        x[0, 1] = float("-inf")
        x[1, 1, ::2] = 0.0
        x[1, 1, 1::2] = -0.0
        return x.to(dtype)

    with torch.no_grad():
        _agree(
            lambda x: F.max_pool1d(x, kernel, **options),  # type: ignore[arg-type]
            *(rows(seed) for seed in range(3)),
        )


TURNED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda x, y: x + y.transpose(1, 2),
    "turned first": lambda x, y: x.transpose(1, 2) - y,
    "scaled": lambda x, y: torch.add(x, y.transpose(1, 2), alpha=3),
    "converted": lambda x, y: x * y.transpose(1, 2).int(),
    "compared": lambda x, y: x > y.transpose(1, 2),
    "chosen": lambda x, y: torch.where(x > 0, x, y.transpose(1, 2)),
    "chain": lambda x, y: (x + y.transpose(1, 2)).relu() * 2,
}


@pytest.mark.parametrize(
    "dtype", [*FLOATING, torch.int64, torch.int32], ids=str
)
@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("size", [9, 33, 150])
def test_operands_that_lie_the_other_way_round(
    name: str, dtype: torch.dtype, size: int
) -> None:
    def program(both: Tensor) -> Tensor:
        return TURNED[name](*both.unbind())

    def pair(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return (torch.randn(2, 3, size, size) * 9).to(dtype)

    _agree(program, *(pair(seed) for seed in range(3)))


# Of images [2, 6, 9, 5].
PLANES: dict[str, Callable[[Tensor], Tensor]] = {
    "doubled": lambda x: F.interpolate(x, scale_factor=2),
    "of a size": lambda x: F.interpolate(x, size=(13, 31)),
    "smaller": lambda x: F.interpolate(x, scale_factor=(0.41, 0.77)),
    "exact": lambda x: F.interpolate(x, (20, 7), mode="nearest-exact"),
    "mirrored": lambda x: F.pad(x, (1, 4, 8, 0), mode="reflect"),
    "repeated": lambda x: F.pad(x, (0, 3, 2, 2), mode="replicate"),
    "mirrored rows": lambda x: F.pad(x[0], (2, 1), mode="reflect"),
    "repeated rows": lambda x: F.pad(x[:, 0], (20, 17), mode="replicate"),
}


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("layout", ["rows", "channels last", "turned", "gaps"])
@pytest.mark.parametrize("name", PLANES)
def test_planes_of_other_sizes(
    name: str, layout: str, dtype: torch.dtype
) -> None:
    def images(seed: int) -> Tensor:
        torch.manual_seed(seed)
        x = torch.randn(2, 6, 9, 5 if layout != "gaps" else 15).to(dtype)
        x[x.abs() < 0.3] = -0.0
        x[0, 0, 0, 0] = float("nan")
        if layout == "channels last":
            return x.contiguous(memory_format=torch.channels_last)
        if layout == "turned":
            return x.transpose(2, 3).contiguous().transpose(2, 3)
        return x[..., ::3] if layout == "gaps" else x

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = PLANES[name](x)
        return y, y.signbit()

    _agree(program, *(images(seed) for seed in range(3)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_element_is_spread_over_its_own_tensor(dtype: torch.dtype) -> None:
    def spread(to: Tensor, of: Tensor) -> Tensor:
        to.copy_(of.flatten()[:1].expand_as(to))
        return to

    compiled = mica.compile(spread, fullgraph=True)
    for _ in range(4):
        got = _numbers(dtype)
        want = got.clone()
        compiled(got, got)
        spread(want, want)
        assert torch.equal(got, want)
    assert mica.explain(compiled).hits == 3


def _circular(y: torch.Tensor) -> None:
    y[:, 2:4] = y[:, -2:]
    y[:2] = y[-2:]


_WITHIN = {
    "circular": _circular,
    "down": lambda y: y[1:].copy_(y[:-1].clone()),
    "up": lambda y: y[:-1].copy_(y[1:].clone()),
    "left": lambda y: y[:, :-1].copy_(y[:, 1:].clone()),
    "right": lambda y: y[:, 3:].copy_(y[:, :-3].clone()),
    "two columns": lambda y: y[:, 2:4].copy_(y[:, 4:6]),
    "even rows": lambda y: y[::2].copy_(y[1::2]),
    "even columns": lambda y: y[:, ::2].copy_(y[:, 1::2]),
    "transposed": lambda y: y.copy_(y.t().clone()),
    "a block transposed": lambda y: y[:4, 1:5].copy_(y[:4, 1:5].t().clone()),
    "one row": lambda y: y[2:].copy_(y[1]),
    "one column": lambda y: y.copy_(y[:, 1:2].clone()),
    "itself": lambda y: y[1:3].copy_(y[1:3]),
    "diagonals": lambda y: y.diagonal(1).copy_(y.diagonal(-1)),
}


# Where it was computed a tensor is written to without a copy, though the
# program reads another part of it, or the same.
@pytest.mark.parametrize("name", _WITHIN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_parts_are_moved_within_a_tensor(name: str, dtype: torch.dtype) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y_old = y[3, 3] + 0
        _WITHIN[name](y)
        return y * 3 + y_old

    compiled = mica.compile(step)
    for _ in range(4):
        x = torch.randint(-9, 9, (8, 8)).to(dtype)
        assert torch.equal(compiled(x), step(x))
    assert mica.explain(compiled).hits == 3

"""Elements that lie apart, or that indices name, give eager's results."""

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


def _check(
    program: Callable[..., object], *inputs: tuple[Tensor, ...], exact: bool
) -> None:
    compiled = mica.compile(program, fullgraph=True)
    limits = {"rtol": 0.0, "atol": 0.0} if exact else {}
    for arguments in inputs:
        torch.testing.assert_close(
            compiled(*arguments), program(*arguments), equal_nan=True, **limits
        )
    (graph,) = mica.explain(compiled).graphs
    assert graph.hits == len(inputs) - 1
    assert "reference" not in graph.kernels, graph.plan_text


# Of x [4, 3, n], whose elements lie apart, and y [3, n].
ELEMENTS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "one operand": lambda x, y: (x - 2).abs() * 3,
    "two": lambda x, y: (x + y).relu() - x,
    "a row for all": lambda x, y: (x * y[:1]).clamp(-2, 2) + 1,
    "compared": lambda x, y: x < y,
    "six": lambda x, y: x[0] + x[1] * x[2] - x[3] * y + (y > x[1]).to(x.dtype),
    "written back": lambda x, y: x.clone().add_(y).mul_(x),
}


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("dtype", [*FLOATING, torch.int64], ids=str)
@pytest.mark.parametrize("step", [2, 3])
@pytest.mark.parametrize("n", [5, 16, 70, 3000])
def test_elements_that_lie_apart(
    name: str, dtype: torch.dtype, step: int, n: int
) -> None:
    def pair(seed: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(seed)
        x = (torch.randn(4, 3, n * step) * 5).to(dtype)
        y = (torch.randn(3, n, step) * 5).to(dtype)
        if dtype.is_floating_point:
            x[0, 0, 0] = float("nan")
            x[1, 1, step] = float("-inf")
            y[0, :3] = -0.0
        return x[..., ::step], y[..., step - 1]

    # Of low precision eager rounds where a chain needn't.
    exact = dtype in (torch.float64, torch.int64, torch.float32)
    _check(ELEMENTS[name], *(pair(seed) for seed in range(3)), exact=exact)


REDUCTIONS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "l1": F.l1_loss,
    "mse": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "of rows": lambda x, y: (x - y).square().mean(-1),
    "of columns": lambda x, y: ((x * y).sum(0), (x + y).amax(0)),
    "softmax": lambda x, y: (x * 0.3 + y).softmax(-1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", FLOATING[:3], ids=str)
@pytest.mark.parametrize("n", [7, 64, 5000])
def test_reductions_of_what_lies_apart(
    name: str, dtype: torch.dtype, n: int
) -> None:
    def pair(seed: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(seed)
        both = torch.randn(2, 9, n, 2).to(dtype)
        return both[0, ..., 0], both[1, ..., 1]

    _check(REDUCTIONS[name], *(pair(seed) for seed in range(3)), exact=False)


# Of rows of 200 with gaps between them, [4, 5, 200].
OF_ROWS: dict[str, Callable[[Tensor], object]] = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "extremes": lambda x: (x.amax(-1), x.amin(2)),
    "sum of two axes": lambda x: x.sum((1, 2)),
    "sum of all": torch.sum,
    "sum of broadcast rows": lambda x: x[:1].expand(3, 5, 200).sum(-1),
    "log of a sum": lambda x: x.logsumexp(-1),
}


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_reductions_of_rows_with_gaps(name: str, dtype: torch.dtype) -> None:
    def numbers(seed: int) -> tuple[Tensor]:
        torch.manual_seed(seed)
        return (torch.randn(4, 5, 300).to(dtype)[..., 64:264],)

    _check(OF_ROWS[name], *(numbers(seed) for seed in range(3)), exact=False)


# Of x [6, 5, 40], y [6, 5, 33] and 33 different indices below 40.
SLICES: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
    "copied": lambda x, y, i: x.index_copy(-1, i, y),
    "put along the last": lambda x, y, i: _put(x, y, i),
    "put from the end": lambda x, y, i: _put(x, y, i - 40),
    "put for all": lambda x, y, i: _put(x, y[:1, :1], i),
    "put one": lambda x, y, i: _put(x, y[0, 0, 0], i),
    "chosen": lambda x, y, i: x.index_select(2, i),
    "named": lambda x, y, i: x[..., i],
    "named from the end": lambda x, y, i: x[:, :, i - 40],
    "named from both ends": lambda x, y, i: x[:, :, i - 20],
    "rows": lambda x, y, i: x.reshape(40, 30)[i],
}


def _put(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    out = x.clone()
    out[:, :, i] = y
    return out


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices_of_single_elements(name: str, dtype: torch.dtype) -> None:
    def arguments(seed: int) -> tuple[Tensor, Tensor, Tensor]:
        torch.manual_seed(seed)
        x = (torch.rand(6, 5, 40) * 9).to(dtype)
        y = (torch.rand(6, 5, 33) * 9).to(dtype)
        return x, y, torch.randperm(40)[:33]

    _check(SLICES[name], *(arguments(seed) for seed in range(3)), exact=True)


@pytest.mark.parametrize("bad", [40, -41])
@pytest.mark.parametrize("place", [0, 32])
@pytest.mark.parametrize("name", ["copied", "put along the last", "named"])
def test_an_index_outside(name: str, place: int, bad: int) -> None:
    compiled = mica.compile(SLICES[name], fullgraph=True)
    x, y = torch.rand(6, 5, 40), torch.rand(6, 5, 33)
    for _ in range(2):
        compiled(x, y, torch.randperm(40)[:33])
    index = torch.randperm(40)[:33]
    index[place] = bad
    with pytest.raises(IndexError):
        compiled(x, y, index)


FLIPS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x.flip(1),
    "planes": lambda x: x.flip(0),
    "planes and rows": lambda x: x.flip(0, 1),
    "all": lambda x: x.flip(0, 1, 2),
    "planes and columns": lambda x: x.flip(0, 2),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FLIPS)
@pytest.mark.parametrize("n", [1, 17, 80, 300])
def test_flips(name: str, dtype: torch.dtype, n: int) -> None:
    def numbers(seed: int) -> tuple[Tensor]:
        torch.manual_seed(seed)
        return ((torch.rand(3, 7, n) * 9).to(dtype),)

    _check(FLIPS[name], *(numbers(seed) for seed in range(3)), exact=True)


WHOLE: dict[str, Callable[[Tensor], object]] = {
    "both extremes": torch.aminmax,
    "both of rows": lambda x: torch.aminmax(x.reshape(3, -1), dim=1),
    "floor": torch.floor,
    "rounded": lambda x: (x.ceil(), x.round(), x[::2].trunc()),
    "signs": lambda x: (x.sign(), x[::3].sgn()),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("n", [3, 1536, 30_003])
def test_whole_numbers(name: str, dtype: torch.dtype, n: int) -> None:
    def numbers(seed: int) -> tuple[Tensor]:
        torch.manual_seed(seed)
        x = torch.randint(-(2**31), 2**31, (n,)).to(dtype)
        x[seed * (n - 1) // 2] = torch.iinfo(dtype).min
        x[n // 2] = 0
        return (x,)

    _check(WHOLE[name], *(numbers(seed) for seed in range(3)), exact=True)


RANGES: dict[str, Callable[[Tensor], object]] = {
    "places": lambda x: x + torch.arange(33),
    "between": lambda x: x * torch.arange(-5, 28),
    "steps": lambda x: x - torch.arange(40, -59, -3),
    "floats": lambda x: x * torch.arange(33, dtype=torch.float32),
    "fractions": lambda x: x * torch.arange(0.0, 3.3, 0.1),
    "large": lambda x: x + torch.arange(2**40, 2**40 + 33),
    "none": lambda x: (x, torch.arange(5, 5)),
    "alone": lambda x: (x, torch.arange(7, 300)),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges(name: str) -> None:
    _check(
        RANGES[name],
        *((torch.randint(9, (3, 33)),) for _ in range(3)),
        exact=name != "fractions",
    )


CONVOLUTIONS: dict[str, tuple[Callable[..., Tensor], list[int], list[int]]] = {
    "rows": (F.conv1d, [3, 9, 20], [6, 9, 3]),
    "images": (F.conv2d, [3, 9, 7, 8], [6, 9, 3, 3]),
    "one tap": (F.conv2d, [3, 16, 7, 8], [16, 16, 1, 1]),
    "volumes": (F.conv3d, [3, 9, 3, 1, 9], [3, 9, 3, 1, 9]),
    "transposed": (F.conv_transpose2d, [3, 9, 7, 8], [9, 6, 3, 3]),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("trains", [False, True])
def test_convolutions_with_a_bias_that_lies_apart(
    name: str, dtype: torch.dtype, trains: bool
) -> None:
    call, x_dims, weight_dims = CONVOLUTIONS[name]

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> object:
        y = call(x, weight, bias[::2])
        if not trains:
            return y
        return y, torch.autograd.grad(y.sum(), (x, weight, bias))

    def arguments(seed: int) -> tuple[Tensor, ...]:
        torch.manual_seed(seed)
        columns = weight_dims[name == "transposed"]
        return tuple(
            torch.randint(-2, 3, dims).to(dtype).requires_grad_(trains)
            for dims in (x_dims, weight_dims, [2 * columns])
        )

    # Small whole numbers: nothing is rounded.
    _check(program, *(arguments(seed) for seed in range(3)), exact=True)

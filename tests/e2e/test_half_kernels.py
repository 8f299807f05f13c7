"""Kernels that compute numbers of 16 bits in float32."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mica

HALVES = [torch.bfloat16, torch.float16]
Function = Callable[[Tensor, Tensor], object]

# Eager's bits: what is moved, chosen or rounded once.
EXACT: dict[str, Function] = {
    "sqrt": lambda x, y: x.abs().sqrt(),
    "relu": lambda x, y: x.relu(),
    "clamp": lambda x, y: x.clamp(-0.3, 1),
    "add": lambda x, y: x + y,
    "add number": lambda x, y: x + 0.1,
    "add scaled": lambda x, y: torch.add(x, y, alpha=0.3),
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "mul number": lambda x, y: x * 0.1,
    "div": lambda x, y: x / y,
    "add row": lambda x, y: x + y[0],
    "chain": lambda x, y: (x * y + x) * 3 - y,
    "reciprocal": lambda x, y: x.reciprocal(),
    "square": lambda x, y: x.square(),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.3),
    "hardtanh": lambda x, y: F.hardtanh(x),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "row first": lambda x, y: y[0] - x,
    "column": lambda x, y: x * y[:, :1],
    "column first": lambda x, y: y[:, :1] / x,
    "expanded column": lambda x, y: x / y[:, 1:2].expand_as(x),
    "column and row": lambda x, y: x[:, :1] - y[0],
    "short rows": lambda x, y: x[:, :99].reshape(70, 33, 3) + y[0, :3],
    "middle": lambda x, y: x[:, None] + y[:, None, :1],
    "in place": lambda x, y: (z := x + y) * z,
    "with gaps": lambda x, y: x[::2, 1:] / y[1::2, 1:],
    "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
    "lt number": lambda x, y: x.lt(0.1),
    "eq number": lambda x, y: x.clamp(min=0.1) == 0.1,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "where number": lambda x, y: torch.where(x > 0, x, 0.1),
    "masked_fill": lambda x, y: x.masked_fill(x > 0, 0.1),
    "logical_not": lambda x, y: x.relu().logical_not(),
    "max": lambda x, y: x.max(1),
    "argmin": lambda x, y: x.argmin(1),
    "amax": lambda x, y: x.amax(1),
    "amin of columns": lambda x, y: x.amin(0),
    "max_pool2d": lambda x, y: F.max_pool2d(x[None, None], 3, 2, 1),
    "transposed": lambda x, y: (x.t() + y.t()).t(),
}
# Within a unit in the last place of eager's.
CLOSE: dict[str, Function] = {
    "exp": lambda x, y: x.exp(),
    "erf": lambda x, y: x.erf(),
    "tanh": lambda x, y: x.tanh(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x),
    "gelu": lambda x, y: F.gelu(x),
    "gelu tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "rsqrt": lambda x, y: x.abs().rsqrt(),
    "softmax": lambda x, y: x.softmax(1),
    "log_softmax": lambda x, y: x.log_softmax(1),
    "layer_norm": lambda x, y: F.layer_norm(x, x.shape[1:], x[0], y[0]),
    "avg_pool2d": lambda x, y: F.avg_pool2d(x[None, None], 2),
    "adaptive": lambda x, y: F.adaptive_avg_pool2d(x[None, None], 5),
    "matmul": lambda x, y: x[:, :60] @ y[:, :60].t(),
    "addmm": lambda x, y: torch.addmm(y[0, :70], x[:, :60], y[:60, :70]),
    "bmm": lambda x, y: (
        x[:, :60].view(7, 10, 60) @ y[:, :60].reshape(7, 10, 60).mT
    ),
    "linear": lambda x, y: F.linear(x, y[:50], x[0, :50]),
    "attention": lambda x, y: F.scaled_dot_product_attention(
        x[:, :64].reshape(1, 7, 10, 64),
        y[:, :64].reshape(1, 7, 10, 64),
        x[:, 30:94].reshape(1, 7, 10, 64),
    ),
    "convolution": lambda x, y: F.conv2d(
        x[:, :64].reshape(1, 7, 20, 32), y[:5, :63].reshape(5, 7, 3, 3)
    ),
    "depthwise": lambda x, y: F.conv2d(
        x[:, :64].reshape(1, 7, 20, 32),
        y[:7, :9].reshape(7, 1, 3, 3),
        groups=7,
    ),
}


def _inputs(dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    x, y = torch.randn(2, 70, 101).unbind()
    if seed == 2:
        y[0], y[3] = x[0], 0.0
        x[1, :5] = torch.tensor([0.0, -0.0, 1e-7, 6e4, -6e4])
    return x.to(dtype), y.to(dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_results_are_eagers(name: str, dtype: torch.dtype) -> None:
    program = EXACT.get(name) or CLOSE[name]
    tolerance = 0.0 if name in EXACT else 4 * torch.finfo(dtype).eps
    compiled = mica.compile(program, fullgraph=True)
    with torch.no_grad():
        for seed in range(3):
            x, y = _inputs(dtype, seed)
            torch.testing.assert_close(
                compiled(x, y),
                program(x, y),
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
            )
    (graph,) = mica.explain(compiled).graphs
    assert graph.hits == 2
    assert graph.inaccuracy == ""
    assert "reference" not in graph.kernels, graph.plan_text


PRODUCTS = ["matmul", "addmm", "bmm", "linear", "convolution"]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_left_to_aten_only_where_onednn_has_them(
    name: str, dtype: torch.dtype
) -> None:
    compiled = mica.compile(CLOSE[name], fullgraph=True)
    with torch.no_grad():
        for seed in range(2):
            compiled(*_inputs(dtype, seed))
    (graph,) = mica.explain(compiled).graphs
    is_onednns = (
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if dtype == torch.bfloat16
        else torch.ops.mkldnn._is_mkldnn_fp16_supported()
    )
    assert is_onednns or "aten" not in graph.kernels, graph.plan_text


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 64), (1, 600), (8, 600), (40, 40), (130, 130)]
)
def test_attention_is_near_to_eagers(
    dtype: torch.dtype, queries: int, keys: int
):
    q = torch.randn(2, 4, queries, 32, dtype=dtype)
    k, v = torch.randn(2, 2, 4, keys, 32, dtype=dtype)
    compiled = mica.compile(F.scaled_dot_product_attention)
    wanted = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    for _ in range(3):
        error = (compiled(q, k, v).double() - wanted).abs().max()
        eagers = (
            F.scaled_dot_product_attention(q, k, v).double() - wanted
        ).abs()
        assert error <= 2 * eagers.max()
    assert mica.explain(compiled).hits == 2


def test_few_rows_of_float16_by_a_weight_are_atens() -> None:
    x, weight = torch.randn(3, 512).half(), torch.randn(256, 512).half()
    compiled = mica.compile(F.linear)
    for _ in range(3):
        assert torch.equal(compiled(x, weight), F.linear(x, weight))
    assert "aten.mm by aten" in mica.explain(compiled).details("plan")
    frozen = mica.compile(lambda x: F.linear(x, weight), frozen=True)
    for _ in range(3):
        torch.testing.assert_close(frozen(x), F.linear(x, weight))
    assert "by aten" not in mica.explain(frozen).details("plan")


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("kwargs", [{}, {"groups": 4}, {"stride": 2}], ids=str)
def test_gradients_of_a_convolution(
    kwargs: dict[str, int], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 8, 3, padding=1, **kwargs).to(dtype)  # type: ignore[arg-type]

    def step(x: Tensor) -> tuple[Tensor, ...]:
        y = layer(x)
        return torch.autograd.grad((y * y).sum(), (x, layer.weight, layer.bias))

    compiled = mica.compile(step)
    for _ in range(4):
        x = torch.randn(2, 4, 9, 9).to(dtype).requires_grad_()
        for got, want in zip(compiled(x), step(x), strict=True):
            scale = want.abs().max().item()
            torch.testing.assert_close(
                got, want, rtol=0, atol=4 * torch.finfo(dtype).eps * scale
            )
    assert mica.explain(compiled).hits == 3


# Of any number.
OF_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "clamp": lambda x: x.clamp(-0.3, 0.7),
    "clamp from above": lambda x: x.clamp(max=0.3),
    "clamp to nothing": lambda x: x.clamp(0.7, -0.3),
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", OF_ONE)
def test_every_number_has_eagers_result(name: str, dtype: torch.dtype) -> None:
    program = OF_ONE[name]
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    compiled = mica.compile(program, fullgraph=True)
    for _ in range(2):
        got, want = compiled(x), program(x)
    assert torch.equal(got.isnan(), want.isnan())
    same = (got == want) | want.isnan()
    same &= (got.signbit() == want.signbit()) | want.isnan()
    assert same.all(), (x[~same], got[~same], want[~same])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    "program",
    [torch.add, torch.sub, torch.mul, torch.div],
    ids=lambda program: program.__name__,
)
def test_numbers_of_all_sizes_have_eagers_result(
    program: Function, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    compiled = mica.compile(program, fullgraph=True)
    for _ in range(4):
        bits = torch.randint(-(2**15), 2**15, (2, 100_001))
        x, y = bits.to(torch.int16).view(dtype).unbind()
        torch.testing.assert_close(
            compiled(x, y), program(x, y), rtol=0, atol=0, equal_nan=True
        )
    (graph,) = mica.explain(compiled).graphs
    assert graph.kernels == {"cpu": 1}


def test_nans_and_infinities_are_kept() -> None:
    specials = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3e38]
    for dtype in HALVES:
        x = torch.tensor(specials * 400).to(dtype)
        compiled = mica.compile(lambda x: x.tanh() + x.exp())
        for _ in range(3):
            got, want = compiled(x), x.tanh() + x.exp()
            torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("wide_norm", [False, True])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.SiLU])
@pytest.mark.parametrize("frozen", [False, True])
def test_norms_round_as_eagers(
    dtype: torch.dtype,
    wide_norm: bool,
    activation: type[nn.Module],
    frozen: bool,
) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(40).to(dtype)
    for state in (*norm.parameters(), *norm.buffers()):
        if state.is_floating_point():
            state.data.uniform_(0.5, 2)
    if wide_norm:  # As autocast leaves it.
        norm = norm.float()
    net = nn.Sequential(nn.Conv2d(3, 40, 3), nn.ReLU()).to(dtype)
    net = nn.Sequential(*net, norm, activation()).eval()
    compiled = mica.compile(net, frozen=frozen)
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(2, 3, 12, 12).to(dtype)
            got, want = compiled(x), net(x)
            eps = torch.finfo(dtype).eps
            torch.testing.assert_close(got, want, rtol=2 * eps, atol=2 * eps)
            assert got.stride() == want.stride()
    (graph,) = mica.explain(compiled).graphs
    assert "mica.scale_channels" in graph.plan_text


class _Block(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)
        self.other = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.relu6(self.norm(self.first(x)))
        y = self.other(self.second(y))
        return torch.relu(y + x) if y.shape == x.shape else y


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions_and_their_norms_round_no_worse(
    dtype: torch.dtype, stride: int, frozen: bool, channels_last: bool
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(_Block(24, stride), _Block(24, 1)).eval()
    for state in (*net.parameters(), *net.buffers()):
        if state.is_floating_point() and state.dim() == 1:
            state.data.uniform_(0.5, 2)
    net = net.to(dtype)
    exact = copy.deepcopy(net).double()
    compiled = mica.compile(net, frozen=frozen)
    form = torch.channels_last if channels_last else torch.contiguous_format
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(2, 24, 11, 9).to(dtype, memory_format=form)
            got, eager, want = compiled(x), net(x), exact(x.double())
            error = (got.double() - want).abs().max()
            assert error <= 1.5 * (eager.double() - want).abs().max()
            assert got.stride() == eager.stride()
    (graph,) = mica.explain(compiled).graphs
    kernels = [line.split()[3] for line in graph.plan_text.splitlines()[1:]]
    assert not any(kernel.startswith("reference") for kernel in kernels)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("threads", [1, 3])
def test_layers(dtype: torch.dtype, threads: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 36, 40),
        nn.GELU(),
        nn.LayerNorm(40),
    )
    net = net.eval().to(dtype)
    compiled = mica.compile(net)
    with torch.no_grad(), mica.options.set(num_threads=threads):
        for _ in range(4):
            x = torch.randn(2, 3, 12, 12).to(dtype)
            torch.testing.assert_close(
                compiled(x), net(x), rtol=0.05, atol=0.05
            )

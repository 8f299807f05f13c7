"""What only training needs, on random calls: the oracle and fast kernels.

Gradients can't be had from OpInfo's forward samples without autograd, so each
operator that autograd calls is called directly, on sizes, strides, windows,
masks and reductions drawn at random, and held to what eager makes of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from conformance import one_op

from mica import _mica

aten = torch.ops.aten
ROUNDS = 40  # Random calls of each operator and dtype.

# Relative and absolute, for sums of some hundred terms of size 1.
TOLERANCES = {
    torch.float32: (2e-4, 1e-4),
    torch.float64: (1e-9, 1e-10),
    torch.bfloat16: (4e-2, 8e-2),
}


class Draw:
    """Draws the arguments of one call."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self.random = random.Random(seed)
        self.dtype = dtype
        torch.manual_seed(seed)

    def int(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def pick(self, *items: Any) -> Any:
        return self.random.choice(items)

    def mask(self, count: int = 3) -> list[bool]:
        mask = [self.random.random() < 0.7 for _ in range(count)]
        return mask if any(mask) else [True] * count

    def strided(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same elements, in one of several layouts."""
        form = self.int(0, 5)
        if form == 1 and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        if form == 2 and tensor.dim() >= 2:
            return tensor.transpose(0, 1).contiguous().transpose(0, 1)
        if form == 3 and tensor.dim() >= 1:
            wide = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1)
            wide = wide.to(tensor.dtype)[..., 1::2]
            return wide.copy_(tensor)
        return tensor

    def tensor(self, *sizes: int, scale: float = 1.0) -> torch.Tensor:
        return self.strided(torch.randn(sizes, dtype=self.dtype) * scale)

    def uniform(self, *sizes: int, low: float, high: float) -> torch.Tensor:
        tensor = torch.rand(sizes, dtype=torch.float64)
        return self.strided((low + (high - low) * tensor).to(self.dtype))

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A gradient of `tensor`; at times one element for all."""
        if self.int(0, 7) == 0:
            one = torch.randn((), dtype=self.dtype)
            return one.expand(tensor.shape)
        return self.tensor(*tensor.shape)

    def vector(self, size: int, low: float = -1.5) -> torch.Tensor:
        return self.uniform(size, low=low, high=1.5)


def convolution(d: Draw) -> Any:
    axes = d.pick(1, 2, 2, 2, 2, 3)
    groups = d.pick(1, 1, 1, 2, 3)
    transposed = d.int(0, 4) == 0
    c_in, c_out = groups * d.pick(1, 2, 4, 8), groups * d.pick(1, 2, 5, 16)
    kernel = [d.int(1, 3) for _ in range(axes)]
    if d.flag():
        kernel = [d.pick(1, 3)] * axes
    size = [d.int(k * 2, 9) for k in kernel]
    if d.int(0, 5) == 0:
        c_in = c_out = groups = d.pick(3, 16, 17)  # One window a channel.
    stride = [d.pick(1, 1, 2, 3) for _ in range(axes)]
    if d.flag():
        stride = [d.pick(1, 2)] * axes
    padding = [d.int(0, k - 1) for k in kernel]
    dilation = [d.pick(1, 1, 1, 2) for _ in range(axes)]
    added = [0] * axes
    if transposed:
        added = [d.int(0, max(s, v) - 1) for s, v in zip(stride, dilation)]
        weight = d.tensor(c_in, c_out // groups, *kernel)
    else:
        weight = d.tensor(c_out, c_in // groups, *kernel)
    x = d.tensor(d.pick(1, 2, 4), c_in, *size)
    window = (stride, padding, dilation, transposed, added, groups)
    y = aten.convolution(x, weight, None, *window)
    grad = d.like(y)
    return aten.convolution_backward(
        grad, x, weight, d.pick([c_out], None), *window, d.mask()
    )


def batch_norm_input(d: Draw) -> torch.Tensor:
    sizes = d.pick(
        (d.int(2, 9), d.int(1, 20)),
        (d.int(2, 5), d.int(1, 20), d.int(1, 40)),
        (d.int(2, 5), d.int(1, 20), d.int(1, 7), d.int(1, 9)),
    )
    shift = d.pick(0.0, 0.0, 3.0)
    return d.strided(torch.randn(*sizes, dtype=d.dtype) + shift)


def batch_norm(d: Draw) -> Any:
    x = batch_norm_input(d)
    c = x.shape[1]
    weight = d.pick(None, d.vector(c))
    bias = d.pick(None, d.vector(c))
    mean, var = d.vector(c), d.vector(c, low=0.5)
    rest = (d.pick(0.1, 0.3, 1.0), d.pick(1e-5, 1e-3))
    training = d.int(0, 3) > 0
    aten._native_batch_norm_legit_functional(
        x, weight, bias, mean, var, training, *rest
    )
    if training:
        mean = var = None
    return aten.native_batch_norm(x, weight, bias, mean, var, training, *rest)


def batch_norm_backward(d: Draw) -> Any:
    x = batch_norm_input(d)
    c = x.shape[1]
    weight = d.pick(None, d.vector(c))
    mean, var = d.vector(c), d.vector(c, low=0.5)
    train = d.int(0, 3) > 0
    save_mean, save_rstd = d.vector(c), d.vector(c, low=0.5)
    if not train:
        save_mean = save_rstd = torch.empty(0, dtype=d.dtype)
    mask = d.mask()
    return aten.native_batch_norm_backward(
        d.like(x), x, weight, mean, var, save_mean, save_rstd, train, 1e-4,
        mask,
    )  # fmt: skip


def group_norm_backward(d: Draw) -> Any:
    groups = d.int(1, 4)
    c = groups * d.int(1, 4)
    x = d.tensor(d.int(1, 4), c, *d.pick((), (5,), (4, 3)))
    n, pixels = x.shape[0], x[0, 0].numel()
    weight = d.pick(None, d.vector(c).contiguous())
    mean = torch.randn(n, groups, dtype=d.dtype)
    rstd = torch.rand(n, groups, dtype=d.dtype) + 0.5
    mask = d.mask()
    if weight is None:
        mask[1] = mask[2] = False
        mask[0] = True
    return aten.native_group_norm_backward(
        torch.randn(x.shape, dtype=d.dtype), x.contiguous(), mean, rstd,
        weight, n, c, pixels, groups, mask,
    )  # fmt: skip


def planes(d: Draw, low: int = 4) -> torch.Tensor:
    sizes = (d.int(1, 5), d.int(low, 13), d.int(low, 13))
    return d.tensor(*d.pick(sizes, (d.int(1, 3), *sizes)))


def windows(d: Draw) -> tuple[list[int], list[int], list[int]]:
    kernel = [d.int(1, 3), d.int(1, 3)]
    if d.flag():
        kernel = [d.int(2, 3)] * d.int(1, 2)
    stride = d.pick([], [d.int(1, 3)], [d.int(1, 2), d.int(1, 3)])
    padding = [d.int(0, min(kernel) // 2)] * d.int(1, 2)
    return kernel, stride, padding


def max_pool(d: Draw) -> Any:
    x = planes(d)
    if d.flag():  # With equal elements: the first of them counts.
        x = x.round()
    kernel, stride, padding = windows(d)
    dilation = [d.pick(1, 1, 1, 2)]
    rest = (kernel, stride, padding, dilation, d.flag())
    y, indices = aten.max_pool2d_with_indices(x, *rest)
    if d.int(0, 5) == 0:
        x = x.clone()
        x[(0,) * x.dim()] = float("nan")
        aten.max_pool2d_with_indices(x, *rest)
    return aten.max_pool2d_with_indices_backward(d.like(y), x, *rest, indices)


def average_pool(d: Draw) -> Any:
    x = planes(d)
    rest = (*windows(d), d.flag(), d.flag(), d.pick(None, None, 3))
    y = aten.avg_pool2d(x, *rest)
    return aten.avg_pool2d_backward(d.like(y), x, *rest)


def adaptive_pool(d: Draw) -> Any:
    x = planes(d)
    size = d.pick([1, 1], [d.int(1, 7), d.int(1, 15)])
    y = aten._adaptive_avg_pool2d(x, size)
    aten._adaptive_avg_pool2d_backward(d.like(y), x)
    y, indices = aten.adaptive_max_pool2d(x, size)
    return aten.adaptive_max_pool2d_backward(
        torch.randn(y.shape, dtype=d.dtype), x, indices
    )


def elementwise(d: Draw) -> torch.Tensor:
    return d.tensor(*d.pick((7,), (5, 33), (2, 3, 4, 5), (), (0, 3)), scale=3)


def activations(d: Draw) -> Any:
    x = elementwise(d)
    if d.flag():
        x = x.round()  # Onto the edges.
    grad = d.like(x)
    low, high = d.pick((-1, 1), (0.0, 6.0), (-2.5, 2.5))
    aten.threshold_backward(grad, x, d.pick(0, 0, 0.5))
    aten.hardtanh_backward(grad, x, low, high)
    aten.leaky_relu_backward(grad, x, 0.2, False)
    aten.hardswish_backward(grad, x)
    aten.hardsigmoid_backward(grad, x)
    aten.hardshrink_backward(grad, x, 0.5)
    aten.softshrink_backward(grad, x, 1)
    aten.silu_backward(grad, x)
    aten.mish_backward(grad, x)
    aten.softplus_backward(grad, x, 1.5, 3)
    aten.elu_backward(grad, d.pick(1, 0.7), 1.3, 0.9, d.flag(), x)
    aten.sigmoid_backward(grad, torch.sigmoid(x))
    aten.tanh_backward(grad, torch.tanh(x))
    aten.log_sigmoid_backward(grad, x, torch.exp(-x.abs()))
    aten.native_dropout_backward(grad, x > 0, 1.25)
    aten._prelu_kernel_backward(
        grad, x, torch.randn((), dtype=d.dtype).expand(x.shape)
    )
    halved = d.tensor(3, 8, 4)
    dim = d.pick(1, 2, -1)
    aten.glu_backward(d.tensor(*aten.glu(halved, dim).shape), halved, dim)


def pair_losses(d: Draw) -> Any:
    x = elementwise(d)
    y = d.tensor(*x.shape)
    for reduction in (0, 1, 2):
        grad = d.like(x) if reduction == 0 else d.tensor()
        aten.mse_loss(x, y, reduction)
        aten.mse_loss_backward(grad, x, y, reduction)
        aten.smooth_l1_loss_backward(grad, x, y, reduction, 0.7)
        aten.huber_loss_backward(grad, x, y, reduction, 0.7)
        p = d.uniform(*x.shape, low=0.0, high=1.0)
        t = d.uniform(*x.shape, low=0.0, high=1.0)
        weight = d.pick(None, d.tensor(*x.shape))
        aten.binary_cross_entropy(p, t, weight, reduction)
        aten.binary_cross_entropy_backward(grad, p, t, weight, reduction)


def nll(d: Draw) -> Any:
    classes = d.int(2, 11)
    n = d.int(1, 9)
    weight = d.pick(None, d.uniform(classes, low=0.1, high=2).contiguous())
    ignored = d.pick(-100, 0, 1)
    reduction = d.int(0, 2)
    form = d.int(0, 3)
    if form == 0:
        x = torch.randn(classes, dtype=d.dtype)
        target = torch.randint(0, classes, ())
        forward, backward = aten.nll_loss_forward, aten.nll_loss_backward
    elif form == 1:
        x = torch.randn(n, classes, 3, 4, dtype=d.dtype)
        target = torch.randint(0, classes, (n, 3, 4))
        forward, backward = aten.nll_loss2d_forward, aten.nll_loss2d_backward
    else:
        x = torch.randn(n, classes, dtype=d.dtype)
        target = torch.randint(0, classes, (n,))
        forward, backward = aten.nll_loss_forward, aten.nll_loss_backward
    if d.int(0, 9) == 0:
        target = torch.full_like(target, max(ignored, 0))
    y, total = forward(x, target, weight, reduction, ignored)
    grad = torch.randn(y.shape, dtype=d.dtype)
    return backward(grad, x, target, weight, reduction, ignored, total)


def log_softmax(d: Draw) -> Any:
    x = d.tensor(*d.pick((7,), (5, 33), (32, 10), (2, 3, 4)))
    dim = d.int(-x.dim(), x.dim() - 1)
    y = aten._log_softmax(x, dim, False)
    return aten._log_softmax_backward_data(d.like(y), y, dim, d.dtype)


def resample(d: Draw) -> Any:
    x = d.tensor(d.int(1, 2), d.int(1, 4), d.int(1, 9), d.int(1, 9))
    size = d.pick(
        [2 * x.shape[2], 2 * x.shape[3]],
        [d.int(1, 15), d.int(1, 15)],
        [x.shape[2], d.int(1, 15)],
    )
    scales: list[float | None] = [None, None]
    if d.int(0, 3) == 0:
        scales = [d.pick(1.5, 2.3, 0.7), d.pick(1.5, 2.3, 0.7)]
        size = [
            max(int(s * f), 1)
            for s, f in zip(x.shape[2:], scales, strict=True)
            if f is not None
        ]
    shape = list(x.shape)
    for name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
        y = getattr(aten, name)(x, size, *scales)
        getattr(aten, name + "_backward")(d.like(y), size, shape, *scales)
    aligns = d.flag()
    y = aten.upsample_bilinear2d(x, size, aligns, *scales)
    aten.upsample_bilinear2d_backward(d.like(y), size, shape, aligns, *scales)


def pads(d: Draw) -> Any:
    x = planes(d)
    line = d.tensor(*d.pick((3, 7), (2, 3, 7)))
    short, long = [d.int(0, 3) for _ in range(4)], [d.int(0, 9)] * 4
    for kind, padding in (("reflection", short), ("replication", long)):
        for source, axes in ((x, 2), (line, 1)):
            name = f"{kind}_pad{axes}d"
            y = getattr(aten, name)(source, padding[: 2 * axes])
            getattr(aten, name + "_backward")(
                torch.randn(y.shape, dtype=d.dtype),
                source,
                padding[: 2 * axes],
            )


def views(d: Draw) -> Any:
    x = d.tensor(*d.pick((5, 7), (4, 3, 6)))
    shape = list(x.shape)
    dim = d.int(-x.dim(), x.dim() - 1)
    start, end = d.int(-4, 3), d.pick(2, -1, 2**63 - 1)
    step = d.int(1, 3)
    y = aten.slice(x, dim, start, end, step)
    aten.slice_backward(d.like(y), shape, dim, start, end, step)
    index = d.int(-2, 2)
    y = aten.select(x, dim, index)
    aten.select_backward(d.like(y), shape, dim, index)
    offset = d.int(-3, 3)
    y = aten.diagonal(x, offset, 0, -1)
    aten.diagonal_backward(d.like(y), shape, offset, 0, -1)


CALLS: dict[str, Callable[[Draw], Any]] = {
    "convolution_backward": convolution,
    "batch_norm": batch_norm,
    "batch_norm_backward": batch_norm_backward,
    "group_norm_backward": group_norm_backward,
    "max_pool": max_pool,
    "average_pool": average_pool,
    "adaptive_pool": adaptive_pool,
    "activations": activations,
    "pair_losses": pair_losses,
    "nll": nll,
    "log_softmax": log_softmax,
    "resample": resample,
    "pads": pads,
    "views": views,
}

# bfloat16 where the sums are short and eager rounds once.
DTYPES = {name: [torch.float32, torch.float64] for name in CALLS}
for rounded in ("max_pool", "adaptive_pool", "views"):
    DTYPES[rounded].append(torch.bfloat16)


def check(op: one_op.OneOp) -> None:
    native = _mica.Program.parse(op.text)
    for is_oracle in (False, True):
        executor = _mica.Executor(
            "cpu", 1, 1, False, False, True, oracle=is_oracle
        )
        results = executor.run(native, op.feeds, {}, [])
        for i, (got, want) in enumerate(zip(results, op.wants, strict=True)):
            relative, absolute = TOLERANCES.get(want.dtype, (0, 0))
            if op.name == "aten.hardsigmoid_backward":
                relative = max(relative, 1e-7)  # Eager's 1/6 is a float.
            torch.testing.assert_close(
                got.contiguous(),
                want,
                rtol=relative,
                atol=absolute,
                equal_nan=True,
                msg=lambda text: (  # noqa: B023
                    f"oracle {is_oracle}, result {i}: {text}\n{op.text}"  # noqa: B023
                ),
            )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in CALLS for dtype in DTYPES[name]],
)
def test_agrees_with_eager(name: str, dtype: torch.dtype) -> None:
    compared = 0
    for seed in range(ROUNDS):
        draw = Draw(seed, dtype)
        ops = one_op.record(
            lambda draw=draw: CALLS[name](draw),  # type: ignore[misc]
            keeps_strides=seed % 2 == 1,
        )
        for op in ops:
            if "strided" in op.name or ".empty" in op.name:
                continue
            try:
                check(op)
            except (LookupError, NotImplementedError) as error:
                if "backward" in op.name or "norm" in op.name:
                    raise AssertionError(op.text) from error
                continue
            compared += 1
    assert compared >= ROUNDS

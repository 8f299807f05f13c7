"""Each layer of torch.nn, alone: one graph, eager's numbers, with gradients."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import mica

LINE = (2, 4, 10)
IMAGE = (2, 4, 10, 10)
SPACE = (2, 4, 6, 6, 6)
VECTOR = (3, 8)

# Layer and the shape of its input.
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), LINE),
    "Conv1d same": (lambda: nn.Conv1d(4, 6, 4, padding="same"), LINE),
    "Conv2d circular": (
        lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"),
        IMAGE,
    ),
    "Conv2d grouped": (lambda: nn.Conv2d(4, 8, 3, groups=2), IMAGE),
    "Conv3d": (lambda: nn.Conv3d(4, 6, 3, stride=2), SPACE),
    "Conv3d normalised": (
        lambda: nn.Sequential(nn.Conv3d(4, 6, 3), nn.BatchNorm3d(6), nn.ReLU()),
        SPACE,
    ),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 3, 2), LINE),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1),
        IMAGE,
    ),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 6, 3), SPACE),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1, ceil_mode=True), LINE),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGE),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), SPACE),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1), LINE),
    "AvgPool2d": (
        lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        IMAGE,
    ),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), SPACE),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(3), LINE),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((3, 4)), IMAGE),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(2), SPACE),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(3), LINE),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(3), IMAGE),
    "LPPool1d": (lambda: nn.LPPool1d(2, 2), LINE),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), IMAGE),
    "ReflectionPad1d": (lambda: nn.ReflectionPad1d(2), LINE),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(2), IMAGE),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(2), IMAGE),
    "ReplicationPad3d": (lambda: nn.ReplicationPad3d(1), SPACE),
    "ZeroPad2d": (lambda: nn.ZeroPad2d((1, 2, 0, -1)), IMAGE),
    "CircularPad2d": (lambda: nn.CircularPad2d(2), IMAGE),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(8), VECTOR),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), IMAGE),
    "BatchNorm2d without statistics": (
        lambda: nn.BatchNorm2d(4, track_running_stats=False),
        IMAGE,
    ),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(4), SPACE),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), LINE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "InstanceNorm2d with statistics": (
        lambda: nn.InstanceNorm2d(4, track_running_stats=True),
        IMAGE,
    ),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "LayerNorm": (lambda: nn.LayerNorm(10), IMAGE),
    "RMSNorm": (lambda: nn.RMSNorm(10), IMAGE),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), IMAGE),
    "Linear": (lambda: nn.Linear(8, 5), VECTOR),
    "Flatten": (lambda: nn.Flatten(), IMAGE),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 4)), VECTOR),
    "Unfold": (lambda: nn.Unfold(3, padding=1), IMAGE),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), IMAGE),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), IMAGE),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), IMAGE),
    "Upsample nearest": (lambda: nn.Upsample(scale_factor=2), IMAGE),
    "Upsample bilinear": (
        lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"),
        IMAGE,
    ),
    "Upsample bicubic": (
        lambda: nn.Upsample(size=(7, 13), mode="bicubic"),
        IMAGE,
    ),
    "Upsample linear": (lambda: nn.Upsample(size=7, mode="linear"), LINE),
    "Upsample trilinear": (
        lambda: nn.Upsample(scale_factor=2, mode="trilinear"),
        SPACE,
    ),
    "Softmax": (lambda: nn.Softmax(1), IMAGE),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), IMAGE),
    "Softmin": (lambda: nn.Softmin(1), VECTOR),
    "Softmax2d": (lambda: nn.Softmax2d(), IMAGE),
    "PReLU": (lambda: nn.PReLU(4), IMAGE),
    "GLU": (lambda: nn.GLU(1), IMAGE),
}
for _name in (
    "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity "
    "LeakyReLU LogSigmoid Mish ReLU ReLU6 SELU SiLU Sigmoid Softplus "
    "Softshrink Softsign Tanh Tanhshrink"
).split():
    LAYERS[_name] = (getattr(nn, _name), VECTOR)

LOSSES: dict[str, nn.Module] = {
    "L1Loss": nn.L1Loss(),
    "MSELoss": nn.MSELoss(reduction="sum"),
    "SmoothL1Loss": nn.SmoothL1Loss(),
    "HuberLoss": nn.HuberLoss(delta=0.5),
    "SoftMarginLoss": nn.SoftMarginLoss(),
    "BCEWithLogitsLoss": nn.BCEWithLogitsLoss(),
    "KLDivLoss": nn.KLDivLoss(reduction="batchmean"),
    "PoissonNLLLoss": nn.PoissonNLLLoss(),
    "CrossEntropyLoss of probabilities": nn.CrossEntropyLoss(),
    "CosineSimilarity": nn.CosineSimilarity(),
    "PairwiseDistance": nn.PairwiseDistance(),
}


# What isn't native yet, by layer: right numbers, but no export.
LEFT_TO_ATEN: dict[str, set[str]] = {
    "MaxPool3d": {"aten.max_pool3d_with_indices"},
    "AvgPool3d": {"aten.avg_pool3d"},
    "AdaptiveAvgPool3d": {"aten._adaptive_avg_pool3d"},
    "ReplicationPad3d": {"aten.replication_pad3d"},
    "LocalResponseNorm": {"aten.avg_pool3d"},
    "Unfold": {"aten.im2col", "aten.col2im"},
    # ATen's, for its signs of zeros.
    "CosineSimilarity": {"aten.clamp_min_.Tensor"},
    "Softshrink": {"aten.softshrink"},
    "Upsample bilinear": {"aten.upsample_bilinear2d"},
    "Upsample bicubic": {"aten.upsample_bicubic2d"},
    "Upsample linear": {"aten.upsample_linear1d"},
    "Upsample trilinear": {"aten.upsample_trilinear3d"},
    "SoftMarginLoss": {"aten.soft_margin_loss"},
}


def check(
    name: str,
    compiled: Callable[..., Tensor],
    eager: Callable[..., Tensor],
    x: Tensor,
) -> None:
    """Three calls with new values agree, from one graph that is served."""
    for scale in (1.0, 0.5, 2.0):
        want, got = eager(x * scale), compiled(x * scale)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    made = mica.explain(compiled)
    assert not made.refusals, made
    assert made.hits >= 1, made
    left = {
        op.removeprefix("torch.").removesuffix("_backward")
        for op in made.graphs[0].opaque
    }
    wanted = LEFT_TO_ATEN.get(name, set())
    assert left <= wanted, made
    assert bool(left) == bool(wanted), f"{name} is native now"


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    x = torch.rand(shape)
    layer = make()
    with torch.no_grad():
        eager = copy.deepcopy(layer).eval()
        check(name, mica.compile(copy.deepcopy(layer).eval()), eager, x)

    def step(module: nn.Module) -> Callable[[Tensor], Tensor]:
        def run(x: Tensor) -> Tensor:
            module.zero_grad()
            x = x.clone().requires_grad_()
            (module(x) ** 2).mean().backward()
            assert x.grad is not None
            return x.grad

        return run

    eager = copy.deepcopy(layer)
    check(name, mica.compile(step(layer)), step(eager), x)
    for got, want in zip(layer.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    torch.manual_seed(0)
    loss, target = LOSSES[name], torch.rand(VECTOR)

    def run(x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        loss(x, target).sum().backward()
        assert x.grad is not None
        return x.grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(name, mica.compile(run), run, torch.rand(VECTOR))

"""Eight models like those on which capture by watching was first published.

Random weights, no downloads. In each, the structure that makes capture hard is
the real one; sizes of models and inputs are those published, or small.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vision_operators import define_vision_operators
from zoo import Inputs, Size, torchvision_model

Build = Callable[[Size], nn.Module]
Data = Callable[[Size], Inputs]


@dataclass(frozen=True)
class Entry:
    """One model.

    Attributes:
      name: As tables show it.
      build: Makes the module in a size, weights from the global seed.
      data: Positional and keyword arguments in a size, from the global seed.
      score: One number of what the model returned, f32[].
    """

    name: str
    build: Build
    data: Data
    score: Callable[[Any], Tensor]

    def make(self, size: Size = "small") -> nn.Module:
        """Returns the module; the same weights at each call."""
        define_vision_operators()
        torch.manual_seed(0)
        return self.build(size)

    def make_data(self, size: Size = "small") -> Inputs:
        """Returns the arguments; the same at each call."""
        torch.manual_seed(1)
        return self.data(size)


def _images(batch: int, side: int, published_side: int) -> Data:
    """Images of a batch, or one as published."""

    def data(size: Size) -> Inputs:
        if size == "full":
            return (torch.randn(1, 3, published_side, published_side),), {}
        return (torch.randn(batch, 3, side, side),), {}

    return data


def _tokens(length: int, published_length: int) -> Data:
    """Two sentences, or one as published."""

    def data(size: Size) -> Inputs:
        full = size == "full"
        shape = (1, published_length) if full else (2, length)
        return (), {
            "input_ids": torch.randint(3, 100, shape),
            "attention_mask": torch.ones(*shape, dtype=torch.long),
        }

    return data


# What the small text models share.
_SMALL: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def _text(name: str, small_layers: int, **options: Any) -> Build:
    def build(size: Size) -> nn.Module:
        transformers = importlib.import_module("transformers")
        small = _SMALL | {"num_hidden_layers": small_layers}
        config = getattr(transformers, f"{name}Config")(
            **(small if size == "small" else {}), **options
        )
        model: nn.Module = getattr(transformers, f"{name}Model")(config)
        return model

    return build


def _align(size: Size) -> nn.Module:
    transformers = importlib.import_module("transformers")
    # With norms that learned nothing, the features of an image vanish in
    # weights as small as those that training begins with: zero by its length.
    initial = {"initializer_range": 0.1 if size == "full" else 0.2}
    if size == "full":
        config = transformers.AlignConfig(vision_config=initial)
        return transformers.AlignModel(config)  # type: ignore[no-any-return]
    text = transformers.AlignTextConfig(**_SMALL, num_hidden_layers=2)
    vision = transformers.AlignVisionConfig(
        image_size=64, width_coefficient=0.25, depth_coefficient=0.25,
        hidden_dim=64, drop_connect_rate=0.0, dropout_rate=0.0, **initial,
    )  # fmt: skip
    return transformers.AlignModel(  # type: ignore[no-any-return]
        transformers.AlignConfig(
            text_config=text.to_dict(),
            vision_config=vision.to_dict(),
            projection_dim=80,
        )
    )


def _align_data(size: Size) -> Inputs:
    images, _ = _images(2, 64, 289)(size)
    _, arguments = _tokens(12, 64)(size)
    return (), arguments | {"pixel_values": images[0]}


class _UpBlock(nn.Module):
    """Doubles the resolution, beside features of the encoder's."""

    def __init__(self, channels: int, skip: int, out: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3)
        self.second = nn.Conv2d(out + skip, out, 3)
        self.pad = nn.ReflectionPad2d(1)

    def forward(self, x: Tensor, skip: Tensor | None) -> Tensor:
        x = functional.elu(self.first(self.pad(x)))
        x = functional.interpolate(x, scale_factor=2, mode="nearest")
        if skip is not None:
            x = torch.cat([x, skip], 1)
        return functional.elu(self.second(self.pad(x)))


class _DepthNet(nn.Module):
    """A residual encoder, and a decoder that tells depth at four scales."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = torchvision_model("resnet18")("full")
        skips, outs = [256, 128, 64, 64, 0], [256, 128, 64, 32, 16]
        self.blocks = nn.ModuleDict()
        self.heads = nn.ModuleDict()
        channels = 512
        for i, (skip, out) in enumerate(zip(skips, outs, strict=True)):
            self.blocks[f"up_{i}"] = _UpBlock(channels, skip, out)
            if i > 0:
                self.heads[f"disparity_{i}"] = nn.Conv2d(out, 1, 3, padding=1)
            channels = out

    def forward(self, image: Tensor) -> dict[tuple[str, int], Tensor]:
        net: Any = self.encoder
        features = []
        x = net.relu(net.bn1(net.conv1((image - 0.45) / 0.225)))
        features.append(x)
        x = net.maxpool(x)
        for layer in (net.layer1, net.layer2, net.layer3, net.layer4):
            x = layer(x)
            features.append(x)
        self.outputs: dict[tuple[str, int], Tensor] = {}
        x = features[-1]
        for i in range(5):
            skip = features[3 - i] if i < 4 else None
            x = self.blocks[f"up_{i}"](x, skip)
            if f"disparity_{i}" in self.heads:
                disparity = torch.sigmoid(self.heads[f"disparity_{i}"](x))
                self.outputs["disparity", i] = disparity
        return self.outputs


class _Round(torch.autograd.Function):
    """Rounds; gradients pass as if it didn't."""

    @staticmethod
    def forward(context: Any, x: Tensor, levels: int) -> Tensor:
        del context
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        del context
        return gradients[0], None


def _round(x: Tensor, levels: int) -> Tensor:
    rounded: Tensor = _Round.apply(x, levels)  # type: ignore[no-untyped-call]
    return rounded


class _QuantisedConv(nn.Conv2d):
    """A convolution of weights and activations of a few bits."""

    bits = 4

    def forward(self, x: Tensor) -> Tensor:
        levels = 2**self.bits - 1
        weight = torch.tanh(self.weight)
        weight = weight / (2 * weight.abs().max()) + 0.5
        weight = 2 * _round(weight, levels) - 1
        x = _round(x.clamp(0, 1), levels)
        return functional.conv2d(
            x, weight, self.bias, self.stride, self.padding
        )


def _quantised(size: Size) -> nn.Module:
    del size
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
    for stride in (1, 2, 1, 2, 1):
        layers += [
            _QuantisedConv(16, 16, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardtanh(0, 1),
        ]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    return nn.Sequential(*layers)


class _TridentBlock(nn.Module):
    """Three branches of other dilations with one set of weights."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.shrink = nn.Conv2d(channels, inner, 1, bias=False)
        self.grow = nn.Conv2d(inner, channels, 1, bias=False)
        self.weight = nn.Parameter(torch.randn(inner, inner, 3, 3) * 0.1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(inner) for _ in range(2))
        self.last = nn.BatchNorm2d(channels)
        self.dilations = (1, 2, 3)
        self.test_branch = 1

    def forward(self, inputs: Tensor | list[Tensor]) -> list[Tensor]:
        count = len(self.dilations) if self.training else 1
        if not isinstance(inputs, list):
            inputs = [inputs] * count
        x = [functional.relu(self.norms[0](self.shrink(i))) for i in inputs]
        dilations = (
            self.dilations
            if self.training
            else (self.dilations[self.test_branch],)
        )
        x = [
            functional.conv2d(i, self.weight, None, 1, d, d)
            for i, d in zip(x, dilations, strict=True)
        ]
        x = [self.last(self.grow(functional.relu(self.norms[1](i)))) for i in x]
        return [functional.relu(a + b) for a, b in zip(x, inputs, strict=True)]


class _TridentTrunk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        self.blocks = nn.Sequential(*[_TridentBlock(32, 16) for _ in range(3)])
        self.out_features = ["stem", "trident"]

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        outputs = {}
        x = self.stem(image)
        if "stem" in self.out_features:
            outputs["stem"] = x
        for i, branch in enumerate(self.blocks(x)):
            outputs[f"trident_{i}"] = branch
        return outputs


def _mean_of_all(tree: Any) -> Tensor:
    return torch.stack([t.square().mean() for t in tree.values()]).sum()


ENTRIES = [
    Entry(
        "ALIGN",
        _align,
        _align_data,
        lambda y: y.logits_per_text.square().mean(),
    ),
    Entry(
        "BERT",
        _text("Bert", 12),
        _tokens(16, 256),
        lambda y: y.last_hidden_state.square().mean(),
    ),
    Entry(
        "DeBERTa",
        _text(
            "Deberta",
            4,
            relative_attention=True,
            pos_att_type=["c2p", "p2c"],
        ),
        _tokens(16, 256),
        lambda y: y.last_hidden_state[:, 0].square().mean(),
    ),
    Entry(
        "DenseNet",
        torchvision_model("densenet121"),
        _images(1, 64, 224),
        lambda y: y.square().mean(),
    ),
    Entry(
        "MonoDepth",
        lambda _: _DepthNet(),
        _images(1, 64, 256),
        _mean_of_all,
    ),
    Entry(
        "quantised",
        _quantised,
        _images(4, 32, 224),
        lambda y: y.square().mean(),
    ),
    Entry(
        "ResNet",
        torchvision_model("resnet18"),
        _images(2, 64, 224),
        lambda y: y.square().mean(),
    ),
    Entry(
        "Trident",
        lambda _: _TridentTrunk(),
        _images(2, 64, 224),
        _mean_of_all,
    ),
]

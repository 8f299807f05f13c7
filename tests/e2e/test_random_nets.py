"""Random convolutional nets, frozen and not: numbers and strides as eager's.

What a convolution or a norm gives is read by one op or by several, in the
order in which it lies or in another, so that every rule of fusing, folding
and layouts is met in company.
"""

import copy
import random

import pytest
import torch
import torch.nn.functional as F
from e2e.model_checks import error
from torch import nn

import mica

_ACTIVATIONS = [
    F.relu,
    F.relu6,
    F.silu,
    F.gelu,
    F.hardswish,
    torch.sigmoid,
    torch.tanh,
]


def norm_over_channels(x):
    return F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2]).permute(0, 3, 1, 2)


def shuffle(x):
    n, c, h, w = x.shape
    groups = 2 if c % 2 == 0 else 1
    x = x.view(n, groups, c // groups, h, w).transpose(1, 2)
    return x.reshape(n, c, h, w)


_UNARY = [
    *_ACTIVATIONS,
    norm_over_channels,
    shuffle,
    lambda x: F.max_pool2d(x, 3, 2, 1),
    lambda x: F.avg_pool2d(x, 3, 2, 1),
    lambda x: F.interpolate(x, scale_factor=2),
    lambda x: F.pad(x, (1, 1)),
    lambda x: F.group_norm(x, 1),
    lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
    lambda x: x * F.adaptive_avg_pool2d(x, 1),
    lambda x: x[:, : (x.shape[1] + 1) // 2],
    lambda x: x.flatten(2).softmax(-1).view(x.shape),
    lambda x: x.softmax(1),
    lambda x: x.clone(memory_format=torch.channels_last) * 2,
    lambda x: x.cumsum(3),
    lambda x: x.flip(3),
    lambda x: x * x.new_ones(x.shape[-1]).cumsum(0),
]


class RandomNet(nn.Module):
    """Steps that each take one or two of the latest values."""

    def __init__(self, seed):
        super().__init__()
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        n, h, w = (
            self.random.choice(dims) for dims in [(1, 3), (5, 8), (6, 9)]
        )
        self.x = torch.randn(n, 3, h, w)
        if seed % 3 == 0:
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.modules_used = nn.ModuleList()
        self.steps = []  # A function and the values that it takes.
        values = [self.x]
        with torch.no_grad():
            for _ in range(self.random.randint(4, 12)):
                self.grow(values)
        last = len(values) - 1
        self.results = [last, self.random.randint(1, last)]

    def add(self, values, fn, *operands):
        self.steps.append((fn, operands))
        values.append(fn(*[values[i] for i in operands]))

    def add_module_step(self, values, module, operand):
        self.modules_used.append(module.eval())
        self.add(values, module, operand)

    def grow(self, values):
        choice = self.random.choice
        last = len(values) - 1
        at = self.random.randint(max(0, last - 2), last)
        same = [
            i
            for i, v in enumerate(values)
            if v.shape[2:] == values[at].shape[2:]
        ]
        kind = choice(["convolution", "convolution", "norm", "unary", "pair"])
        if kind == "unary":
            self.add(values, choice(_UNARY), at)
        elif kind == "norm":
            self.norm(values, at)
        elif kind == "convolution":
            self.convolution(values, at)
        elif choice([True, False]):
            self.add(
                values, lambda a, b: torch.cat([a, b], 1), at, choice(same)
            )
        else:
            channels = values[at].shape[1]
            fits = [i for i in same if values[i].shape[1] in (channels, 1)]
            self.add(values, torch.add, at, choice(fits))

    def norm(self, values, at):
        norm = nn.BatchNorm2d(values[at].shape[1])
        for tensor in (norm.weight, norm.bias, norm.running_mean):
            nn.init.normal_(tensor)
        norm.running_var.uniform_(0.5, 2)
        self.add_module_step(values, norm, at)

    def convolution(self, values, at):
        choice = self.random.choice
        channels = values[at].shape[1]
        groups = choice([1, 1, channels])
        out = (
            choice([1, 4, 8, 17]) if groups == 1 else channels * choice([1, 2])
        )
        size, dilation = choice([1, 3]), choice([1, 1, 2])
        module = nn.Conv2d(
            channels,
            out,
            size,
            stride=choice([1, 1, 2]),
            padding=size // 2 * dilation,
            dilation=dilation,
            groups=groups,
            bias=choice([True, False]),
        )
        self.add_module_step(values, module, at)
        if choice([True, False]):
            self.norm(values, len(values) - 1)
        fits = [i for i, v in enumerate(values) if v.shape == values[-1].shape]
        if choice([True, False]):
            self.add(values, torch.add, len(values) - 1, choice(fits))
        if choice([True, False]):
            self.add(values, choice(_ACTIVATIONS), len(values) - 1)

    def forward(self, x):
        values = [x]
        for fn, operands in self.steps:
            values.append(fn(*[values[i] for i in operands]))
        return [values[i] for i in self.results]


@pytest.mark.parametrize("seed", range(24))
def test_random_net(seed):
    net = RandomNet(seed).eval()
    compiled = {
        frozen: mica.compile(net, frozen=frozen) for frozen in (False, True)
    }
    with torch.no_grad():
        want = net(net.x)
        exact = copy.deepcopy(net).double()(net.x.double())
        for frozen, fn in compiled.items():
            fn(net.x)
            got = fn(net.x)
            for a, b, c in zip(got, want, exact, strict=True):
                assert a.stride() == b.stride()
                # A norm of few numbers may blow up what is all roundoff.
                assert error([a], [c]) <= max(4 * error([b], [c]), 1e-6), frozen
            explanation = mica.explain(fn)
            assert explanation.hits == 1, str(explanation)
            # Upsampling is ATen's, for its signs of zeros.
            assert not {
                name
                for name in explanation.graphs[0].opaque
                if "upsample" not in name
            }

"""Convolutions of groups, narrow and wide, against eager."""

import pytest
import torch
from torch import nn

import mica

# Channels, columns, groups, taps, step, padding, dilation.
CASES = [
    (128, 128, 2, 3, 1, 1, 1),  # By Winograd's method.
    (96, 64, 2, 3, 1, 0, 1),
    (320, 320, 20, 3, 1, 1, 1),
    (52, 52, 13, 3, 1, 1, 1),  # Four channels of a group fill no vector.
    (104, 104, 13, 3, 2, 1, 1),
    (22, 22, 11, 5, 1, 2, 2),
    (32, 32, 4, 7, 1, 3, 1),  # Too many terms for one sum.
    (256, 128, 8, 3, 2, 1, 1),  # Pixels that share cache sets.
    (512, 40, 1, 3, 2, 1, 1),
    (24, 48, 24, 3, 1, 1, 1),
    (30, 30, 5, 3, 1, 1, 1),
]


def net_of(channels, columns, groups, taps, step, padding, dilation):
    torch.manual_seed(1)
    conv = nn.Conv2d(
        channels, columns, taps, step, padding, dilation, groups=groups
    )
    norm = nn.BatchNorm2d(columns)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    return nn.Sequential(conv, norm, nn.ReLU()).eval()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    "layout", [torch.contiguous_format, torch.channels_last]
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_are_eagers(case, layout, frozen):
    net = net_of(*case)
    parts = (
        (mica.compile(net, frozen=frozen), net),
        (
            mica.compile(net[0], frozen=frozen),
            net[0],
        ),
    )
    with torch.no_grad():
        for compiled, eager in parts:
            for seed in range(3):
                generator = torch.Generator().manual_seed(seed)
                x = torch.randn(2, case[0], 15, 18, generator=generator)
                x = x.contiguous(memory_format=layout)
                torch.testing.assert_close(
                    compiled(x), eager(x), rtol=1e-4, atol=1e-4
                )


@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_infinities_stay_in_their_group(case):
    conv = net_of(*case)[0]
    compiled = mica.compile(conv, frozen=True)
    x = torch.randn(1, case[0], 12, 12, generator=torch.manual_seed(3))
    with torch.no_grad():
        for place in (0, case[0] - 1):
            spoilt = x.clone()
            spoilt[0, place, 5, 6] = torch.inf
            for _ in range(2):
                torch.testing.assert_close(
                    compiled(spoilt), conv(spoilt), rtol=1e-4, atol=1e-4
                )


def test_rows_without_a_number_are_zeros():
    def attend(x):
        return torch._safe_softmax(x, -1)

    compiled = mica.compile(attend)
    x = torch.randn(3, 4, 37, generator=torch.manual_seed(2))
    x[0, 1] = -torch.inf
    x[2, 3] = -torch.inf
    x[1, 0, :5] = -torch.inf
    x[1, 2, 3] = torch.nan
    for _ in range(3):
        torch.testing.assert_close(compiled(x), attend(x), equal_nan=True)


# Channels, columns, groups, taps: products of the weight and all pixels, and
# groups of one channel.
VOLUMES = [(8, 12, 1, 1), (12, 12, 12, 3), (6, 12, 6, 3), (8, 4, 2, 1)]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("layout", ["planes", "channels last", "turned"])
@pytest.mark.parametrize("case", VOLUMES, ids=str)
def test_volumes(case, layout, frozen):
    channels, columns, groups, taps = case
    conv = torch.nn.Conv3d(
        channels, columns, taps, padding=taps // 2, groups=groups
    ).eval()
    compiled = mica.compile(conv, frozen=frozen)
    for seed in range(3):
        x = torch.randn(2, channels, 5, 6, 7, generator=torch.manual_seed(seed))
        if layout == "channels last":
            x = x.contiguous(memory_format=torch.channels_last_3d)
        elif layout == "turned":
            x = x.transpose(2, 4)
        with torch.no_grad():
            got, want = compiled(x), conv(x)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert got.stride() == want.stride()

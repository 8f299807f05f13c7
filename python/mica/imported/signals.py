"""Fourier transforms and what goes with them."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator
from mica.imported.tensors import DTYPES

Tensor = torch.Tensor


def _scalar(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def _complex(x: Tensor) -> Tensor:
    """Of pairs in the last dim, or of real numbers."""
    if x.shape[-1] == 1:
        return x.squeeze(-1)
    return torch.view_as_complex(x.contiguous())


def _dft(x: Tensor, length: Any, axis: int, inverse: int, onesided: int) -> Any:
    axis = axis % x.dim()
    signal = _complex(x)
    if not inverse:
        if onesided:
            if signal.is_complex():
                made = torch.fft.fft(signal, length, axis)
                half = made.shape[axis] // 2 + 1
                made = made.narrow(axis, 0, half)
            else:
                made = torch.fft.rfft(signal, length, axis)
        else:
            made = torch.fft.fft(signal, length, axis)
        return torch.view_as_real(made)
    if onesided:
        return torch.fft.irfft(signal, length, axis).unsqueeze(-1)
    return torch.view_as_real(torch.fft.ifft(signal, length, axis))


@operator("DFT", 20, sizes=(1, 2))
def dft(
    x: Tensor,
    length: Any = None,
    axis: Any = -2,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Any:
    """torch.fft, with complex numbers as pairs."""
    return _dft(x, _scalar(length), _scalar(axis), inverse, onesided)


@operator("DFT", 17, sizes=(1,))
def dft_17(
    x: Tensor,
    length: Any = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Any:
    """torch.fft, with complex numbers as pairs."""
    return _dft(x, _scalar(length), axis, inverse, onesided)


@operator("STFT", 17, sizes=(1, 3))
def stft(
    x: Tensor,
    step: Any,
    window: Tensor | None = None,
    length: Any = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Fourier transforms of frames: [batch, frames, frequencies, 2]."""
    if length is None:
        size = x.shape[1] if window is None else window.shape[0]
    else:
        size = _scalar(length)
    signal = _complex(x)
    frames = signal.unfold(1, size, _scalar(step))
    if window is not None:
        frames = frames * F.pad(window, (0, size - window.shape[0]))
    if onesided and not frames.is_complex():
        return torch.view_as_real(torch.fft.rfft(frames))
    made = torch.fft.fft(frames)
    if onesided:
        made = made[..., : size // 2 + 1]
    return torch.view_as_real(made)


def _mel(hertz: float) -> float:
    return 2595 * math.log10(1 + hertz / 700)


@operator("MelWeightMatrix", sizes=(0, 1, 2, 3, 4))
def mel_weight_matrix(
    bins: Any,
    length: Any,
    rate: Any,
    lower: Any,
    upper: Any,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """Triangles over frequencies, evenly spaced in mel: [freqs, bins]."""
    bins, length, rate, lower, upper = map(
        _scalar, (bins, length, rate, lower, upper)
    )
    step = (_mel(upper) - _mel(lower)) / (bins + 2)
    edges = torch.arange(bins + 2, dtype=torch.float64) * step + _mel(lower)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    places = ((length + 1) * hertz / rate).floor()
    low, middle, high = places[:-2], places[1:-1], places[2:]
    at = torch.arange(length // 2 + 1, dtype=torch.float64)[:, None]
    rise = (at - low) / (middle - low).clamp(min=1)
    rise = torch.where(low == middle, 1.0, rise)
    fall = (high - at) / (high - middle).clamp(min=1)
    up = (at >= low) & (at <= middle)
    down = (at >= middle) & (at < high)
    made = torch.where(down, fall, torch.where(up, rise, 0.0))
    return made.to(DTYPES[output_datatype])

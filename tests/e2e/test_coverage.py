"""What Mica tells a harness that counts captured programs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mica.testing import coverage


def test_a_served_program() -> None:
    call, info = coverage.capture(nn.Linear(4, 2), [torch.rand(3, 4)], {})
    with torch.no_grad():
        for captures in (1, 1, 1):
            call(torch.rand(3, 4))
            told = info()
            assert told["graphs"] == 1
            assert not told["fallback"]
            assert told["captures"] == captures
    assert told["reason"] is None
    assert told["ops"] > 0


def test_a_program_that_runs_eagerly() -> None:
    def complex_roots(x: Tensor) -> Tensor:
        return torch.fft.fft(x).abs().sort()[0]

    call, info = coverage.capture(complex_roots, [torch.rand(9)], {})
    for _ in range(3):
        call(torch.rand(9))
        told = info()
        assert told["graphs"] == 0
        assert told["fallback"]
    assert "fft" in told["reason"]

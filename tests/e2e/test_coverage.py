"""What Mica tells a harness that counts captured programs."""

from __future__ import annotations

import os

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


def test_a_program_in_pieces() -> None:
    def few(x: Tensor) -> Tensor:
        y = (x * 2).to_sparse().to_dense()
        return y + 1

    call, info = coverage.capture(few, [torch.rand(9)], {})
    for graphs in (0, 1, 1):
        x = torch.rand(9)
        assert torch.equal(call(x), few(x))
        told = info()
        assert told["graphs"] >= graphs
        assert told["fallback"]
    assert told["breaks"] >= 1
    assert told["ops"] > 0
    assert "sparse" in told["reason"]


def test_a_program_that_runs_eagerly() -> None:
    def process(x: Tensor) -> int:
        return os.getpid()

    call, info = coverage.capture(process, [torch.rand(9)], {})
    for _ in range(3):
        call(torch.rand(9))
        told = info()
        assert told["graphs"] == 0
        assert told["fallback"]
    assert "posix.getpid" in told["reason"]

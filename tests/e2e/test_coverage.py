"""What Mica tells a harness that counts captured programs."""

from __future__ import annotations

import os
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from mica.testing import coverage


def test_a_served_program() -> None:
    call, info = coverage.capture(nn.Linear(4, 2), [torch.rand(3, 4)], {})
    with torch.no_grad():
        for served in (0, 1, 1):  # The first call is watched: eager runs.
            call(torch.rand(3, 4))
            told = info()
            assert told["graphs"] == served
            assert told["fallback"] == (not served)
            assert told["captures"] == 1
    assert told["reason"] is None
    assert told["ops"] > 0
    assert told["opaque"] == told["reference"] == {}
    assert told["inaccuracy"] is None


def test_a_new_shape_is_not_served() -> None:
    call, info = coverage.capture(nn.Linear(4, 2), [torch.rand(3, 4)], {})
    with torch.no_grad():
        for rows, graphs in ((3, 0), (3, 1), (5, 0), (5, 1), (3, 1)):
            call(torch.rand(rows, 4))
            assert info()["graphs"] == graphs


def test_who_runs_the_operators() -> None:
    def roots(x: Tensor) -> Tensor:
        return torch.linalg.eigvalsh(x @ x.T) + x.sum()

    x = torch.rand(4, 4)
    call, info = coverage.capture(roots, [x], {})
    exact, told_exact = coverage.capture_exact(nn.Linear(4, 2), [x], {})
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(call(x), roots(x))
            exact(x)
            told = info()
            by_aten = told_exact()
    assert told["graphs"] == 1
    assert sum(told["opaque"].values()) >= 1
    assert any("eig" in name for name in told["opaque"])
    assert told["reference"] == {}
    # Where ATen runs what Mica has kernels for, that is told, too.
    assert by_aten["graphs"] == 1
    assert any("linear" in n or "mm" in n for n in by_aten["opaque"])


def test_a_slow_kernel_is_told() -> None:
    graph = SimpleNamespace(
        plan_text="plan @f steps=3 arena_bytes=0 live_set_bytes=0\n"
        "  fold: aten.mul by reference.binary (variable 0)\n"
        "  0: aten.add.Tensor by cpu.binary (input 0)\n"
        "  1: aten.flip by reference.flip (input 0)\n"
        "    plan @body steps=1 arena_bytes=0 live_set_bytes=0\n"
        "      0: aten.mm by reference (input 0)\n"
    )
    found = coverage._by_reference_kernels(graph)  # type: ignore[arg-type]
    assert found == ["aten.flip", "aten.mm"]


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

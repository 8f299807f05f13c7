"""MICA_FUSE leaves out what it names, and explanations say what isn't one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import mica


def program(x: Tensor, w: Tensor) -> Tensor:
    x = (x @ w).relu()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def planned(x: Tensor, w: Tensor) -> str:
    """The Plan by the setting of now, whose results are eager's."""
    mica.reset()
    compiled = mica.compile(program, fullgraph=True)
    with torch.no_grad():
        want = program(x, w)
        for _ in range(2):
            assert torch.allclose(compiled(x, w), want, rtol=1e-5, atol=1e-6)
    (graph,) = mica.explain(compiled).graphs
    return graph.plan_text


def test_kinds_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 16)
    plan = planned(x, w)
    assert "mica.linear" in plan
    assert "mica.reduce" in plan
    for setting, kind in (("-linear", "linear"), ("-reductions", "reduce")):
        monkeypatch.setenv("MICA_FUSE", setting)
        assert f"mica.{kind}" not in planned(x, w)
    monkeypatch.setenv("MICA_FUSE", "off")
    assert "mica." not in planned(x, w)
    monkeypatch.setenv("MICA_FUSE", "regions=0")
    assert "mica.reduce" not in planned(x, w)
    monkeypatch.delenv("MICA_FUSE")
    assert planned(x, w) == plan


def test_an_unknown_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICA_FUSE", "-lines")
    x = torch.randn(4, 4)
    compiled = mica.compile(program, fullgraph=True)
    with pytest.raises(mica.errors.CaptureError, match='"-lines" is none of'):
        compiled(x, x)


def test_an_explanation_says_why() -> None:
    def apart(x: Tensor) -> Tensor:
        return (x.abs() + 1).flip(0)

    x = torch.randn(4, 4)
    compiled = mica.compile(apart)
    compiled(x)
    text = mica.explain(compiled).details("fusion")
    assert "aten.add" in text
    assert "aten.flip" in text
    assert "no rule takes it" in text

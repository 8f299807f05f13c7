"""mica.explain: ten lines, and sections on demand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica
from mica.explaining.sections import SECTIONS


def _lines(compiled: Callable[..., Any]) -> dict[str, str]:
    """The lines of the summary by what they are about; "" is the first."""
    first, *rest = str(mica.explain(compiled)).splitlines()
    assert len(rest) <= 9
    return {"": first, **{line[2:14].strip(): line[14:] for line in rest}}


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96)
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x):
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (2, 16)).transpose(1, 2) for p in parts)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + y.transpose(1, 2).flatten(2)
        return x + self.down(self.up(self.norm(x)).relu())


def test_two_layers_of_a_transformer_are_told_in_ten_lines():
    model = torch.nn.Sequential(Layer(), Layer())
    compiled = mica.compile(model.eval())
    for _ in range(3):
        compiled(torch.randn(2, 5, 32))
    told = _lines(compiled)
    assert told[""] == "Sequential: one graph"
    assert told["calls"] == "2 hits, 1 watched, 0 eager"
    assert re.match(r"\d+ ops, \d+ guards, [\d.]+ KiB of memory", told["graph"])
    assert "the fastest hit took" in told["time"]
    assert "the watched run" in told["time"]
    assert told["would help"].startswith("frozen=True")
    page = mica.explain(compiled).details()
    assert len(page.splitlines()) > 40
    assert "guards, by what they protect" in page


def test_times_are_of_hits_and_of_the_watched_run():
    compiled = mica.compile(lambda x: x.relu() + 1)
    compiled(torch.randn(3))
    graph = mica.explain(compiled).graphs[0]
    assert graph.watched_seconds > 0 and graph.hit_seconds == 0
    assert "time" not in _lines(compiled)
    compiled(torch.randn(3))
    graph = mica.explain(compiled).graphs[0]
    assert 0 < graph.hit_seconds < 1


def test_a_callable_that_was_never_called_says_so():
    assert _lines(mica.compile(torch.relu))[""].endswith("not called yet")


def test_ops_that_aten_runs_are_told_with_the_reason():
    def odd(x):
        return torch.special.erfcx(x).relu()

    compiled, exact = mica.compile(odd), mica.compile(odd, exact=True)
    for fn in (compiled, exact):
        fn(torch.randn(3))
    assert _lines(compiled)["ATen"] == (
        "1 of 2 ops are ATen's: aten.special_erfcx 1 (Mica has no kernel for "
        "them)"
    )
    assert "exact leaves to ATen what computes" in _lines(exact)["ATen"]


def test_a_cut_is_told_with_its_line_and_what_would_help():
    def logs(x):
        y = x.relu()
        with open("/dev/null") as file:
            file.read()
        return y + 1

    compiled = mica.compile(logs)
    for _ in range(6):
        compiled(torch.randn(3))
    told = _lines(compiled)
    assert "in pieces" in told[""]
    assert "test_explain.py:" in told["eager"]
    assert "in pieces" in told["calls"]
    assert "the fastest hits of its pieces took" in told["time"]
    assert mica.explain(compiled).details("pieces").count("\n") >= 2


def test_effects_misses_and_their_number_are_told():
    def loud(x, scale):
        print("called")
        return x * scale

    compiled = mica.compile(loud)
    for scale in ("a", 2.0, 3.0, True):
        x = torch.randn(3)
        if scale != "a":
            compiled(x, scale)
    told = _lines(compiled)
    assert told["effects"].startswith("a hit calls builtins.print (")
    assert "scale: recorded" in told["missed"]
    assert "misses" in told["more"] and "effects" in told["more"]


def test_sizes_that_vary_a_lot_are_worth_a_mark():
    compiled = mica.compile(lambda x: x.relu(), dynamic=False)
    for size in range(3, 10):
        compiled(torch.randn(size, 4))
    assert _lines(compiled)["would help"] == "mica.mark_dynamic(x, 0)"


def test_sizes_that_vary_are_told():
    compiled = mica.compile(lambda x: x.relu())
    for size in range(3, 10):
        compiled(torch.randn(size, 4))
    told = mica.explain(compiled)
    assert [g.sizes for g in told.graphs] == [["x.shape[0]"]]
    assert told.graphs[0].num_watched == 2 and told.graphs[0].num_sizes == 6
    assert "for any x.shape[0] (6 sizes so far)" in _lines(compiled)["graph"]
    assert "x is f32[any,4]" in told.details("guards")


def test_why_sizes_stay_fixed_is_told():
    compiled = mica.compile(lambda x: x * sum(list(range(x.shape[0]))))
    for size in (3, 4):
        compiled(torch.randn(size, 4))
    fixed = mica.explain(compiled).fixed_sizes
    unknown = "nobody knows where a constant comes from, which was 3 and 6 ("
    assert f"aten.mul.Tensor: {unknown}" in fixed
    # The row is cut where it's long, which depends on where this file lies.
    assert "; sizes are fixed: " in _lines(compiled)["missed"]


def test_sections_are_given_by_name():
    compiled = mica.compile(lambda x: torch.relu(x))
    compiled(torch.randn(3))
    told = mica.explain(compiled)
    for section in SECTIONS:
        assert told.details(section)
    assert "x is f32[3]" in told.details("guards")
    assert "aten.relu" in told.details("ops")
    assert "aten.relu(%x)" in told.details("program")
    assert told.details("effects") == "effects: none"
    with pytest.raises(ValueError, match="no section 'gards', there are"):
        told.details("gards")


def test_a_long_reason_of_several_lines_is_one_short_line():
    def odd(x, name):
        return x + len(name)

    compiled = mica.compile(odd)
    for name in ("a\nb" * 100, "c\nd" * 100):
        compiled(torch.randn(3), name)
    told = _lines(compiled)
    assert len(told["missed"]) <= 240
    assert told["calls"].startswith("0 hits, 2 watched")


def test_training_is_not_told_to_freeze_its_weights():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = mica.compile(step)
    with torch.enable_grad():
        for _ in range(4):
            compiled(torch.randn(2, 4))
    told = _lines(compiled)
    assert mica.explain(compiled).hits > 0
    assert "frozen" not in told.get("would help", "")

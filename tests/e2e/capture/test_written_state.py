"""Attributes and items that a program leaves behind."""

from __future__ import annotations

import contextlib
import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from torch import nn

import mica


def state_of(module: nn.Module) -> list[tuple[str, dict[str, Any]]]:
    """All plain attributes of a module and those in it, in their order."""
    return [
        (name, {k: v for k, v in vars(m).items() if not k.startswith("_")})
        for name, m in module.named_modules()
    ]


def run_beside(
    forward: Callable[..., Any], hits: int | None = None, calls: int = 4
) -> tuple[nn.Module, Any]:
    """A net with this forward(), compiled, beside the plain one."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.inner = nn.Identity()
            self.seen = None
            self.table = {"a": 1}

    Net.forward = forward  # type: ignore[method-assign]
    torch.manual_seed(0)
    mine = Net().eval()
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine)
    with torch.no_grad():
        for seed in range(calls):
            same(compiled(x(seed)), plain(x(seed)))
            for got, want in zip(state_of(mine), state_of(plain), strict=True):
                same(got, want)
    if hits is not None:
        assert report(compiled).hits == hits, str(report(compiled))
    return mine, compiled


def test_a_tensor_kept_on_the_module():
    def forward(self, a):
        self.seen = torch.softmax(self.fc(a), -1)
        return self.seen * 2

    _, compiled = run_beside(forward, hits=3)
    [graph] = report(compiled).graphs
    [effect] = graph.effects
    assert effect.startswith("sets seen (")
    assert "effects:" in report(compiled).details()


def test_what_is_kept_is_what_is_returned():
    def forward(self, a):
        y = self.fc(a)
        self.seen = {"y": y, "both": [y, (a, y + 1)], "n": a.shape[0]}
        return y, self.seen["both"]

    mine, compiled = run_beside(forward, hits=3)
    given = x(9)
    with torch.no_grad():
        y, both = compiled(given)
    assert mine.seen["y"] is y
    assert mine.seen["both"] is both
    assert both[1][0] is given


def test_new_names_come_in_their_order():
    def forward(self, a):
        self.second = a + 1
        self.first = a + 2
        self.inner.deep = self.second
        del self.second
        self.second = 3
        return a

    run_beside(forward, hits=3)


def test_removed_again():
    def forward(self, a):
        self.scratch = a + 1
        y = self.scratch * 2
        del self.scratch
        return y

    mine, _ = run_beside(forward, hits=3)
    assert not hasattr(mine, "scratch")


def test_setattr_and_object_setattr():
    def forward(self, a):
        for i in range(2):
            setattr(self.inner, f"part{i}", a + i)
        object.__setattr__(self, "hidden", a * 2)
        return self.inner.part1 + self.hidden

    run_beside(forward, hits=3)


def test_a_flag_that_is_read_first():
    def forward(self, a):
        if self.seen is None:
            self.seen = True
            return a + 1
        return a - 1

    run_beside(forward, hits=2)


def test_a_number_that_the_result_depends_on_is_no_constant():
    def count(self, a):
        self.n = getattr(self, "n", 0) + 1
        return a * self.n

    run_beside(count, hits=2)


def test_a_float_read_from_a_tensor():
    def forward(self, a):
        self.mean = a.mean().item()
        return a - self.mean

    run_beside(forward)


def test_a_dict_read_whole_after_a_write():
    def forward(self, a):
        self.extra = a + 1
        return a * len(vars(self))

    run_beside(forward)


def test_a_write_to_an_argument():
    class Box:
        def __init__(self, value):
            self.value = value

    def f(box):
        box.other = box.value + 1
        return box.other * 2

    compiled = mica.compile(f)
    for seed in range(4):
        mine, plain = Box(x(seed)), Box(x(seed))
        same(compiled(mine), f(plain))
        same(vars(mine), vars(plain))


def test_a_closure_reads_what_was_written():
    def forward(self, a):
        self.seen = a + 1

        def inner():
            return self.seen * 2

        return inner()

    run_beside(forward, hits=3)


def test_another_write_between_the_calls():
    class Net(nn.Module):
        def forward(self, a):
            self.seen = a + 1
            return self.seen

    net = Net()
    compiled = mica.compile(net)
    compiled(x(0))
    for value in (None, 3, "text", x(5)):
        net.seen = value
        same(compiled(x(1)), x(1) + 1)
        same(net.seen, x(1) + 1)
    del net.seen
    compiled(x(2))
    same(net.seen, x(2) + 1)
    assert report(compiled).hits == 5


def test_a_property_and_a_slot():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.raw = 1

        @property
        def value(self):
            return self.raw

        @value.setter
        def value(self, new):
            self.raw = new

        def forward(self, a):
            self.value = a.shape[0] + 4
            return a * self.value

    net = Net()
    compiled = mica.compile(net)
    for rows in (2, 3, 2, 3):
        a = x(rows, rows, 4)
        same(compiled(a), a * (rows + 4))
        assert net.raw == rows + 4


def test_a_failed_run_writes_nothing():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = None

        def forward(self, a):
            self.seen = a + 1
            if a.sum() > 0:
                raise ValueError("positive")
            return a

    net = Net()
    compiled = mica.compile(net)
    for _ in range(3):
        compiled(-torch.ones(2))
    with pytest.raises(ValueError, match="positive"):
        compiled(torch.ones(2))
    same(net.seen, torch.full((2,), 2.0))


def test_records_keep_no_written_tensor_alive():
    class Net(nn.Module):
        def forward(self, a):
            self.seen = a + 1
            return a * 2

    net = Net()
    compiled = mica.compile(net)
    for seed in range(3):
        compiled(x(seed))
        kept = weakref.ref(net.seen)
        net.seen = None
        gc.collect()
        assert kept() is None


def test_weight_norm_and_spectral_norm():
    for norm in (nn.utils.weight_norm, nn.utils.spectral_norm):
        torch.manual_seed(0)
        is_old = norm is nn.utils.weight_norm
        with pytest.warns() if is_old else contextlib.nullcontext():
            net = norm(nn.Conv1d(4, 6, 3)).eval()
        plain = copy.deepcopy(net)
        compiled = mica.compile(net)
        with torch.no_grad():
            for seed in range(4):
                a = x(seed, 2, 4, 9)
                same(compiled(a), plain(a))
                same(net.weight, plain.weight)
        assert report(compiled).hits == 3


def test_an_export_refuses_it(tmp_path):
    class Net(nn.Module):
        def forward(self, a):
            self.seen = a + 1
            return self.seen

    with pytest.raises(NotImplementedError, match="sets seen"):
        mica.export(Net(), (x(0),), tmp_path / "net")

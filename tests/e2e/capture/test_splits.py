"""Programs that aren't one graph are served by several, around what is cut."""

from __future__ import annotations

import logging
import os
import sys
import time
import typing
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from e2e.capture.calls_in_pieces import LOG, in_pieces, middle, note
from torch import nn

import mica


def test_an_unknown_call_in_the_middle_leaves_two_graphs():
    compiled = in_pieces(middle, graphs=2)
    told = report(compiled)
    assert {one.name for one in told.graph_breaks} == {"middle", "note"}
    file = middle.__code__.co_filename
    line = middle.__code__.co_firstlineno + 2
    assert told.graph_breaks[0].at == f"{file}:{line}"
    assert "posix.getpid" in told.graph_breaks[0].reason
    assert f"graph break at {file}:{line} in middle" in str(told)
    assert "piece: middle from" in told.details("pieces")


def test_every_call_after_the_second_is_served():
    compiled = mica.compile(middle)
    for i in range(5):
        compiled(x(i))
    told = report(compiled)
    pieces = [p for p in told.pieces if p.graphs]
    assert [p.hits for p in pieces] == [3, 3], str(told)
    assert [len(p.graphs) for p in pieces] == [1, 1]


def test_the_first_call_has_its_effects_once():
    compiled = mica.compile(middle)
    LOG.clear()
    compiled(x())
    assert len(LOG) == 1
    compiled(x())
    assert len(LOG) == 2


def test_fullgraph_raises_and_cuts_nothing():
    compiled = mica.compile(middle, fullgraph=True)
    for _ in range(2):
        with pytest.raises(mica.CaptureError, match="getpid"):
            compiled(x())
    assert not report(compiled).graph_breaks


def test_values_of_tensors_reach_the_step():
    def fn(a):
        b = a * 2
        note(round(float(b.sum()), 3))
        return torch.tanh(b)

    in_pieces(fn)


def test_a_printed_tensor(capsys):
    def fn(a):
        b = a + 1
        print(b, file=sys.stdout, flush=os.getpid() > 0)
        return b * b

    compiled = mica.compile(fn)
    for i in range(5):
        want = fn(x(i))
        text = capsys.readouterr().out
        same(compiled(x(i)), want)
        assert capsys.readouterr().out == text
    assert report(compiled).last_graphs == 2


def test_logging_of_a_value(caplog):
    caplog.set_level(logging.INFO)

    def fn(a):
        b = torch.sigmoid(a)
        logging.getLogger("mica.test").info("mean %.4f", b.mean().item())
        return b - a

    compiled = mica.compile(fn)
    for i in range(5):
        want = fn(x(i))
        same(compiled(x(i)), want)
        first, second = caplog.messages[-2:]
        assert first == second
        caplog.clear()
    assert report(compiled).hits == 4, str(report(compiled))


def test_time_is_read_at_each_call():
    seen = []

    def fn(a):
        b = a.cos()
        start = time.perf_counter()
        c = b @ b.t()
        seen.append(time.perf_counter() - start)
        return c

    compiled = mica.compile(fn)
    for i in range(6):
        same(compiled(x(i)), fn(x(i)))
    assert len(seen) == 12
    assert all(t >= 0 for t in seen)
    assert report(compiled).last_graphs >= 1, str(report(compiled))


def test_numpy_on_a_value():
    def fn(a):
        b = a * 3
        c = np.fft.fft(b.numpy()).real.astype(np.float32)
        return torch.from_numpy(c) + b

    in_pieces(fn, calls=4)


def test_tensors_that_no_graph_has():
    def fn(a):
        b = torch.relu(a * 2)
        c = b.to_sparse().to_dense()
        return c.sum() + b.mean()

    compiled = in_pieces(fn)
    assert report(compiled).last_graphs >= 1, str(report(compiled))


class Noting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, a):
        b = self.linear(a)
        note("inner")
        return torch.relu(b)


class Outer(nn.Module):
    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.layers = nn.ModuleList(layers)
        self.last = nn.Linear(4, 4)

    def forward(self, a):
        a = self.first(a).tanh()
        for layer in self.layers:
            a = layer(a) + a
        return self.last(a).sigmoid()


def test_a_cut_in_a_submodule():
    model = nn.Sequential(nn.Linear(4, 4), Noting(), nn.Linear(4, 4)).eval()
    compiled = in_pieces(model, graphs=4)
    assert all(not p.left_eager for p in report(compiled).pieces)


def test_a_cut_in_a_module_of_a_loop():
    model = Outer(nn.Linear(4, 4), Noting(), nn.ReLU()).eval()
    in_pieces(model, graphs=9)


def test_a_module_that_is_cut_reads_its_weights_anew():
    model = Noting().eval()
    compiled = in_pieces(model, graphs=2)
    with torch.no_grad():
        model.linear.weight.add_(1)
    same(compiled(x()), model(x()))
    model.linear.weight.data = torch.zeros(4, 4)
    same(compiled(x()), model(x()))


def test_what_comes_free_of_the_cut_is_one_graph_again():
    state = {"noisy": True}

    def fn(a):
        b = a * 2
        if state["noisy"]:
            note("noise")
        return b + 1

    compiled = in_pieces(fn, graphs=2)
    state["noisy"] = False
    for i in range(4):
        same(compiled(x(i)), fn(x(i)))
    assert report(compiled).hits > 0, str(report(compiled))
    state["noisy"] = True
    for i in range(4):
        LOG.clear()
        same(compiled(x(i)), fn(x(i)))
        assert len(LOG) == 2


def test_gradients_are_those_of_eager():
    linear = nn.Linear(4, 4)

    def fn(a):
        b = linear(a).relu()
        note("grad")
        return linear(b).sum()

    compiled = mica.compile(fn)
    with torch.enable_grad():
        for i in range(5):
            grads = []
            for f in (fn, compiled):
                linear.zero_grad()
                f(x(i)).backward()
                assert linear.weight.grad is not None
                grads.append(linear.weight.grad.clone())
            same(grads[0], grads[1])


def test_a_training_step_in_pieces():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.drop = nn.Dropout(0.3)
            self.last = nn.Linear(4, 2)

        def forward(self, a):
            b = self.first(a).tanh()
            note(float(b.detach().mean()))
            return self.last(self.drop(b))

    def step(net, optimizer, a):
        optimizer.zero_grad()
        loss = net(a).square().mean()
        note("forward")
        loss.backward()
        note("backward")
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        note("step")
        return loss.detach()

    torch.manual_seed(0)
    mine, theirs = Net(), Net()
    theirs.load_state_dict(mine.state_dict())
    sides = []
    for net in (mine, theirs):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        sides.append((net, optimizer))
    compiled = mica.compile(lambda a: step(*sides[0], a), exact=True)
    with torch.enable_grad():
        for i in range(10):
            seen = []
            for fn in (compiled, lambda a: step(*sides[1], a)):
                torch.manual_seed(i)
                LOG.clear()
                loss = fn(x(i))
                seen.append((loss, loss.requires_grad, list(LOG)))
                seen[-1] += (torch.rand(1),)
            same(*seen)
            same(dict(mine.named_parameters()), dict(theirs.named_parameters()))
    assert report(compiled).split_calls >= 6


def test_a_module_that_the_first_call_imports_is_no_cut(tmp_path, monkeypatch):
    name = f"imported_{os.getpid()}"
    text = "import os\n\nN = os.getpid()\nM = eval(compile('2', '', 'eval'))\n"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    source = f"def fn(a):\n    import {name}\n    return a * {name}.M + 1\n"
    names: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), names)
    compiled = mica.compile(names["fn"])
    for i in range(4):
        same(compiled(x(i)), x(i) * 2 + 1)
    told = report(compiled)
    assert told.hits >= 1, str(told)
    assert not told.split_calls, str(told)


def test_a_type_that_the_first_call_makes_is_no_cut():
    def fn(a):
        kind = typing.Optional["torch.never_before"]
        return a * 2 if kind is not None else a

    compiled = mica.compile(fn)
    for i in range(4):
        same(compiled(x(i)), x(i) * 2)
    told = report(compiled)
    assert not told.split_calls, str(told)
    assert told.hits >= 1, str(told)


def test_what_is_disabled_has_no_pieces():
    inner = Outer(nn.ReLU()).eval()
    run = mica.disable(lambda a: inner(a) + 1)

    def fn(a):
        b = a * 2
        note("disabled")
        return run(b) * 2

    compiled = in_pieces(fn, graphs=2)
    assert {piece.name for piece in report(compiled).pieces} == {
        fn.__qualname__
    }

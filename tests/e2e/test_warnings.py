"""What isn't served says so, once, as a Python warning."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings

import pytest
import torch
from torch import nn

import mica


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def x(rows=3):
    return torch.ones(rows, 4)


def warned(fn, *calls):
    """The warnings of calls of what `fn` compiles to, or is."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for args in calls:
            torch.testing.assert_close(
                fn(*args), getattr(fn, "__wrapped__", fn)(*args)
            )
    return [w for w in found if issubclass(w.category, mica.MicaWarning)]


def line_with(text):
    with open(__file__) as file:
        for number, line in enumerate(file, 1):
            if text in line and "line_with" not in line:
                return number
    raise AssertionError(text)


def in_pieces(a):
    a = a * 2
    time.sleep(0)  # The cut.
    return a + 1


def test_pieces_are_told_once_at_the_line_of_the_cut():
    c = mica.compile(in_pieces)
    (found,) = warned(c, *[(x(),)] * 12)
    text = str(found.message)
    assert text.startswith("in_pieces runs in pieces")
    assert "calls time.sleep" in text
    assert "call it outside the compiled function" in text
    assert found.filename == __file__
    assert found.lineno == line_with("# The cut.")
    assert f"{__file__}:{found.lineno}" in text
    assert mica.explain(c).split_calls > 0
    assert warned(c, *[(x(2),)] * 6) == []
    mica.reset(c)
    assert len(warned(c, *[(x(),)] * 6)) == 1


def test_inner_pieces_and_what_is_nested_are_silent():
    class Inner(nn.Module):
        def forward(self, a):
            time.sleep(0)
            return a * 2

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([Inner(), Inner()])

        def forward(self, a):
            for part in self.parts:
                a = part(a) + 1
            time.sleep(0)
            return a

    found = warned(mica.compile(Outer()), *[(x(),)] * 12)
    assert [str(w.message).split(" runs")[0] for w in found] == ["Outer"]


def generator(a):
    def items():
        for i in range(2):
            time.sleep(0)
            yield a + i

    return sum(items(), a)


def test_what_runs_eagerly_for_good_is_told():
    c = mica.compile(generator)
    found = warned(c, *[(x(),)] * 30)
    assert len(found) == 1, [str(w.message) for w in found]
    assert "time.sleep" in str(found[0].message)
    assert "runs" in str(found[0].message)


def test_records_that_serve_nothing_are_told():
    def scaled(a, k):
        return a * len(k)

    c = mica.compile(scaled)
    found = warned(c, *[(x(), "k" * k) for k in range(40)])
    texts = [str(w.message) for w in found]
    assert len(texts) == 2, texts
    assert "was recorded anew at each of its last 4 calls" in texts[0]
    assert "k: recorded" in texts[0] and "tensor" in texts[0]
    assert "runs eagerly for now: its last 24 captures" in texts[1]
    assert all(w.filename == __file__ for w in found)

    c = mica.compile(lambda a: a + 1, dynamic=False)
    found = warned(c, *[(x(rows),) for rows in range(1, 9)])
    assert "mark_dynamic" in str(found[0].message)
    assert len(found) == 1


def test_what_is_served_is_silent():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    rate = torch.optim.lr_scheduler.StepLR(optimizer, 3)

    @mica.compile
    def step(a):
        optimizer.zero_grad()
        loss = net(a).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    model = mica.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", mica.MicaWarning)
        for _ in range(12):
            step(torch.randn(5, 4))
            rate.step()
        for rows in (2, 3, 2, 3, 2, 3, 4, 2):
            model(x(rows)).sum().backward()
        once = mica.compile(lambda a: a + 1)
        for _ in range(3):
            once(x())
    assert mica.explain(step).hits > 5


def test_setting_up_once_is_silent():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = None

        def forward(self, a):
            if self.scale is None:
                time.sleep(0)
                self.scale = torch.full((4,), 2.0)
            return a * self.scale

    c = mica.compile(Lazy())
    assert warned(c, *[(x(),)] * 10) == []
    assert mica.explain(c).hits > 0


def test_as_an_error_no_call_is_lost():
    calls = []

    def f(a):
        calls.append(1)
        time.sleep(0)
        return a + 1

    c = mica.compile(f)
    raised = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", mica.MicaWarning)
        for i in range(8):
            before = len(calls)
            try:
                torch.testing.assert_close(c(x()), x() + 1)
                assert len(calls) == before + 1
            except mica.MicaWarning as error:
                assert "time.sleep" in str(error)
                assert len(calls) == before
                raised += 1
    assert raised == 1


def test_a_filter_of_all_warnings_raises_nothing(capsys):
    def f(a):
        time.sleep(0)
        return a + 1

    c = mica.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(8):
            torch.testing.assert_close(c(x()), x() + 1)
    told = capsys.readouterr().err
    assert told.count("MicaWarning: ") == 1
    assert "time.sleep" in told


def test_filters_hold():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=mica.MicaWarning)
        c = mica.compile(in_pieces)
        for _ in range(6):
            c(x())
    assert found == []
    assert issubclass(mica.MicaWarning, UserWarning)

    # A handler of the user's may raise, and may call what is compiled.
    c = mica.compile(in_pieces)
    seen = []

    def show(message, *rest, **named):
        seen.append(str(message))
        c(x())
        raise ValueError("shown")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        results = []
        for _ in range(6):
            try:
                results.append(c(x()))
            except ValueError as error:
                assert str(error) == "shown"
    assert len(seen) == 1 and len(results) == 5


def test_stances_and_fullgraph_raise_instead():
    c = mica.compile(in_pieces, fullgraph=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(8):
            with pytest.raises(mica.CaptureError, match="sleep"):
                c(x())
        with mica.stance("force_eager"):
            plain = mica.compile(in_pieces)
            for _ in range(8):
                plain(x())
    assert found == []


LOGGED = """
import sys, time, torch, mica

def f(a):
    time.sleep(0)
    return a + 1

c = mica.compile(f)
for _ in range(6):
    c(torch.ones(2))
"""


def test_the_log_has_it_and_more(tmp_path):
    script = tmp_path / "logged.py"
    script.write_text(LOGGED)
    told = {}
    for logs in ("", "recompiles"):
        told[logs] = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "MICA_LOGS": logs},
            capture_output=True,
            text=True,
            check=True,
        ).stderr
    for text in told.values():
        assert f"{script}:5: MicaWarning: f runs in pieces" in text
        assert "time.sleep(0)" in text  # The line itself.
        assert text.count("MicaWarning") == 1
    assert "mica warns: f runs in pieces" in told["recompiles"]
    assert "mica runs f eagerly" in told["recompiles"]

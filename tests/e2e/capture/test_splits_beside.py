"""Pieces under stances, in threads and beside the interpreter's tools."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from e2e.capture.agreement_of_calls import pure_until, report, same, x
from e2e.capture.calls_in_pieces import (
    LOG,
    in_pieces,
    middle,
    note,
    under_no_grad,
)
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame

import mica


def test_fail_on_recompile_takes_what_pieces_serve():
    compiled = mica.compile(under_no_grad)
    with mica.stance("fail_on_recompile"):
        with pytest.raises(mica.CaptureError, match="no record"):
            compiled(x())
    for i in range(3):
        compiled(x(i))
    with mica.stance("fail_on_recompile"), torch.enable_grad():
        with pytest.raises(mica.CaptureError, match="grad"):
            compiled(x(3))
        assert torch.is_grad_enabled()
    with mica.stance("fail_on_recompile"):
        same(compiled(x(4)), under_no_grad(x(4)))
        LOG.clear()
        # The function runs to its end, eagerly, before it is told.
        with pytest.raises(
            mica.CaptureError, match=r"f32\[3,4\], got f32\[7,3\]"
        ):
            compiled(x(5, 7, 3))
        assert len(LOG) == 2
        same(compiled(x(6)), under_no_grad(x(6)))


def test_check_looks_into_pieces():
    compiled = mica.compile(under_no_grad)
    for i in range(3):
        compiled(x(i))
    with mica.stance("check"):
        for i in range(3):
            LOG.clear()
            same(compiled(x(i)), under_no_grad(x(i)))
            assert len(LOG) == 4


def test_check_names_a_difference_in_a_piece():
    count = [0.0]

    def noisy(a):
        count[0] += 1.0
        return a + count[0]

    mica.annotate(noisy, "pure")
    modes = []

    def fn(a):
        b = a * 2
        note(1)
        with torch.set_grad_enabled(not torch.is_grad_enabled()):
            c = noisy(b)
            note(2)
        modes.append(c)
        return c * 2

    compiled = mica.compile(fn)
    for i in range(3):
        compiled(x(i))
    mode = torch.is_grad_enabled()
    done = len(modes)
    with mica.stance("check"):
        LOG.clear()
        with pytest.raises(mica.CheckError, match="the record has"):
            compiled(x(3))
    # What eager did stays, to the end.
    assert torch.is_grad_enabled() is mode
    assert [number for _, number in LOG] == [1, 2]
    assert len(modes) == done + 1


def test_check_in_a_piece_sees_that_eager_raises():
    calls, moody = pure_until(3)

    def fn(a):
        b = a * 2
        note(1)
        try:
            moody()
            c = b + 1
        finally:
            note("last")
        return c

    compiled = mica.compile(fn)
    for i in range(3):
        compiled(x(i))
    calls += [0, 0, 0]
    with mica.stance("check"):
        LOG.clear()
        with pytest.raises(mica.CheckError, match="eager raises ValueError"):
            compiled(x(3))
    assert LOG[-1][1] == "last"


def test_reset_forgets_the_cuts():
    compiled = in_pieces(middle, graphs=2)
    mica.reset(compiled)
    told = report(compiled)
    assert not told.graph_breaks
    assert not told.pieces
    assert told.split_calls == 0


@pytest.fixture
def quick_switches():
    """Threads take turns much more often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("time", range(5))
def test_threads_share_the_pieces(quick_switches, time):
    linear = nn.Linear(4, 4).eval()

    def fn(a):
        b = linear(a)
        for k in range(3):
            b = torch.tanh(b) + k
            os.getpid()
            try:
                b = b * 2
                os.getppid()
            finally:
                b = b - 1
        return b

    compiled = mica.compile(fn)

    def work(number):
        with torch.no_grad():
            for i in range(30):
                rows = 3 if (number + i) % 5 else 5
                a = x(number * 1000 + i, rows, 4)
                same(compiled(a), fn(a))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert report(compiled).split_calls > 0


def test_the_interpreter_is_left_as_it_was():
    compiled = in_pieces(middle, graphs=2)
    calls = []

    def look(frame, event, _):
        calls.append((frame.f_code.co_name, event))

    sys.setprofile(look)
    try:
        compiled(x())
    finally:
        sys.setprofile(None)
    assert ("note", "call") in calls
    assert sys.gettrace() is None

    def traced(frame, event, _):
        lines.append(frame.f_lineno)
        return traced

    lines: list[int] = []
    sys.settrace(traced)
    try:
        compiled(x())
    finally:
        sys.settrace(None)
    first = middle.__code__.co_firstlineno
    assert {first + 1, first + 2, first + 3} <= set(lines)


@pytest.mark.once("torch.compile keeps what it made")
def test_torch_compile_beside_it():
    inner = torch.compile(lambda a: a * 2 + 1, backend="eager")

    def fn(a):
        b = a + 1
        note("x")
        return inner(b) * 3

    try:
        in_pieces(fn)
        same(inner(x()), x() * 2 + 1)
    finally:
        torch._dynamo.reset()


@pytest.mark.once("torch.compile keeps what each run makes, without Mica, too")
def test_a_thread_of_torch_compile_comes_and_goes_meanwhile():
    begun, over = threading.Event(), threading.Event()

    def compiled_code_runs():
        before = set_eval_frame(False)
        begun.set()
        over.wait()
        set_eval_frame(before)

    inner = torch.compile(lambda a: a * 2 + 1, backend="eager")

    def fn(a):
        b = a + 1
        note("x")
        return inner(b) * 3

    thread = threading.Thread(target=compiled_code_runs)
    thread.start()
    try:
        # Each lies on top of the other here.
        begun.wait()
        in_pieces(fn)
        same(inner(x()), x() * 2 + 1)
    finally:
        over.set()
        thread.join()
    in_pieces(fn)
    same(inner(x()), x() * 2 + 1)
    torch._dynamo.reset()

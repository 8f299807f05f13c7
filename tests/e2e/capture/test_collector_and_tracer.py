"""A program sees the collector and the tracer as they are without capture."""

from __future__ import annotations

import contextlib
import gc
import sys

import pytest
import torch
from e2e.capture.agreement_of_calls import report

import mica

X = torch.ones(2)


@pytest.fixture(autouse=True)
def _collector_as_it_was():
    was, thresholds = gc.isenabled(), gc.get_threshold()
    yield
    gc.enable() if was else gc.disable()
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_tells_whether_it_is_on(enabled):
    def f(x):
        return x * (2.0 if gc.isenabled() else 3.0), gc.isenabled()

    compiled = mica.compile(f)
    for now in (enabled, enabled, not enabled, not enabled, enabled, enabled):
        gc.enable() if now else gc.disable()
        result, told = compiled(X)
        assert torch.equal(result, X * (2.0 if now else 3.0))
        assert told is now
        assert gc.isenabled() is now
    assert report(compiled).hits == 4


@pytest.mark.parametrize("change", [gc.disable, gc.enable])
def test_what_a_program_makes_of_the_collector_stays(change):
    def f(x):
        change()
        return x * 2, gc.isenabled()

    compiled = mica.compile(f)
    for _ in range(4):
        gc.disable() if change is gc.enable else gc.enable()
        assert compiled(X)[1] is (change is gc.enable)
        assert gc.isenabled() is (change is gc.enable)


def test_thresholds_are_the_program_s():
    def f(x):
        was = gc.get_threshold()
        gc.set_threshold(was[0] + 1, was[1], was[2])
        return x * 2, was

    compiled = mica.compile(f)
    gc.set_threshold(600, 9, 8)
    for i in range(4):
        assert compiled(X)[1] == (600 + i, 9, 8)
        assert gc.get_threshold() == (601 + i, 9, 8)


def test_the_collector_may_run_after_a_watched_run():
    compiled = mica.compile(lambda x: x + 1)
    gc.set_threshold(701, 10, 10)
    compiled(X)
    assert gc.get_threshold() == (701, 10, 10)


def test_nobody_sees_the_watch_s_own_tracer():
    def f(x):
        return x * (1.0 if sys.gettrace() is None else 2.0), sys.gettrace()

    compiled = mica.compile(f)
    for _ in range(4):
        result, tracer = compiled(X)
        assert torch.equal(result, X)
        assert tracer is None
    assert report(compiled).hits == 3


def test_a_program_may_ask_for_the_profiler():
    compiled = mica.compile(lambda x: (x * 2, sys.getprofile() is not None))
    for _ in range(3):
        assert compiled(X)[1] is False
    try:
        sys.setprofile(lambda frame, event, arg: None)
        told = [compiled(X)[1] for _ in range(3)]
    finally:
        sys.setprofile(None)
    assert told == [True] * 3
    assert compiled(X)[1] is False


def test_steps_of_code_that_ran_before_the_profiler_are_seen():
    scale = [2]

    def program(x):
        return x * scale[0]

    def expect(compiled, served):
        for _ in range(3):
            assert torch.equal(compiled(X), program(X))
        scale[0] += 1
        assert torch.equal(compiled(X), program(X))
        assert mica.explain(compiled).hits >= served

    # A callable of each kind watches the same code.
    expect(mica.compile(program), 2)
    try:
        sys.setprofile(lambda frame, event, arg: None)
        expect(mica.compile(program), 2)
        expect(mica.compile(program), 2)
    finally:
        sys.setprofile(None)
    expect(mica.compile(program), 2)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            if hasattr(sys, "monitoring"):
                stack.enter_context(tool_that_tells_of_lines())
            expect(mica.compile(program), 0)
            expect(mica.compile(program), 0)
    expect(mica.compile(program), 0)


@contextlib.contextmanager
def tool_that_tells_of_lines():
    """One more tool of sys.monitoring's, which is told of all lines."""
    number = next(i for i in range(6) if not sys.monitoring.get_tool(i))
    sys.monitoring.use_tool_id(number, f"test {number}")
    sys.monitoring.set_events(number, sys.monitoring.events.LINE)
    try:
        yield
    finally:
        sys.monitoring.set_events(number, 0)
        sys.monitoring.free_tool_id(number)


def test_calls_are_served_under_a_profiler():
    """It is told of what runs, which of a hit is nothing of the program's."""
    seen = []

    def f(x):
        return x * 2

    def profile(frame, event, arg):
        if frame.f_code is f.__code__:
            seen.append(event)

    compiled = mica.compile(f)
    compiled(X)
    try:
        sys.setprofile(profile)
        for _ in range(3):
            compiled(X)
    finally:
        sys.setprofile(None)
    told = report(compiled)
    assert (told.hits, told.captures) == (3, 1)
    assert not seen

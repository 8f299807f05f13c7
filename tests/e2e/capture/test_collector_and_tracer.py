"""A program sees the collector and the tracer as they are without capture."""

from __future__ import annotations

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

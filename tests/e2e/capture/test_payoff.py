"""Captures and records that don't pay: calls run eagerly for a while.

Times decide that, so these tests leave captures no budget, and look at what is
certain then.
"""

import random
import statistics
import time
import warnings
from typing import Any

import pytest
import torch

import mica


@pytest.fixture(autouse=True)
def no_budget():
    with mica.options.set(capture_budget=0.0):
        yield


def scaled(a, k):
    return a * len(k)


def assert_served(fn, *args):
    hits = mica.explain(fn).hits
    fn(*args)
    assert mica.explain(fn).hits == hits + 1


def told_of(fn, calls):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for args in calls:
            fn(*args)
    return [
        str(w.message)
        for w in found
        if issubclass(w.category, mica.MicaWarning)
    ]


def test_captures_that_never_pay_end():
    fn = mica.compile(scaled)
    x = torch.ones(3)
    for k in range(1, 41):
        assert torch.equal(fn(x, "k" * k), x * k)
    told = mica.explain(fn)
    assert told.captures < 16
    assert told.eager_calls == 40 - told.captures
    assert "captures took" in told.given_up and "k: " in told.given_up
    assert "captures took" in str(told)


def test_it_is_told_once():
    fn = mica.compile(scaled)
    x = torch.ones(3)
    texts = told_of(fn, [(x, "k" * k) for k in range(1, 41)])
    assert len([t for t in texts if "runs eagerly for now" in t]) == 1
    assert len(texts) <= 2


def test_what_was_recorded_is_served():
    fn = mica.compile(scaled)
    x = torch.ones(3)
    for k in range(1, 21):
        fn(x, "k" * k)
    hits = mica.explain(fn).hits
    fn(x, "kkk")
    assert mica.explain(fn).hits == hits + 1


def test_what_stops_moving_is_tried_again():
    fn = mica.compile(scaled)
    x = torch.ones(3)
    for k in range(1, 21):
        fn(x, "k" * k)
    for _ in range(8):
        fn(x, "k" * 50)
    assert_served(fn, x, "k" * 50)
    assert not mica.explain(fn).given_up


def test_what_moves_on_is_tried_less_and_less():
    # Each value stays for three calls: every try is in vain.
    fn = mica.compile(scaled)
    x = torch.ones(3)
    for k in range(1, 121):
        for _ in range(3):
            assert torch.equal(fn(x, "k" * k), x * k)
    assert mica.explain(fn).captures < 40


def test_a_large_budget_is_no_bound():
    with mica.options.set(capture_budget=1e6):
        fn = mica.compile(scaled)
    x = torch.ones(3)
    for k in range(1, 21):
        fn(x, "k" * k)
    assert mica.explain(fn).captures == 20


def test_without_hits_24_are_the_bound():
    with mica.options.set(capture_budget=1e6):
        fn = mica.compile(scaled)
    x = torch.ones(3)
    texts = told_of(fn, [(x, "k" * k) for k in range(1, 61)])
    assert mica.explain(fn).captures == 24
    assert any("its last 24 captures never fitted" in t for t in texts)


def test_fullgraph_is_captured_whatever_it_costs():
    fn = mica.compile(scaled, fullgraph=True)
    x = torch.ones(3)
    for k in range(1, 11):
        assert torch.equal(fn(x, "k" * k), x * k)
    assert mica.explain(fn).captures == 10


def test_a_stance_that_forbids_captures_comes_first():
    fn = mica.compile(scaled)
    x = torch.ones(3)
    for k in range(1, 21):
        fn(x, "k" * k)
    with mica.stance("fail_on_recompile"), pytest.raises(RuntimeError):
        fn(x, "k" * 99)


def test_reset_begins_anew():
    fn = mica.compile(scaled)
    x = torch.ones(3)
    for k in range(1, 21):
        fn(x, "k" * k)
    mica.reset(fn)
    assert not mica.explain(fn).given_up
    fn(x, "kk")
    assert_served(fn, x, "kk")


def test_sizes_that_data_decide():
    def kept(a):
        return a[a > 0].sum()

    fn = mica.compile(kept)
    torch.manual_seed(0)

    for _ in range(600):
        a = torch.randn(64)
        torch.testing.assert_close(fn(a), kept(a))
    # In pieces or eagerly, whichever it found to be faster by then.
    took: dict[Any, list[float]] = {fn: [], kept: []}
    for _ in range(300):
        a = torch.randn(64)
        for run, times in took.items():
            begin = time.perf_counter()
            run(a)
            times.append(time.perf_counter() - begin)
    assert statistics.median(took[fn]) < 1.5 * statistics.median(took[kept])


def test_pieces_give_the_same_at_all_times():
    linear = torch.nn.Linear(8, 8)

    def augmented(a, rng):
        if rng.random() < 0.5:
            a = a.flip(-1)
        at = rng.randint(0, 3)
        return linear(a[at : at + 4])

    fn = mica.compile(augmented)
    ours, eager = random.Random(7), random.Random(7)
    for _ in range(200):
        a = torch.randn(8, 8)
        torch.testing.assert_close(fn(a, ours), augmented(a, eager))
    assert ours.getstate() == eager.getstate()

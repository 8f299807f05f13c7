"""Locks that a program takes and gives back."""

from __future__ import annotations

import functools
import threading

import torch
from e2e.capture.agreement_of_calls import check, report, same, x
from torch import nn

import mica

CALLS = [(x(seed),) for seed in range(4)]
LOCK, AGAIN = threading.Lock(), threading.RLock()


def held_for_a_while(a):
    with LOCK, AGAIN, AGAIN:
        b = a * 2
    AGAIN.acquire()
    b = b + 1
    AGAIN.release()
    with threading.Lock(), threading.RLock():
        return b - 3


def test_a_lock_that_is_given_back_is_no_effect():
    check(held_for_a_while, *CALLS, hits=3)
    assert not LOCK.locked()


class Lazy(nn.Module):
    @functools.cached_property
    def table(self):
        return torch.arange(4.0)

    def forward(self, a):
        return a + self.table


def test_cached_properties():
    net = Lazy()
    fn = mica.compile(net)
    for (a,) in CALLS:
        same(fn(a), a + torch.arange(4.0))
    assert report(fn).hits >= 2, str(report(fn))


def test_a_lock_that_is_held_is_waited_for():
    def f(a):
        with LOCK:
            return a * 2

    fn = mica.compile(f)
    (a,) = CALLS[0]
    fn(a)
    fn(a)
    assert report(fn).hits == 1
    results = []
    with LOCK:
        waiting = threading.Thread(target=lambda: results.append(fn(a)))
        waiting.start()
        waiting.join(0.2)
        assert not results
    waiting.join()
    same(results[0], a * 2)


def test_a_lock_that_is_kept_is_eagers():
    lock = threading.Lock()

    def f(a):
        lock.acquire()
        return a * 2

    fn = mica.compile(f)
    for (a,) in CALLS:
        same(fn(a), a * 2)
        assert lock.locked()
        lock.release()

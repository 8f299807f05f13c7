"""Pieces leave state as eager does, and objects live as long as there."""

from __future__ import annotations

import gc
import sys
import weakref

import torch
from e2e.capture.agreement_of_calls import report, same, x
from e2e.capture.calls_in_pieces import LOG, in_pieces, note
from torch import nn

import mica


def test_state_that_counts():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0
            self.linear = nn.Linear(4, 4)

        def forward(self, a):
            b = self.linear(a).relu()
            self.count += 1
            return self.linear(b) * self.count

    torch.manual_seed(0)
    mine, theirs = Counting().eval(), Counting().eval()
    theirs.load_state_dict(mine.state_dict())
    compiled = mica.compile(mine)
    for i in range(8):
        same(compiled(x(i)), theirs(x(i)))
        assert mine.count == theirs.count


def test_lists_that_grow():
    held = []

    def fn(a):
        b = a * 2 + 1
        held.append(len(held))
        return b.tanh() * 3

    compiled = mica.compile(fn)
    for i in range(8):
        same(compiled(x(i)), fn(x(i)))
    assert held == list(range(16))


def test_objects_die_as_they_should():
    class Thing:
        pass

    things = []

    def fn(a, thing):
        b = a * 2
        note("x")
        things.append(weakref.ref(thing))
        return b + 1

    compiled = mica.compile(fn)
    for i in range(6):
        compiled(x(i), Thing())
    gc.collect()
    assert things[-1]() is None or report(compiled).split_calls
    del compiled
    gc.collect()
    assert all(ref() is None for ref in things)


def test_reference_counts_stay():
    marker = object()
    key = "kept" * 3
    inputs = x()

    def fn(a, m):
        b = a * 2
        local = m
        for i in range(2):
            note(i)
            b = b + 1
        return b, local, key

    compiled = mica.compile(fn)
    for _ in range(6):
        compiled(inputs, marker)
    before = [sys.getrefcount(o) for o in (marker, key, inputs)]
    for _ in range(50):
        compiled(inputs, marker)
        LOG.clear()
    after = [sys.getrefcount(o) for o in (marker, key, inputs)]
    assert after == before


def test_a_compiled_callable_dies_with_its_pieces():
    def fn(a):
        b = a * 2
        note("x")
        return b

    compiled = mica.compile(fn)
    for i in range(4):
        compiled(x(i))
    gone = weakref.ref(fn)
    del fn, compiled
    gc.collect()
    assert gone() is None


class Loud:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(("del", self.name))


def test_what_nobody_reads_any_more_lives_on():
    def fn(a):
        loud = Loud("r")
        b = a * 2
        note(1)
        loud = None
        c = b + 1
        note(2)
        for k in range(2):
            held = Loud(k)
            c = c + 1
            note("k")
        held = [Loud("nested")]
        note(3)
        return c if loud is None else held

    in_pieces(fn)


def test_a_weak_reference_to_what_nobody_reads():
    class Thing:
        pass

    def fn(a):
        thing = Thing()
        thing.b = a * 2
        weak = weakref.ref(thing)
        note(1)
        c = a + 1
        note(2)
        return weak().b + c

    in_pieces(fn)


def test_a_generator_that_nobody_reads_is_closed_at_the_end():
    def numbers(a):
        b = a * 2
        try:
            yield b
            yield b + 1
        finally:
            note("closed")

    def fn(a):
        stream = numbers(a)
        b = next(stream) + next(stream)
        note("between")
        return b * 2

    def half(a):
        stream = numbers(a)
        b = next(stream)
        note("between")
        c = b * next(stream)
        note("then")
        return c

    in_pieces(fn)
    in_pieces(half)


def test_what_a_piece_lets_go_of_dies_there():
    class Held:
        pass

    def deleted(a):
        held = Held()
        weakref.finalize(held, note, "gone")
        b = a * 2
        del held
        return b + len(LOG)

    def replaced(a):
        held = Held()
        weakref.finalize(held, note, "gone")
        b = a * 2
        held = None
        note("then", held)
        return b + len(LOG)

    in_pieces(deleted)
    in_pieces(replaced)

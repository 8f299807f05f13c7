"""Numbers that the user's own functions ask the world outside for."""

from __future__ import annotations

import math

import pytest
import torch
from e2e.capture.agreement_of_calls import X, report, same

import mica


class Sensor:
    """The world outside: each answer is another."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.asked = 0

    def read(self, scale=1):
        self.asked += 1
        return self.answers[(self.asked - 1) % len(self.answers)] * scale


mica.annotate(Sensor.read, "number")


def test_a_number_of_the_world_outside_is_asked_for_at_each_hit():
    sensor = Sensor([0.5, 1.5, 2.5])

    def program(a):
        first = sensor.read()
        return a * first + sensor.read(scale=2), first

    compiled = mica.compile(program)
    plain = Sensor(sensor.answers)
    for i in range(9):
        first = plain.read()
        got, told = compiled(torch.full((2,), float(i)))
        assert told == first
        same(got, torch.full((2,), i * first + plain.read(scale=2)))
        assert sensor.asked == plain.asked
    assert report(compiled).hits == 8
    (graph,) = report(compiled).graphs
    assert ["asks" in effect for effect in graph.effects] == [True, True]


def test_what_is_asked_for_may_decide_the_way():
    sensor = Sensor([1, 2, 2, 3])
    compiled = mica.compile(lambda a: a + 1 if sensor.read() == 2 else a - 1)
    got = [float(compiled(torch.zeros(()))) for _ in range(8)]
    # The one that a record was tried with is asked for again.
    assert sensor.asked > 8
    assert set(got) == {1.0, -1.0}
    assert len(report(compiled).graphs) == 2


def test_an_int_that_is_asked_for_is_a_constant_where_it_has_to_be():
    sensor = Sensor([0, 1, 1, 1, 1, 1])
    compiled = mica.compile(lambda a: a[sensor.read()])
    assert [float(compiled(X[0])) for _ in range(3)] == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("answer", [None, "text", [1.0], torch.ones(1)])
def test_other_answers_than_numbers(answer):
    def ask():
        return answer

    mica.annotate(ask, "number")
    compiled = mica.compile(lambda a: (a * 2, ask())[0])
    for _ in range(4):
        same(compiled(torch.ones(2)), torch.full((2,), 2.0))
    is_constant = answer is None or isinstance(answer, str)
    assert report(compiled).hits == (3 if is_constant else 0)


def test_what_the_answer_computes_with_torch_is_no_part_of_the_program():
    def ask():
        return float(torch.ones(3).sum())

    mica.annotate(ask, "number")
    compiled = mica.compile(lambda a: a * ask())
    for _ in range(3):
        same(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert report(compiled).graphs[0].calls == ["aten.mul.Tensor"]


def test_an_answer_after_a_call_into_the_world_outside_is_asked_for_there():
    log = []
    mica.annotate(note := lambda value: log.append(value), "host")
    mica.annotate(count := lambda: len(log), "number")

    def program(a):
        note(1)
        return a + count()

    compiled = mica.compile(program)
    assert [float(compiled(torch.zeros(()))) for _ in range(5)] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_an_answer_that_raises():
    sensor = Sensor([2.0])

    def program(a):
        return a * math.sqrt(sensor.read() * 2)

    compiled = mica.compile(program)
    for i in range(12):
        sensor.answers = [] if i % 4 == 3 else [2.0]
        if sensor.answers:
            same(compiled(torch.ones(2)), torch.full((2,), 2.0))
        else:
            with pytest.raises(ZeroDivisionError):
                compiled(torch.ones(2))
    assert report(compiled).hits == 8

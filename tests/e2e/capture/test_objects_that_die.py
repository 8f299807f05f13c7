"""Objects that a record is about may die once the user replaced them."""

from __future__ import annotations

import gc

import torch
from e2e.capture.agreement_of_calls import report, same
from torch import nn

import mica


class Holder:
    pass


def test_an_object_at_the_address_of_a_dead_one_is_another():
    holder = Holder()

    class Gain:
        pass

    def make(value):
        gain = Gain()
        gain.value = value
        return gain

    holder.gain = make(2.0)
    fast = mica.compile(lambda x: x * holder.gain.value)
    x = torch.ones(2)
    for value in range(20):
        del holder.gain
        holder.gain = make(float(value % 3))
        for _ in range(2):
            same(fast(x), x * float(value % 3))


def test_a_model_that_is_put_back_is_served_again():
    nets = [nn.Linear(2, 2), nn.Linear(2, 2)]
    holder = Holder()
    holder.net = nets[0]
    fast = mica.compile(lambda x: holder.net(x))
    x = torch.ones(1, 2)
    for call in range(12):
        holder.net = nets[call % 2]
        same(fast(x), nets[call % 2](x))
    assert report(fast).hits == 10, str(report(fast))


def test_explain_can_be_asked_after_what_was_recorded_is_gone():
    holder = Holder()
    holder.net = nn.Linear(2, 2)
    fast = mica.compile(lambda x: holder.net(x))
    x = torch.ones(1, 2)
    for _ in range(3):
        fast(x)
    holder.net = None
    gc.collect()
    assert str(mica.explain(fast))
    holder.net = nn.Linear(2, 2)
    same(fast(x), holder.net(x))
    assert str(mica.explain(fast))

"""Weights, layers and groups of parameters that the user replaces are freed."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from e2e.capture.holders import holder_of, is_dead
from torch import nn

import mica


def expires(tensor):
    """What tells whether a tensor's memory is gone."""
    ref = tensor.untyped_storage()._weak_ref()
    return lambda: torch.UntypedStorage._expired(ref)


def replaced(model):
    model.weight = nn.Parameter(model.weight.detach() + 1)


def reset_data(model):
    model.weight.data = model.weight.detach() + 1


def removed(model):
    weight = model.weight.detach()
    del model.weight
    model.weight = nn.Parameter(weight + 1)


def registered(model):
    model.register_parameter("weight", nn.Parameter(model.weight.detach() + 1))


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("change", [replaced, reset_data, removed, registered])
def test_a_replaced_weight_is_freed(change, frozen):
    model = nn.Linear(64, 64)
    fast = mica.compile(model, frozen=frozen)
    x = torch.randn(3, 64)
    gone = []
    with torch.no_grad():
        for _ in range(20):
            for _ in range(2):
                torch.testing.assert_close(
                    fast(x), model(x), rtol=1e-4, atol=1e-4
                )
            gone.append(expires(model.weight))
            change(model)
            gc.collect()
            assert gone[-1]()
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_replaced_layer_dies():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    fast = mica.compile(model)
    x = torch.randn(1, 2)
    with torch.no_grad():
        for _ in range(3):
            same(fast(x), model(x))
        refs = [weakref.ref(model[0]), weakref.ref(model[0].weight)]
        model[0] = nn.Linear(2, 2)
        assert all(is_dead(ref) for ref in refs)
        same(fast(x), model(x))
        told = report(fast)
        assert len(told.graphs) == 1 and told.dropped == 1
        assert "is gone" in told.drops[0].text, told.drops
        assert "0" in told.drops[0].text, told.drops
        assert "dropped: its object" in told.details("misses")
        del model[1]
        same(fast(x), model(x))


@pytest.mark.parametrize("rates", [[0.1], [0.1, 0.05, 0.02, 0.01]])
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
def test_replaced_groups_of_parameters_are_freed(make, rates):
    holder = holder_of(None)
    x = torch.randn(3, 4)

    def fresh():
        torch.manual_seed(0)
        holder.model = nn.Linear(4, 4)
        holder.value = make(holder.model.parameters(), lr=0.1)

    @torch.enable_grad()
    def step(x):
        holder.value.zero_grad()
        loss = holder.model(x).square().mean()
        loss.backward()
        holder.value.step()
        return loss.detach()

    fast = mica.compile(step)

    def train(call):
        losses = []
        for i in range(8):
            for group in holder.value.param_groups:
                group["lr"] = rates[i % len(rates)]
            losses.append(call(x))
        return losses

    fresh()
    expected = train(step)
    for _ in range(3):
        fresh()
        gone = [expires(p) for p in holder.model.parameters()]
        for one, other in zip(train(fast), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        holder.model = nn.Linear(4, 4)
        holder.value.param_groups = []
        holder.value.state.clear()
        holder.value.add_param_group({"params": [*holder.model.parameters()]})
        fast(x)
        gc.collect()
        assert all(expired() for expired in gone)


def test_records_of_replaced_weights_are_dropped():
    model = nn.Linear(4, 4)
    fast = mica.compile(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(6):
            fast(x)
            fast(x)
            replaced(model)
        fast(x)
    told = report(fast)
    assert len(told.graphs) == 1 and told.dropped == 6
    assert "weight is gone" in told.drops[0].text, told.drops


def test_tensors_of_the_state_can_be_swapped():
    model = nn.Linear(4, 4)
    fast = mica.compile(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(3):
            same(fast(x), model(x))
        torch.utils.swap_tensors(model.weight, nn.Parameter(torch.randn(4, 4)))
        for _ in range(3):
            same(fast(x), model(x))


def test_frozen_weights_at_one_address_are_told_apart():
    model = nn.Linear(256, 256, bias=False)
    fast = mica.compile(model, frozen=True)
    x = torch.randn(2, 256)
    start = torch.randn(256, 256)
    with torch.no_grad():
        for row in range(20):
            weight = start.clone()
            weight[row * 7 + 3, row * 5 + 1] += 100
            del model.weight
            model.weight = nn.Parameter(weight, requires_grad=False)
            del weight
            for _ in range(2):
                torch.testing.assert_close(
                    fast(x), model(x), rtol=1e-3, atol=1e-3
                )

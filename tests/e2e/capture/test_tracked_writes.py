"""In-place writes to older tensors that autograd tracks."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from torch import nn
from torch.nn import functional

import mica

ACT = nn.ReLU(inplace=True)


def of_an_operator(a):
    return a.mul_(3)


def of_a_module(a):
    return ACT(a)


def of_a_view(a):
    a[0].mul_(2)


def of_a_tracked_operand(a):
    functional.relu_(a)
    return 3


@pytest.mark.parametrize(
    "f", [of_an_operator, of_a_module, of_a_view, of_a_tracked_operand]
)
@pytest.mark.parametrize("is_tracked", [True, False])
def test_gradients_go_back_through_them(f, is_tracked):
    fn = mica.compile(f)
    for seed in range(4):
        grads = []
        for call in (fn, f):
            with torch.enable_grad():
                weight = x(seed).requires_grad_()
                a = weight * 2
                with torch.set_grad_enabled(is_tracked):
                    call(a)
                a.exp().sum().backward()
            grads.append((weight.grad, a.detach()))
        same(grads[0], grads[1])
    assert bool(report(fn).hits) != is_tracked


def test_of_what_the_state_holds():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.full((4,), 3.0))
            self.kept = torch.zeros(4)

        def forward(self):
            self.kept.add_(1)
            self.kept.mul_(self.scale)

    net, plain = Net(), Net()
    fn = mica.compile(net)
    for _ in range(4):
        with torch.enable_grad():
            for module, call in ((net, fn), (plain, plain)):
                module.kept = torch.zeros(4)
                call()
                module.kept.sum().backward()
        same(net.scale.grad, plain.scale.grad)


def test_each_tensor_counts_its_own_writes():
    def apart():
        tensors = [torch.zeros(3) for _ in range(6)]
        for i, tensor in enumerate(tensors):
            for _ in range(i // 2 if i % 2 else 4 - i):
                tensor.add_(1)
        return [*tensors, tensors[0][1:]]  # And one that shares a counter.

    def write(tensors):
        for i, tensor in enumerate(tensors):
            for _ in range(1 + i % 2):
                tensor.add_(1)

    fn = mica.compile(write)
    mine, eager = apart(), apart()
    for _ in range(5):
        fn(mine)
        write(eager)
        assert [t._version for t in mine] == [t._version for t in eager]
    assert report(fn).hits


def test_what_is_saved_tells_of_a_write_beside_others():
    first, saved = torch.zeros(3), torch.ones(3)
    first.add_(1).add_(1)
    saved.add_(1)

    def write():
        first.add_(1)
        saved.add_(1)

    fn = mica.compile(write)
    for _ in range(3):
        fn()
    assert report(fn).hits
    weight = torch.ones(3, requires_grad=True)
    with torch.enable_grad():
        y = (weight * saved).sum()
    fn()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_writes_to_data_are_not_counted():
    weight = torch.ones(3, requires_grad=True)

    def update(step):
        weight.data.add_(step).mul_(2)
        weight.detach().add_(step).mul_(2)
        held = weight.data
        held.add_(step)
        return step + 1

    fn = mica.compile(update)
    for i in range(1, 5):
        with torch.enable_grad():
            y = (weight * weight).sum()
        weight.data.mul_(1)
        y.backward()
        fn(torch.ones(3))
        assert weight._version == 2 * i
    assert report(fn).hits


def test_a_view_that_is_turned_in_place_counts_as_a_write():
    def turns(a):
        a.unsqueeze(0).t_()
        return a + 1

    def turns_and_writes(a):
        b = a.view(2, 2)
        b.t()[0] += 1
        a.unsqueeze(0).t_()
        return b.sum()

    for f in (turns, turns_and_writes):
        fn = mica.compile(f)
        for _ in range(4):
            ours, eagers = torch.ones(4), torch.ones(4)
            same(fn(ours), f(eagers))
            assert ours._version == eagers._version
        assert report(fn).hits > 0


def test_what_was_written_before_the_call_is_not_counted_again():
    def reads(a):
        return a.view(2, 2).t() @ torch.ones(2)

    def writes(a):
        a.view(2, 2).t()[0].add_(1)
        return a.sum()

    for f in (reads, writes):
        fn = mica.compile(f)
        for _ in range(4):
            ours, eagers = torch.ones(4), torch.ones(4)
            for a in (ours, eagers):
                a.add_(1).mul_(2)
            same(fn(ours), f(eagers))
            assert ours._version == eagers._version
        assert report(fn).hits > 0

"""Parameters, attributes and flags of tensors that the program itself makes."""

from __future__ import annotations

import functools
import itertools
import operator

import torch
from e2e.capture.agreement_of_calls import check, report, same, x
from torch import nn

import mica

CALLS = [(x(seed),) for seed in range(4)]


def fresh_layer(a):
    layer = nn.Linear(4, 2, bias=False)
    layer.weight.data.fill_(0.5)
    return layer(a)


def fresh_parameter(a):
    scale = nn.Parameter(a.mean(0))
    assert scale.is_leaf and scale.grad_fn is None
    return a * scale.detach()


def tagged(a):
    b = a + 1
    b.tag = 3
    return b * b.tag + (1 if hasattr(a, "tag") else 2)


def asked_of_its_class(a):
    return a * len(a.__class__.__name__)


def flags(a):
    b = torch.zeros(4)
    b.requires_grad = True
    a.requires_grad = False
    return a + b.detach()


SHAPE = operator.attrgetter("shape")


def attributes(a):
    rows, columns = SHAPE(a)
    return a * rows + columns


def test_served():
    for f in (
        fresh_parameter,
        tagged,
        asked_of_its_class,
        flags,
        attributes,
        fresh_layer,
    ):
        with torch.no_grad():
            check(f, *CALLS, hits=3)


class Ranked:
    def __init__(self, rank: int) -> None:
        self.rank = rank


def test_attributes_that_c_code_sorts_by():
    items = [Ranked(2), Ranked(1)]
    by = operator.attrgetter("rank")

    def made(a):
        return a * sorted(items, key=operator.attrgetter("rank"))[0].rank

    def kept(a):
        return a * min(items, key=by).rank + by(items[0])

    def mapped(a):
        return a * sum(map(operator.attrgetter("rank"), items))

    def grouped(a):
        groups = itertools.groupby(
            tuple(items), key=operator.attrgetter("rank")
        )
        return a * len(list(groups))

    def of_arguments(a):
        return a * min(items[0], items[1], key=operator.attrgetter("rank")).rank

    def bound(a):
        first = functools.partial(min, key=operator.attrgetter("rank"))
        return a * first(items).rank

    for f in (made, kept, mapped, grouped, of_arguments, bound):
        fn = mica.compile(f)
        items[1].rank = 1
        for value in (1, 1, 5, 5, 0, 2):
            items[1].rank = value
            same(fn(x(0)), f(x(0)))
        if f in (made, kept):
            assert mica.explain(fn).hits >= 2, f.__name__


def test_another_attribute_getter():
    item, other = Ranked(2), Ranked(3)
    item.other, other.other = 5, 7
    by = operator.attrgetter("rank")

    def called(a):
        return a * by(item)

    def sorts(a):
        return a * sorted([item, other], key=by)[0].rank

    for f in (called, sorts):
        fn = mica.compile(f)
        for name in ("rank", "rank", "other", "other"):
            by = operator.attrgetter(name)
            same(fn(x(0)), f(x(0)))
            item.rank, other.rank = other.rank, item.rank
            same(fn(x(0)), f(x(0)))


def test_a_parameter_that_shares_an_arguments_memory():
    def f(a):
        shared = nn.Parameter(a)
        shared.add_(1)
        return shared * 2

    with torch.no_grad():
        check(f, *CALLS, hits=3)


def test_attributes_of_a_gradient_stay():
    weight = nn.Parameter(x(5))

    def f(a):
        weight.grad = None
        (weight * a).sum().backward()
        weight.grad.tag = 3
        return a + 1

    fn = mica.compile(f)
    for (a,) in CALLS:
        with torch.enable_grad():
            fn(a)
        assert weight.grad.tag == 3
        same(weight.grad.detach().clone(), a)


def test_a_fresh_layer_has_eagers_random_weights():
    def f(a):
        return nn.Linear(4, 3)(a)

    fn = mica.compile(f)
    with torch.no_grad():
        for (a,) in CALLS:
            torch.manual_seed(7)
            want = f(a)
            after = torch.rand(1)
            torch.manual_seed(7)
            same(fn(a), want)
            same(torch.rand(1), after)
    assert report(fn).hits == 3


def test_a_parameter_that_is_replaced():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(4, 4)

        def forward(self, a):
            self.layer.weight = nn.Parameter(self.layer.weight * 0.5)
            return self.layer(a)

    net, plain = Net(), Net()
    fn = mica.compile(net)
    with torch.no_grad():
        for (a,) in CALLS:
            same(fn(a), plain(a))
            same(net.layer.weight, plain.layer.weight)
            assert net.layer.weight.requires_grad
            assert isinstance(net.layer.weight, nn.Parameter)


def test_attributes_of_a_result_stay():
    def f(a):
        b = a + 1
        b.tag = 3
        return b

    fn = mica.compile(f)
    for (a,) in CALLS:
        assert fn(a).tag == 3


def test_attributes_of_what_was_there_stay():
    kept = x(9)

    def f(a):
        kept.tag = getattr(kept, "tag", 0) + 1
        a.seen = True
        return a + kept.tag

    fn = mica.compile(f)
    for (a,) in CALLS:
        want = a + (getattr(kept, "tag", 0) + 1)
        same(fn(a), want)
        assert a.seen


def test_a_flag_that_changes_is_eagers():
    def f(a):
        a.requires_grad = True
        return a.detach() + 1

    fn = mica.compile(f)
    for (a,) in CALLS:
        same(fn(a), a.detach() + 1)
        assert a.requires_grad


def test_a_new_tensor_gets_its_memory_later():
    def grown(a):
        ones = a.data.new().resize_(a.shape[0], 2).fill_(1)
        noise = a.new().resize_as_(a)
        noise.data.bernoulli_(0.5).div_(0.5)
        empty = a.new()
        other = empty.detach()
        empty.resize_(2, 2).zero_()
        return ones, noise * a, empty, other

    compiled = mica.compile(grown)
    for call in range(len(CALLS)):
        a = x(call)
        torch.manual_seed(call)
        want = grown(a)
        torch.manual_seed(call)
        same(compiled(a), want)
    assert report(compiled).hits == len(CALLS) - 1


def test_what_was_there_or_is_not_written_is_resized_eagerly():
    def argument(a, b):
        return b.resize_(3, 2).fill_(1).sum() + a

    def twice(a, _):
        b = a.new().resize_(3, 3).fill_(1)
        row = b[0]
        return b.resize_(4, 4).fill_(2).sum() + row.sum() + a

    def unwritten(a, _):
        return (a.new().resize_(2, 2) * 0).nan_to_num(0, 0, 0).sum() + a

    for f in (argument, twice, unwritten):
        compiled = mica.compile(f)
        for call in range(len(CALLS)):
            a = x(call)
            one, other = torch.zeros(0), torch.zeros(0)
            same(compiled(a, one), f(a, other))
            same(one, other)

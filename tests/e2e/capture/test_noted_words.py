"""State is known by words of memory: whatever changes in it is seen."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, same, x
from torch import nn

import mica


class Part:
    """Holds a list, a set and a number that a program reads."""

    def __init__(self) -> None:
        self.items = [1.0, 2.0, 3.0]
        self.names = {"a", "b"}
        self.factor = 2.0

    def scale(self, a: torch.Tensor, by: float = 1.5) -> torch.Tensor:
        return a * self.factor * by


class Other(Part):
    def scale(self, a: torch.Tensor, by: float = 1.5) -> torch.Tensor:
        return a - self.factor * by


class Net(nn.Module):
    """Reads a tensor of six dims, one of one element, and a Part."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.deep = nn.Parameter(x(1, 1, 2, 1, 2, 1, 4))
        self.register_buffer("one", x(2, 1))
        self.part = Part()

    def forward(self, a: torch.Tensor) -> Any:
        part = self.part
        y = part.scale(self.fc(a)) + self.deep.sum((0, 1, 2, 3, 4)) * self.one
        for item in part.items:
            y = y + item
        if "c" in part.names:
            y = y * len(part.names)
        return y, self.deep.stride(), self.one.stride(), self.deep.requires_grad


def swap_weight(net: Net) -> None:
    torch.utils.swap_tensors(net.fc.weight, nn.Parameter(x(5, 4, 4)))


def swap_and_free(net: Net) -> None:
    """What was in the weight is freed, and its memory used again."""
    other = nn.Parameter(x(5, 4, 2).repeat(1, 2).double().float())
    torch.utils.swap_tensors(net.fc.weight, other)
    del other
    net.kept = [nn.Parameter(x(i, 4, 4)) for i in range(4)]


def replace_list_in_place(net: Net) -> None:
    net.part.items[:] = [4.0, 5.0, 6.0]


def change_after_growth(net: Net) -> None:
    """The list's memory moves, and comes back with another item."""
    net.part.items.extend([0.0] * 100)
    del net.part.items[3:]
    net.part.items[1] = 7.0


def other_class(net: Net) -> None:
    net.part.__class__ = Other


def other_dict(net: Net) -> None:
    net.part.__dict__ = {**net.part.__dict__, "factor": 3.0}


def stride_of_one_element(net: Net) -> None:
    net.one.data = net.one.data.as_strided((1,), (7,))


CHANGES: list[Callable[[Net], Any]] = [
    swap_weight,
    swap_and_free,
    replace_list_in_place,
    change_after_growth,
    other_class,
    other_dict,
    stride_of_one_element,
    lambda net: net.part.items.append(1.0),
    lambda net: net.part.items.pop(),
    lambda net: net.part.items.clear(),
    lambda net: net.part.names.add("c"),
    lambda net: (net.part.names.discard("a"), net.part.names.add("c")),
    lambda net: setattr(net.part, "factor", 4.0),
    lambda net: net.deep.requires_grad_(False),
    lambda net: net.deep.data.transpose_(1, 3),
    lambda net: setattr(net.deep, "data", net.deep.data.clone() * 2),
    lambda net: setattr(
        net.deep, "data", net.deep.data.permute(0, 3, 2, 1, 4, 5)
    ),
    lambda net: net.fc.weight.data.t_(),
    lambda net: net.fc.weight.data.set_(x(6, 8, 4)[::2]),
    lambda net: net.fc.register_forward_hook(lambda m, a, out: out + 1),
    lambda net: net.fc._forward_hooks.update({0: lambda m, a, out: -out}),
]


def served(mine: nn.Module) -> tuple[Any, nn.Module]:
    """The module compiled, after a hit, and its twin."""
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine)
    for seed in range(3):
        same(compiled(x(seed, 3, 4)), plain(x(seed, 3, 4)))
    assert mica.explain(compiled).hits > 0
    return compiled, plain


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_what_words_tell_of_is_seen(
    change: Callable[[Net], Any],
) -> None:
    mine = Net()
    compiled, plain = served(mine)
    for net in (mine, plain):
        change(net)
    for seed in range(3):
        same(compiled(x(seed, 3, 4)), plain(x(seed, 3, 4)))


class Asking(nn.Module):
    """Asks for an object's class before it reads its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        sign = 1.0 if type(self.part) is Part else -1.0
        return self.part.scale(a) * sign


ASKED: list[Callable[[Any], Any]] = [
    other_class,
    other_dict,
    lambda net: setattr(net.part, "factor", 4.0),
    lambda net: setattr(net, "part", Other()),
]


@pytest.mark.parametrize("change", ASKED)
@pytest.mark.parametrize("pause", [0.0, 0.001])
def test_each_change_of_an_object_whose_class_was_asked_for_is_seen(
    change: Callable[[Any], Any], pause: float
) -> None:
    """Right after another call, and when a check asks for memory ahead."""
    mine = Asking()
    compiled, plain = served(mine)
    a = x(3, 3, 4)
    change(plain)
    same(compiled(a), compiled(a))
    change(mine)
    time.sleep(pause)
    same(compiled(a), plain(a))


@pytest.mark.parametrize("pause", [0.0, 0.001])
def test_what_a_check_asks_for_ahead_may_be_gone(pause: float) -> None:
    """Layers and lists die between calls, their memory with them."""
    mine = Net()
    mine.part.items = [float(i) for i in range(3)]
    plain = copy.deepcopy(mine)
    compiled = mica.compile(mine)
    for round_ in range(4):
        for seed in range(3):
            same(compiled(x(seed, 3, 4)), plain(x(seed, 3, 4)))
        for net in (mine, plain):
            net.fc = nn.Linear(4, 4)
            with torch.no_grad():
                net.fc.weight.copy_(x(round_, 4, 4))
                net.fc.bias.copy_(x(round_, 4))
            net.part.items = [float(round_ + i) for i in range(3)]
        time.sleep(pause)


def touch_dict(net: Net) -> None:
    net.fc.__dict__["note"] = 1


def move_list(net: Net) -> None:
    net.part.items.extend([0.0] * 100)
    del net.part.items[3:]


def equal_items(net: Net) -> None:
    net.part.items[0] = float("1.0")


def equal_set(net: Net) -> None:
    net.part.names.add("z" * 2)
    net.part.names.discard("z" * 2)


def same_class_again(net: Net) -> None:
    net.part.__class__ = Other
    net.part.__class__ = Part


def touch_class(net: Net) -> None:
    Part.note = 1  # type: ignore[attr-defined]
    del Part.note  # type: ignore[attr-defined]


def grad_and_back(net: Net) -> None:
    net.one.requires_grad_(True)
    net.one.requires_grad_(False)


def offset_of_storage(net: Net) -> None:
    base = torch.cat([x(8, 4, 4), net.fc.weight.data])
    net.fc.weight.data = base[4:]


@pytest.mark.parametrize(
    "change",
    [
        touch_dict,
        move_list,
        equal_items,
        equal_set,
        same_class_again,
        touch_class,
        grad_and_back,
        offset_of_storage,
    ],
)
def test_words_that_change_without_their_fact_cost_no_record(
    change: Callable[[Net], Any],
) -> None:
    net = Net()
    compiled = mica.compile(net)
    for seed in range(3):
        compiled(x(seed, 3, 4))
    for _ in range(3):
        change(net)
        got, how = call_and_tell(compiled, x(9, 3, 4))
        assert how == "h"
        same(got, net(x(9, 3, 4)))

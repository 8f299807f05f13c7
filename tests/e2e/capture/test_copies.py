"""Copies of objects in programs, and the addresses that id() gives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import check, report, same, x
from torch import nn

import mica

CALLS = [(x(seed),) for seed in range(4)]


class Config:
    def __init__(self) -> None:
        self.width = 3
        self.rates = {"slow": [1, 2]}


class Own:
    """Says itself how it is copied."""

    def __init__(self) -> None:
        self.width = 3

    def __deepcopy__(self, memo: dict[int, Any]) -> Own:
        result = Own()
        memo[id(self)] = result
        result.width = copy.deepcopy(self.width, memo) + 1
        return result


class Kept:
    """Says itself what is kept of it."""

    def __init__(self) -> None:
        self.width = 3

    def __getstate__(self) -> dict[str, int]:
        return {"width": self.width + 1}


CONFIG = Config()
OWN, KEPT = Own(), Kept()
TABLE = [[1, 2], {"a": (3, 4)}]


def deep(a):
    config = copy.deepcopy(CONFIG)
    config.width += 1
    config.rates["slow"].append(5)
    return a * config.width + sum(config.rates["slow"])


def shallow(a):
    config = copy.copy(CONFIG)
    config.width = 7
    return a * config.width


def of_containers(a):
    table = copy.deepcopy(TABLE)
    table[0].append(9)
    return a * sum(table[0]) + table[1]["a"][1]


def by_hand(a):
    return a * copy.deepcopy(OWN).width + copy.copy(KEPT).width


def each_once(a):
    seen: dict[int, torch.Tensor] = {}
    b = a + 1
    for t in [a, b, a]:
        if id(t) not in seen:
            seen[id(t)] = t * 2
    met = {id(t) for t in (a, b)}
    met.add(id(seen))
    return [seen[id(t)] for t in [a, b, a] if id(t) in met]


def test_copies_are_of_one_graph():
    for f in (deep, shallow, of_containers, by_hand, each_once):
        # Some other module may register with copyreg meanwhile: a miss.
        assert report(check(f, *CALLS)).hits >= 2
    assert CONFIG.width == 3
    assert CONFIG.rates == {"slow": [1, 2]}


def test_what_is_copied_is_guarded():
    config = Config()

    def f(a):
        return a * copy.deepcopy(config).rates["slow"][0]

    fn = mica.compile(f)
    for value in (1, 1, 6, 6):
        config.rates["slow"][0] = value
        same(fn(*CALLS[0]), f(*CALLS[0]))
    assert report(fn).hits == 2


def test_who_is_the_same_tensor_is_guarded():
    def f(a, b):
        return a * len({id(a): 1, id(b): 2})

    fn = mica.compile(f)
    a, b = x(0), x(1)
    for args in [(a, b), (a, b), (a, a), (b, b), (b, a)]:
        same(fn(*args), f(*args))


def test_an_address_that_is_used_otherwise_is_refused():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = 0

        def forward(self, a):
            again = self.last == id(a)
            self.last = id(a)
            return a + (1 if again else 2)

    fn = mica.compile(Net())
    plain = Net()
    a, b = x(0), x(1)
    for arg in (a, b, a, a, b, b):
        same(fn(arg), plain(arg))


def test_an_address_in_a_result_is_refused():
    for f in (
        lambda a: (a * 2, id(a)),
        lambda a: (a * 2, {id(a): 3}),
        lambda a: (a * 2, [{"at": (1, id(a))}]),
        lambda a: (a * 2, str(id(a))),
        lambda a: (a * 2, id(a) % 7),
    ):
        fn = mica.compile(f)
        kept = [x(seed) for seed in range(4)]
        for a in kept:
            same(fn(a), f(a))
        assert not report(fn).hits


def _net() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    net.register_buffer("wide", torch.arange(8.0).view(2, 4).t())
    return net


def of_states(net, kept, a):
    out = net(a)
    kept["states"] = copy.deepcopy(net.state_dict())
    kept["states"]["0.weight"].mul_(2)
    return out


def of_a_module(net, kept, a):
    other = copy.deepcopy(net)
    other.get_buffer("wide").add_(a.sum())
    kept["wide"] = other.get_buffer("wide")
    return other(a) + net(a)


def of_new_tensors(net, kept, a):
    made = {"x": a * 2, "y": [(a + 1).t()], "n": torch.tensor(3.0)}
    made["again"] = made["x"]
    other = copy.deepcopy(made)
    other["x"].add_(1)
    kept["same"] = other["again"] is other["x"]
    return other, made, copy.deepcopy(a)


def of_leaves_with_gradients(net, kept, a):
    with torch.enable_grad():
        leaf = a.clone().requires_grad_()
        (leaf**2).sum().backward()
        other = copy.deepcopy(leaf)
    return other.grad, other.requires_grad, other.detach(), leaf.grad


def of_one_storage(net, kept, a):
    b = a * 2
    one, two = copy.deepcopy([b, b.detach()])
    one.add_(1)
    return one, two * 1


def of_a_part(net, kept, a):
    part = copy.deepcopy((a * 2)[:, 1:3])
    return part + 1, part.stride(), part.untyped_storage().nbytes()


def of_one_with_attributes(net, kept, a):
    b = a * 2
    b.told = [3]
    other = copy.deepcopy(b)
    return other * 1, other.told is not b.told, other.told


def of_one_with_a_history(net, kept, a):
    with torch.enable_grad():
        b = net[0](a)
        try:
            copy.deepcopy(b)
        except RuntimeError as error:
            return str(error)[:40]
    return None


SERVED = [of_states, of_a_module, of_new_tensors, of_leaves_with_gradients]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "program",
    [
        *SERVED,
        of_one_storage,
        of_a_part,
        of_one_with_attributes,
        of_one_with_a_history,
    ],
)
def test_tensors_are_copied_as_torch_copies_them(program, exact):
    nets, kept = (_net(), _net()), ({}, {})
    compiled = mica.compile(lambda a: program(nets[1], kept[1], a), exact=exact)
    for seed in range(6):
        want = program(nets[0], kept[0], x(seed))
        same(compiled(x(seed)), want)
        same(kept[1], kept[0])
        same(nets[1].state_dict(), nets[0].state_dict())
    if program in SERVED:
        assert report(compiled).hits >= 3

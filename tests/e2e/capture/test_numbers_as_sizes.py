"""Ints of arguments and of state from which sizes of tensors follow."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from e2e.capture.agreement_of_calls import report, same
from torch import nn

import mica

WIDE = torch.arange(240.0).reshape(6, 40).sin()
COUNTS = [5, 6, 7, 8, 9, 3, 12, 20, 5, 30, 31, 7, 8]
ODD = [1, 2, 0, 39, 40, 41, -1, -3, 7]

PROGRAMS = {
    "a slice": lambda a, n: a[:, :n] * 2,
    "the last ones": lambda a, n: a[:, -n:].sum(1),
    "from there on": lambda a, n: a[:, n:] + n,
    "steps": lambda a, n: a[:, ::n].sum(1),
    "arithmetic": lambda a, n: a[:, : n + 1].sum(1) / n,
    "both ends": lambda a, n: a[:, n // 2 : n],
    "narrow": lambda a, n: a.narrow(1, 0, n) + n,
    "topk": lambda a, n: a.topk(n)[0],
    "arange": lambda a, n: torch.arange(n) + a[:, :1],
    "zeros": lambda a, n: torch.cat([a, torch.zeros(6, n)], 1),
    "full": lambda a, n: torch.full((2, n), float(n)).sum() + a.sum(),
    "expand": lambda a, n: a[:, :1].expand(6, n).cumsum(1),
    "repeat": lambda a, n: a.repeat(n, 1).sum(0),
    "pad": lambda a, n: F.pad(a, (0, n)),
    "roll": lambda a, n: a.roll(n, 1),
    "interpolate": lambda a, n: F.interpolate(a[None], size=n),
    "a mask": lambda a, n: torch.ones(n, n).tril() @ a[:1, :1].expand(n, 1),
    "a tensor of it": lambda a, n: a[:, :n].sum(1) * torch.tensor(n),
    "its way": lambda a, n: a[:, :n] * 3 if n > 8 else a[:, :n] - 1,
    "returned": lambda a, n: (a[:, :n].sum(), n, 2 * n + 1, a.shape[0]),
    "a loop": lambda a, n: sum((a[:, i] for i in range(n)), a.sum(1)),
    "a key": lambda a, n: a * {5: 1, 6: 2}.get(n, 3),
}


def outcome(fn, *args):
    try:
        return fn(*args)
    except Exception as error:
        return type(error).__name__


@pytest.mark.once("counts what is watched")
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_int_may_be_a_size(name):
    program = PROGRAMS[name]
    compiled = mica.compile(program)
    for count in COUNTS:
        same(compiled(WIDE, count), program(WIDE, count))
    told = report(compiled)
    if name not in ("a loop", "a key"):
        # As a constant, as a number, as a size; and what makes another way.
        most = {"its way": 5, "both ends": 4}.get(name, 3)
        assert told.captures <= most, str(told)
        assert told.graphs[0].sizes == ["n"]
    for count in ODD:
        same(outcome(compiled, WIDE, count), outcome(program, WIDE, count))


class Cache(nn.Module):
    """Attends to all rows that it was given since it was reset."""

    def __init__(self, rows: int = 32) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(2, rows, 8))
        self.at = 0

    def forward(self, x):
        self.keys[:, self.at] = self.key(x)
        known = self.keys[:, : self.at + 1]
        scores = torch.einsum("bd,btd->bt", self.query(x), known).softmax(-1)
        self.at += 1
        return torch.einsum("bt,btd->bd", scores, known)


@pytest.mark.once("counts what is watched")
def test_a_cache_of_the_programs_own():
    torch.manual_seed(0)
    mine, plain = Cache(), Cache()
    plain.load_state_dict(mine.state_dict())
    compiled = mica.compile(mine)
    for sequence in range(3):
        mine.at = plain.at = 0
        for step in range(30):
            row = torch.randn(2, 8)
            same(compiled(row), plain(row))
            same(mine.keys, plain.keys)
            assert mine.at == plain.at == step + 1
        if sequence == 0:
            captures = report(compiled).captures
    told = report(compiled)
    assert captures <= 6, str(told)
    assert told.captures <= captures + 1, str(told)
    assert ["at"] in [graph.sizes for graph in told.graphs]


@pytest.mark.once("counts what is watched")
def test_an_attribute_that_its_user_sets():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.most = 4
            self.scale = nn.Parameter(torch.ones(40))

        def forward(self, a):
            return (a * self.scale)[:, : self.most].sum(1)

    mine = Cut()
    compiled = mica.compile(mine)
    for most in COUNTS:
        mine.most = most
        same(compiled(WIDE), mine.forward(WIDE))
    assert report(compiled).captures <= 4
    mine.most = 4.0
    assert outcome(compiled, WIDE) == outcome(mine, WIDE)


@pytest.mark.once("counts what is watched")
def test_training_with_it():
    weight = torch.randn(6, 40, requires_grad=True)
    other = weight.detach().clone().requires_grad_()

    def loss(w, n):
        return (w[:, :n].tanh() @ WIDE[:, :n].T).square().mean() * n

    compiled = mica.compile(loss)
    with torch.enable_grad():
        for count in COUNTS:
            got, want = compiled(weight, count), loss(other, count)
            same(got, want)
            got.backward()
            want.backward()
            same(weight.grad, other.grad)
            weight.grad = other.grad = None
    assert report(compiled).captures <= 3


@pytest.mark.once("counts what is watched")
def test_sizes_may_be_results():
    def program(a):
        return a.sum(), a.shape[0], len(a) * 2, [a.numel(), 1], a.shape

    compiled = mica.compile(program)
    for rows in (3, 4, 5, 9, 300):
        a = torch.randn(rows, 2)
        got, want = compiled(a), program(a)
        same(got[:4], want[:4])
        assert [type(x) for x in got] == [type(x) for x in want]
        assert got[4] == want[4]
    assert report(compiled).captures <= 5


@pytest.mark.once("counts what is watched")
def test_two_ints_and_a_tensor_vary():
    def program(a, n, m):
        return a[:m, :n] * n + m

    compiled = mica.compile(program)
    for turn, count in enumerate(COUNTS * 2):
        a = torch.randn(6 + turn % 3, 40)
        rows = 2 + turn % 4
        same(compiled(a, count, rows), program(a, count, rows))
    told = report(compiled)
    assert told.hits >= 12, str(told)


def test_an_int_of_no_size_stays_a_number():
    compiled = mica.compile(lambda a, n: a * n + 0.5 * n)
    for count in COUNTS:
        same(compiled(WIDE, count), WIDE * count + 0.5 * count)
    told = report(compiled)
    assert told.captures <= 2
    assert told.graphs[0].num_sizes == 1

"""Arguments that are parts of larger tensors, whose sizes vary."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from e2e.capture.agreement_of_calls import check, report
from torch import nn

import mica

Tensors = tuple[torch.Tensor, ...]


def _drawn(*sizes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(sizes, generator=generator)


_PARTS: dict[str, Callable[[int], torch.Tensor]] = {
    "all but the last column": lambda n: _drawn(4, n + 1)[:, :-1],
    "all but the first": lambda n: _drawn(4, n + 1)[:, 1:],
    "every other": lambda n: _drawn(4, 2 * n)[:, ::2],
    "columns in between, turned": lambda n: _drawn(n + 3, 4)[2:-1].t(),
    "a width that grows faster": lambda n: _drawn(4, n * n)[:, :n],
    "rows": lambda n: _drawn(n, 2 * n)[:, 3:7].t(),
    "a row of each": lambda n: _drawn(4, 3, n)[:, 1],
    "a head of a projection": lambda n: _drawn(n, 4, 3, n)[:, :, 1, 2].t(),
}
_PROGRAMS: dict[str, Callable[[torch.Tensor], object]] = {
    "reads it in loops": lambda a: sum(a[:, i].exp() for i in range(len(a[0]))),
    "computes": lambda a: a.exp() * 2 + 1,
    "sums": lambda a: (a.sum(1), a.cumsum(0)),
    "multiplies": lambda a: (a @ a.t(), a.t().contiguous() @ a),
    "makes it flat": lambda a: a.reshape(-1) + a.flatten(),
    "views": lambda a: (a[1:].unsqueeze(-1) * 2, a.transpose(0, 1).sum(0)),
    "asks how it lies": lambda a: a + 1 if a.is_contiguous() else a.clone() - 1,
    "returns a view": lambda a: (a[:2], a.t()),
    "goes through it": lambda a: torch.stack([2 * column for column in a.t()]),
    "like it": lambda a: torch.empty_like(a).copy_(a),
    "writes what it copies": lambda a: a.clone().mul_(2).clamp_(-1, 1),
    "writes it": lambda a: a.mul_(2),
}


@pytest.mark.parametrize("part", _PARTS)
@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_part_of_any_size_is_served(program: str, part: str) -> None:
    make = _PARTS[part]
    calls = [(make(n),) for n in (5, 6, 7, 9, 4, 12, 5, 6)]
    check(_PROGRAMS[program], *calls, hits=6)


_SHARED: dict[str, Callable[[int], Tensors]] = {
    "inputs and what follows": lambda n: (
        (base := _drawn(4, n + 1))[:, :-1],
        base[:, 1:],
    ),
    "halves": lambda n: _drawn(4, 2 * n).chunk(2, 1),
    "halves of one width": lambda n: (
        (base := _drawn(4, 64))[:, :n],
        base[:, n : 2 * n],
    ),
    "rows one after the other": lambda n: _drawn(2, 4, n).unbind(),
    "the same twice": lambda n: ((base := _drawn(4, n)), base[:]),
    "a whole and itself, turned": lambda n: (
        (base := _drawn(n, n)),
        base.t(),
    ),
}
_OF_TWO: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "computes": lambda a, b: a * 2 + b,
    "returns both": lambda a, b: (b, a[:, 1:], b.t()),
    "loops": lambda a, b: torch.stack(
        [x * y for x, y in zip(a.t(), b.t(), strict=True)]
    ),
}


@pytest.mark.parametrize("shared", _SHARED)
@pytest.mark.parametrize("program", _OF_TWO)
def test_parts_of_one_tensor_are_served(program: str, shared: str) -> None:
    calls = [_SHARED[shared](n) for n in (5, 6, 7, 9, 4, 12, 5, 6)]
    check(_OF_TWO[program], *calls, hits=6)


@pytest.mark.parametrize("written", [0, 1])
def test_a_part_that_is_written_shows_in_the_other(written: int) -> None:
    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        (a, b)[written].mul_(2)
        return a + b

    compiled = mica.compile(step)
    for n in (5, 6, 7, 8, 9, 5, 6):
        mine, plain = _drawn(4, n + 1), _drawn(4, n + 1)
        got = compiled(mine[:, :-1], mine[:, 1:])
        assert torch.equal(got, step(plain[:, :-1], plain[:, 1:]))
        assert torch.equal(mine, plain)


def test_parts_that_overlap_or_repeat_are_eagers() -> None:
    def step(a: torch.Tensor) -> object:
        return a.exp(), a.reshape(-1), a.contiguous(), a.t()

    windows = [(_drawn(n + 3).unfold(0, 4, 1),) for n in (5, 6, 7, 8)]
    repeated = [(_drawn(4, 1).expand(4, n),) for n in (5, 6, 7, 8)]
    dense = [(_drawn(4, n),) for n in (5, 6, 7, 8)]
    gapped = [(_drawn(4, n + 1)[:, 1:],) for n in (5, 6, 7, 8)]
    check(step, *windows, *repeated, *dense, *gapped)
    check(step, *gapped, *repeated, *windows, *dense, *gapped)
    check(step, *dense, *gapped, *dense, *gapped)


def test_other_distances_are_other_records() -> None:
    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * 2 + b

    base = _drawn(4, 64)
    starts = [(5, 0), (6, 0), (6, 1), (7, 20), (7, 9), (6, 0), (5, 0)]
    check(step, *[(base[:, :n], base[:, at : at + n]) for n, at in starts])
    apart = [(_drawn(4, n), _drawn(4, n + 1)[:, 1:]) for n in (5, 6, 7)]
    check(step, *[(base[:, :n], base[:, n : 2 * n]) for n in (5, 6)], *apart)


# Python sees where a tensor begins, and computes with it.
@pytest.mark.parametrize("first", [0, 1])
def test_where_a_part_begins_is_a_constant_if_it_is_asked(first: int) -> None:
    base = _drawn(40)
    starts = [first, first, first, 1 - first, 2, first, 1 - first]
    calls = [(base[at : n + at],) for n, at in enumerate(starts, start=5)]
    check(lambda a: a * (a.storage_offset() + 1), *calls)
    same = [(base[first : n + first],) for n in range(5, 10)]
    check(lambda a: a * (a.storage_offset() + 1), *same, hits=3)


def test_a_language_model_is_trained_on_any_length() -> None:
    """The batch is split into inputs and targets outside, as loaders do."""

    def make() -> tuple[nn.Module, Callable[..., torch.Tensor]]:
        torch.manual_seed(0)
        net = nn.ModuleList(
            [
                nn.Embedding(9, 8),
                nn.GRU(8, 8, batch_first=True),
                nn.Linear(8, 9),
            ]
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            logits = net[2](net[1](net[0](x))[0])
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), y.flatten()
            )
            loss.backward()
            optimizer.step()
            return loss.detach()

        return net, step

    (net, step), (plain, eager) = make(), make()
    compiled = mica.compile(step, exact=True)
    with torch.enable_grad():
        for length in (7, 8, 9, 10, 11, 12, 7, 9, 13):
            tokens = torch.randint(9, (3, length))
            x, y = tokens[:, :-1], tokens[:, 1:]
            assert torch.equal(compiled(x, y), eager(x, y))
    for got, want in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(got, want)
    assert report(compiled).captures <= 3

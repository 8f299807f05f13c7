"""Ints read from tensors by which tensors are cut: pieces for any of them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import check
from torch import nn

import mica

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def _sliced(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = int(n[0])
    return x[:k].cumsum(0) / k


def _of_two_dims(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = n.max().item()
    y = torch.tanh(x)[1:k, : k // 2]
    return y * 2, k


def _masked(x: torch.Tensor, n: torch.Tensor) -> Any:
    m = int(n.max())
    mask = torch.arange(m)[None] < n[:, None]
    return (x[None, :m, 0] * mask).sum(1), f"{m} at most"


def _largest(x: torch.Tensor, n: torch.Tensor) -> Any:
    return x.flatten().topk(n.sum().item()).values.sum()


def _made(x: torch.Tensor, n: torch.Tensor) -> Any:
    rows = int(n[0])
    out = torch.zeros(rows, 4)
    out += x[0]
    return out.softmax(0)


def _viewed(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = int(n[0])
    return x[: 2 * k].view(k, 2, -1).sum(1)


def _ragged(x: torch.Tensor, n: torch.Tensor) -> Any:
    return torch.stack([x[:k].mean(0) for k in n.tolist()])


def _in_state(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = int(n[0])
    x[:k] = 1
    return x * 2


PROGRAMS: dict[str, Program] = {
    name[1:]: program
    for name, program in list(globals().items())
    if name.startswith("_") and getattr(program, "__module__", "") == __name__
}


def _calls(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (
            torch.randn(24, 4, generator=generator),
            torch.randint(2, 9, (3,), generator=generator),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_pieces_are_as_eager(name: str) -> None:
    steps = [
        lambda _, program, x=x, n=n: (program(own := x.clone(), n), own)
        for x, n in _calls(40)
    ]
    check(lambda: SimpleNamespace(program=PROGRAMS[name]), *steps)


@pytest.mark.parametrize("name", ["sliced", "masked", "made", "viewed"])
def test_they_are_few_graphs(name: str) -> None:
    fast = mica.compile(PROGRAMS[name])
    generator = torch.Generator().manual_seed(0)
    calls = 60
    for _ in range(calls):
        x = torch.randn(100, 4, generator=generator)
        n = torch.randint(2, 50, (3,), generator=generator)
        want = PROGRAMS[name](x, n)
        got = fast(x, n)
        if isinstance(want, tuple):
            assert got[1:] == want[1:]
            got, want = got[0], want[0]
        torch.testing.assert_close(got, want)
    told = mica.explain(fast)
    assert told.captures <= 12
    graphs = [len(piece.graphs) for piece in told.pieces]
    assert sum(graphs) >= 1 and max(graphs) <= 4


def test_what_they_choose_is_no_cut() -> None:
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def program(x: torch.Tensor, n: torch.Tensor) -> Any:
        for _ in range(int(n[1]) % 3):
            x = x * 2
        return layers[int(n[0]) % 4](x)

    fast = mica.compile(program)
    for x, n in _calls(60):
        torch.testing.assert_close(fast(x, n), program(x, n))
    assert mica.explain(fast).split_calls == 0


def test_one_that_stays_is_no_cut() -> None:
    def program(x: torch.Tensor, n: torch.Tensor) -> Any:
        y = x[: int(n[0])]
        return y * 2 if y.sum() > 0 else y - 1

    fast = mica.compile(program)
    for x, _ in _calls(40):
        n = torch.tensor([5])
        torch.testing.assert_close(fast(x, n), program(x, n))
    told = mica.explain(fast)
    assert told.split_calls == 0 and told.captures == 2

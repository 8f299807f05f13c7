"""Tensors of one int as indices: one graph for all, gradients included."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from e2e.capture.two_worlds import World, check, with_grad
from torch import nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)

Body = Callable[[torch.Tensor, torch.Tensor], Any]
ROWS = 6
INDICES = (0, 1, 2, -1, 5, -6, 3, 3)


def made(body: Body) -> Callable[[], World]:
    """A world of a weight, and a step of `body(w, i)`."""

    def make() -> World:
        world = World()
        generator = torch.Generator().manual_seed(5)
        world.w = nn.Parameter(torch.randn(ROWS, 4, generator=generator))
        optimizer = torch.optim.SGD([world.w], 0.1)

        def program(i: torch.Tensor) -> Any:
            loss = body(world.w, i)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        world.program = program
        return world

    return make


def step(i: int, dtype: torch.dtype = torch.int64) -> Callable[[Any, Any], Any]:
    def take(world: Any, program: Any) -> Any:
        return program(torch.tensor(i, dtype=dtype)), world.w.clone()

    return take


def trained(body: Body, exact: bool) -> int:
    return check(made(body), *map(step, INDICES), exact=exact)


def rows_of_all(w: torch.Tensor, i: torch.Tensor) -> Any:
    return sum((w[j] * w[i]).sum() for j in range(2)) + w.t()[i % 4].exp().sum()


FOLLOWED = {
    "a row": lambda w, i: (w[i] ** 2).sum(),
    "an item": lambda w, i: w[i, i % 4].exp(),
    "two rows": lambda w, i: (w[i] * w[i - i.sign()]).sum(),
    "a row twice": lambda w, i: (w[i] * 2 + w[i].exp()).sum(),
    "an item of a row": lambda w, i: w[i][0] * w[i][1],
    "a column": lambda w, i: (w.t()[1:, i] ** 2).sum(),
    "of a result": lambda w, i: (w * 2)[i, None, ..., 1:].exp().sum(),
    "by the number": lambda w, i: (w[i.item()] ** 2).sum(),
    "all rows": rows_of_all,
    "of what isn't trained": lambda w, i: (w.detach()[i] * w[0]).sum(),
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", FOLLOWED)
def test_one_graph_trains_at_each_index(name: str, exact: bool):
    assert trained(FOLLOWED[name], exact) >= len(INDICES) - 2


def written_first(w: torch.Tensor, i: torch.Tensor) -> Any:
    h = w * 2
    h[0] = 1.0
    return h[i].exp().sum()


def view_written(w: torch.Tensor, i: torch.Tensor) -> Any:
    h = w * 2
    h[i].mul_(2)
    return h.exp().sum()


def base_written(w: torch.Tensor, i: torch.Tensor) -> Any:
    h = w * 2
    row = h[i]
    h.mul_(2)
    return row.exp().sum()


def base_tracked_later(w: torch.Tensor, i: torch.Tensor) -> Any:
    h = torch.zeros(ROWS, 4)
    row = h[i]
    h.add_(w)
    return row.exp().sum()


def view_tracked_later(w: torch.Tensor, i: torch.Tensor) -> Any:
    h = torch.zeros(ROWS, 4)
    row = h[i]
    row.copy_(w[0] * 2)
    return (h * w).exp().sum()


def view_by_number_tracked_later(w: torch.Tensor, i: torch.Tensor) -> Any:
    h = torch.zeros(ROWS, 4)
    row = h[i.item()]
    row.copy_(w[0] * 2)
    return (h * w).exp().sum()


def stored(w: torch.Tensor, i: torch.Tensor) -> Any:
    h = w * 2
    h[i] = w[i - i.sign()] * 3
    h[0] += w[i]
    return h.exp().sum()


def weight_written_between(w: torch.Tensor, i: torch.Tensor) -> Any:
    row = w[i]
    w.pow(2).sum().backward()
    with torch.no_grad():
        w.sub_(w.grad, alpha=0.1)
    return row.exp().sum()


def penalty(w: torch.Tensor, i: torch.Tensor) -> Any:
    (g,) = torch.autograd.grad((w[i] ** 3).sum(), w, create_graph=True)
    return g.pow(2).sum()


def of_functions(w: torch.Tensor, i: torch.Tensor) -> Any:
    g = torch.func.grad(lambda v: (v[i] ** 2).sum())(w.detach())
    _, t = torch.func.jvp(lambda v: v[i].exp(), (w.detach(),), (g,))
    return (g * w).sum() + t.sum()


def told(w: torch.Tensor, i: torch.Tensor) -> Any:
    row = w[i]
    return row.sum() * (row.grad_fn._saved_index % 7)


def of_complex(w: torch.Tensor, i: torch.Tensor) -> Any:
    return torch.view_as_complex((w * 1).view(ROWS, 2, 2))[i].abs().sum()


def recomputed(w: torch.Tensor, i: torch.Tensor) -> Any:
    return torch.utils.checkpoint.checkpoint(
        lambda v: v[i].exp().sum(), w, use_reentrant=False
    )


OTHERS = [
    written_first,
    view_written,
    base_written,
    base_tracked_later,
    view_tracked_later,
    view_by_number_tracked_later,
    stored,
    weight_written_between,
    penalty,
    of_functions,
    told,
    of_complex,
    recomputed,
]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("body", OTHERS)
def test_what_autograd_knows_by_its_place_is_eagers(body: Body, exact: bool):
    trained(body, exact)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        lambda w, i: w[i],
        lambda w, i: (w[i] ** 2).sum(),
        lambda w, i: (w.detach()[i], w[0] * 2),
        lambda w, i: base_tracked_later(w, i),
    ],
)
def test_a_backward_pass_that_comes_later_finds_its_rows(
    body: Body, exact: bool
):
    def make() -> World:
        world = made(body)()
        world.program = lambda i: body(world.w, i)
        return world

    def take(i: int) -> Callable[[Any, Any], Any]:
        def back(world: Any, program: Any) -> Any:
            world.w.grad = None
            out = program(torch.tensor(i))
            parts = out if isinstance(out, tuple) else (out,)
            sum(p.sum() * 3 for p in parts if p.requires_grad).backward()
            return parts, world.w.grad

        return back

    check(make, *map(take, INDICES), exact=exact)


def cells(exact: bool, program: Callable[..., Any], *calls: Any) -> int:
    compiled = mica.compile(program, exact=exact)
    for args in calls:
        own, twin = ([a.clone() for a in args] for _ in range(2))
        with torch.no_grad():
            same(compiled(*own), program(*twin))
            same(own, twin)
    return report(compiled).hits


@pytest.mark.parametrize("exact", [True, False])
def test_rows_are_read_and_written_in_place(exact: bool):
    def program(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> Any:
        x[i] += 1
        x[i, j] = x[:, j].sum()
        x[:, j] = x[i, 0]
        return x[j - 1], x[i].mean()

    x = torch.arange(12.0).reshape(3, 4)
    calls = [
        (x, torch.tensor(i % 6 - 3), torch.tensor(i % 3)) for i in range(12)
    ]
    assert cells(exact, program, *calls) >= len(calls) - 2


@pytest.mark.parametrize(
    "dtype", [torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
)
def test_a_byte_is_a_mask_and_another_int_an_index(dtype: torch.dtype):
    def program(x: torch.Tensor, i: torch.Tensor) -> Any:
        return x[i] * 2

    calls = [
        (torch.ones(3, 2), torch.tensor(k % 2, dtype=dtype)) for k in range(6)
    ]
    assert cells(True, program, *calls) >= 4


def test_what_is_out_of_range_raises_as_eager_does():
    fn = mica.compile(lambda x, i: x[i].sum())
    x = torch.randn(4, 3)
    for i in range(-4, 4):
        same(fn(x, torch.tensor(i)), x[i].sum())
    assert report(fn).captures == 1
    for i in (4, -5, 2**40):
        with pytest.raises(IndexError, match="out of"):
            fn(x, torch.tensor(i))
    same(fn(x, torch.tensor(-4)), x[0].sum())


def test_the_best_path_goes_back_by_tensors():
    move = torch.randn(5, 5)

    def program(scores: torch.Tensor) -> Any:
        back, best = [], scores[0]
        for row in scores[1:]:
            value, index = (best[None] + move).max(1)
            back.append(index)
            best = value + row
        path = collections.deque([best.argmax()])
        for index in reversed(back):
            path.appendleft(index[path[0]])
        return torch.stack(tuple(path)), best.max()

    calls = [(torch.randn(6, 5),) for _ in range(8)]
    assert cells(True, program, *calls) == 7


def test_a_program_may_index_by_what_it_keeps():
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("at", torch.tensor(0))
            self.register_buffer("rows", torch.zeros(4, 2))

        def forward(self, x: torch.Tensor) -> Any:
            self.rows[self.at] = x
            self.at = (self.at + 1) % 4
            return self.rows.sum(0)

    twin, own = Table(), Table()
    compiled = mica.compile(own)
    for k in range(10):
        x = torch.full((2,), float(k))
        same(compiled(x), twin(x))
        same(own.rows, twin.rows)
    assert report(compiled).hits >= 7

"""What an op raises by its data, a hit raises too, though nothing reads what
it gives.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from e2e.capture.two_worlds import with_grad

import mica

_grad = pytest.fixture(autouse=True)(with_grad)

GOOD = torch.tensor([0, 1, 2, 2, 1])
BAD = torch.tensor([0, 1, 7, 3, 1])


def index(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x[i]
    return x * 2


def index_and_go_on(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x.index_select(0, i).neg().exp()
    return x * 2


def read_sizes_only(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros_like(x[i]).sum() + x[i].shape[0]


def gather(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x.gather(0, i[:, None])
    return x + 1


def take(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    torch.take(x, i * 3)
    return x + 1


def embed(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    F.embedding(i, x)
    return x * 2


def divide(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    i // (i - 3)
    return x + 1


def modulo(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    i % (i - 3)
    return x + 1


def write(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    copy = x.clone()
    copy[i] = 1.0
    return x + 1


def add_rows(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    torch.zeros(5, 3).index_add_(0, i, torch.ones(len(i), 3))
    return x + 1


def scatter(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    torch.zeros(5, 3).scatter_(0, i[:, None].expand(-1, 3), 1.0)
    return x + 1


def class_loss(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    F.cross_entropy(x, i)
    return x + 1


def pixel_loss(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    F.nll_loss(x.view(1, 3, 5, 1), i.view(1, 5, 1))
    return x + 1


def binary_loss(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    p = torch.full_like(x, 0.25) * (1 + i.max())
    F.binary_cross_entropy(p, torch.ones_like(x))
    return x + 1


PROGRAMS = [
    index,
    index_and_go_on,
    read_sizes_only,
    gather,
    take,
    embed,
    divide,
    modulo,
    write,
    add_rows,
    scatter,
    class_loss,
    pixel_loss,
    binary_loss,
]


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_an_unused_op_raises_is_raised(
    program: Callable[..., torch.Tensor], needs_grad: bool
):
    x = torch.randn(5, 3, requires_grad=needs_grad)
    compiled = mica.compile(program)
    for _ in range(4):
        torch.testing.assert_close(compiled(x, GOOD), program(x, GOOD))
    assert mica.explain(compiled).hits >= 2
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        program(x, BAD)
    with pytest.raises(wanted.type) as got:
        compiled(x, BAD)
    assert str(got.value) == str(wanted.value)
    torch.testing.assert_close(compiled(x, GOOD), program(x, GOOD))


def test_what_divides_floats_is_left_out():
    def divide_floats(x: torch.Tensor) -> torch.Tensor:
        x % (x - x)
        torch.div(x, 0.0, rounding_mode="floor")
        return x + 1

    compiled = mica.compile(divide_floats)
    for _ in range(4):
        compiled(torch.ones(3))
    assert "mica.keep" not in mica.explain(compiled).details("program")


def test_what_divides_whole_numbers_is_kept():
    compiled = mica.compile(divide)
    for _ in range(4):
        compiled(torch.ones(3), GOOD)
    assert "mica.keep" in mica.explain(compiled).details("program")

"""Results that go into a tensor of another size than they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica

pytestmark = pytest.mark.filterwarnings("ignore:An output with one or more")

Program = Callable[[torch.Tensor], Any]


def _twice(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(0)
    torch.mul(x, 2, out=out)
    torch.add(out, 1, out=out)
    return out


def _of_a_list(x: torch.Tensor) -> torch.Tensor:
    out = torch.tensor([])
    torch.cat([x, x], out=out)
    return out


def _two(x: torch.Tensor) -> torch.Tensor:
    values, places = torch.empty(0), torch.empty(0, dtype=torch.long)
    torch.max(x, 1, out=(values, places))
    return values + places


def _then_in_place(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(0)
    torch.stack([x, x], out=out)
    out += 1
    return out[0]


def _with_a_view_of_before(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(0)
    view = out.view(-1)
    torch.mul(x, 2, out=out)
    return out + view.numel()


EMPTY: dict[str, Program] = {
    "alone": lambda x: torch.sin(x, out=torch.empty(0)),
    "a new one": lambda x: torch.mm(x, x, out=x.new()),
    "twice": _twice,
    "of a list": _of_a_list,
    "two": _two,
    "then in place": _then_in_place,
    "with a view of before": _with_a_view_of_before,
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_tensor_of_the_program_takes_a_result(name):
    fast: Any = mica.compile(EMPTY[name])
    for i in range(4):
        x = torch.rand(4, 4, generator=torch.Generator().manual_seed(i))
        want, got = EMPTY[name](x), fast(x)
        torch.testing.assert_close(want, got)
        assert want.stride() == got.stride()
    assert mica.explain(fast).hits == 3


def test_an_empty_tensor_of_the_state_becomes_larger():
    states = [torch.empty(0) for _ in range(2)]
    fast: Any = mica.compile(lambda x: torch.mul(x, 2, out=states[1]).sum())
    for i in range(5):
        x = torch.rand(4, 4 + i // 3)
        want = torch.mul(x, 2, out=states[0]).sum()
        torch.testing.assert_close(want, fast(x))
        assert torch.equal(states[0], states[1])
        assert states[0].stride() == states[1].stride()


def test_a_view_that_a_result_makes_larger_is_left_to_eager():
    # The view gets the result's form, and its base another content.
    def program(x: torch.Tensor) -> torch.Tensor:
        column = x[:, :1]
        column.addbmm_(torch.ones(2, 4, 4), torch.ones(2, 4, 4))
        return column.sum()

    fast: Any = mica.compile(program)
    for _ in range(4):
        x = torch.rand(4, 4)
        y = x.clone()
        torch.testing.assert_close(program(x), fast(y))
        torch.testing.assert_close(x, y)

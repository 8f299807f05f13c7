"""A torch.autograd.Function whose class each call makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import with_grad
from torch import Tensor

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


def own_class(x: Tensor, mask: Tensor) -> Tensor:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor) -> Tensor:
            ctx.save_for_backward(a)
            return a * 2 * a

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 4 * ctx.saved_tensors[0]

    return Double.apply(x).where(mask, 1.0)


PROGRAMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a class in the program": own_class,
    "torch.masked.sum": lambda x, mask: torch.masked.sum(x, 1, mask=mask),
    "torch.masked.softmax": lambda x, mask: torch.masked.softmax(
        x, 1, mask=mask
    ),
    "torch.masked.amax": lambda x, mask: torch.masked.amax(x, 0, mask=mask),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("learns", [False, True])
def test_a_class_that_each_call_makes_is_no_state(name: str, learns: bool):
    def step(x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        result = PROGRAMS[name](x, mask)
        if not learns:
            return (result,)
        weights = torch.arange(1.0, 1.0 + result.numel()).reshape(result.shape)
        return result, *torch.autograd.grad((result * weights).sum(), x)

    compiled = mica.compile(step)
    mask = torch.tensor([[True, False, True], [True, True, True]])
    for seed in range(4):
        x = torch.arange(6.0).reshape(2, 3).sub(seed).requires_grad_(learns)
        torch.testing.assert_close(compiled(x, mask), step(x, mask))
    assert mica.explain(compiled).hits == 3


def test_a_class_that_is_made_later_has_a_number_of_its_own():
    compiled = mica.compile(own_class)
    mask = torch.ones(3, dtype=torch.bool)
    numbers = []
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        compiled(x, mask).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 4.0))

        class Later(torch.autograd.Function):
            pass

        numbers.append(Later._backward_cls._autograd_function_id)
    assert len(set(numbers)) == 3

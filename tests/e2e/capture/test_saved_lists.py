"""Graphs of torch._foreach_*(), which save lists, are used up as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import with_grad
from torch import Tensor, nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)

FUNCTIONS = [
    name
    for name in dir(torch)
    if name.startswith("_foreach_") and not name.endswith("_")
]


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.full((3,), 0.5)) for _ in range(2)]


OPERANDS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "none": lambda: (),
    "number": lambda: (2.0,),
    "numbers": lambda: ([2.0, 3.0],),
    "tensor": lambda: (torch.tensor(2.0),),
    "list": lambda: (parameters(),),
    "list and number": lambda: (parameters(), 2.0),
    "lists": lambda: (parameters(), parameters()),
}


def passes(call: Callable[[], Tensor]) -> list[str]:
    """What two backward passes through one result say."""
    result, said = call(), []
    for _ in range(2):
        try:
            result.sum().backward()
            said.append("")
        except RuntimeError as error:
            said.append(str(error)[:40])
    return said


@pytest.mark.parametrize("operands", OPERANDS)
def test_a_second_pass_raises_where_it_does_in_eager(operands: str) -> None:
    served = 0
    for name in FUNCTIONS:
        first, others = parameters(), OPERANDS[operands]()

        def program() -> Tensor:
            function = getattr(torch, name)  # noqa: B023
            return function(first, *others)[1]  # noqa: B023

        try:
            if not program().requires_grad:
                continue
        except (RuntimeError, TypeError, ValueError):
            continue  # No operands of its kind.
        compiled = mica.compile(program)
        compiled()
        compiled()
        assert passes(compiled) == passes(program), name
        served += mica.explain(compiled).hits
    assert served > 0

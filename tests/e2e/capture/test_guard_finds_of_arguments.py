"""Finds of the guard fuzzer about what callables are given and give."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
import torch

import mica


@dataclasses.dataclass(eq=False)
class _Config:
    k: float = 2.0


@pytest.mark.parametrize("changed", [3.0, float("nan")])
@pytest.mark.parametrize("others_first", [True, False])
def test_an_argument_is_found_in_a_list_of_the_state(
    changed: float, others_first: bool
) -> None:
    special = _Config()
    known: list[Any] = [object(), _Config(), 1.0, "a", None]

    def program(x: torch.Tensor, c: _Config = special) -> torch.Tensor:
        return x * float(special in known) + c.k

    fast = mica.compile(program)
    x = torch.ones(3)
    if others_first:
        fast(x, c=_Config())
    known[2] = changed
    for there in (known[1], special, _Config(), special):
        known[1] = there
        for _ in range(2):
            got, wanted = fast(x, c=special), program(x, c=special)
            assert torch.equal(got, wanted)


def _writes(tensor: torch.Tensor) -> bool:
    try:
        tensor.mul_(1)
    except RuntimeError:
        return False
    return True


def test_what_is_detached_from_inference_mode_may_be_written() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.inference_mode():
            y = x * 2
        return y, y.detach(), y.view(-1), y.data, y + 1

    fast = mica.compile(program)
    for _ in range(3):
        pairs = zip(fast(torch.ones(3)), program(torch.ones(3)), strict=True)
        for got, wanted in pairs:
            assert got.is_inference() == wanted.is_inference()
            assert _writes(got) == _writes(wanted)


def test_tuples_that_hold_one_tuple_many_times_take_no_time():
    def program(nested):
        try:
            return torch.tanh(nested)
        except TypeError:
            return nested == nested

    nested: object = torch.ones(2)
    for _ in range(14):
        nested = (nested, nested, nested)
    compiled = mica.compile(program)
    started = time.monotonic()
    for _ in range(3):
        assert compiled(nested) is program(nested)
    assert time.monotonic() - started < 2

"""Operators whose kernels are in Python are followed as the program is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report

import mica

_NAMES = (f"mica_test_{i}" for i in itertools.count())


@pytest.fixture
def library() -> Iterator[Any]:
    made = torch.library.Library(next(_NAMES), "FRAGMENT")
    yield made
    made._destroy()


def _operator(library: Any, kernel: Callable[..., Any]) -> Any:
    library.define("op(Tensor x) -> Tensor")
    library.impl("op", kernel, "CPU")
    return getattr(torch.ops, library.ns).op


@pytest.mark.once("torch keeps the names of operators")
def test_what_one_leaves_behind_is_left_once(library, capsys):
    noted: list[int] = []
    state = {"scale": 2.0}

    def kernel(x: torch.Tensor) -> torch.Tensor:
        print("kernel")
        noted.append(1)
        return x * state["scale"]

    op = _operator(library, kernel)
    fn = mica.compile(lambda x: op(x + 1) * 2)
    for i in range(8):
        state["scale"] = float(i // 4 + 2)
        result = fn(torch.ones(2))
        assert result.tolist() == [4 * state["scale"]] * 2
        assert len(noted) == i + 1
        assert capsys.readouterr().out == "kernel\n"
    assert report(fn).hits > 0


@pytest.mark.once("torch keeps the names of operators")
def test_its_branches_are_the_programs(library):
    op = _operator(library, lambda x: x * 2 if x.sum() > 0 else x * 3)
    fn = mica.compile(lambda x: op(x + 1) * 2)
    for i in range(8):
        x = torch.full((2,), 3.0 * (-1) ** i)
        torch.testing.assert_close(fn(x), (x + 1) * (4 if i % 2 == 0 else 6))


@pytest.mark.once("torch keeps the names of operators")
def test_another_kernel_is_another_program(library):
    op = _operator(library, lambda x: x * 2)
    fn = mica.compile(lambda x: op(x + 1))
    for _ in range(4):
        assert fn(torch.ones(1)).item() == 4
    assert report(fn).hits > 0
    other = torch.library.Library(library.ns, "IMPL")
    try:
        other.impl("op", lambda x: x * 3, "CPU", allow_override=True)
        for _ in range(4):
            assert fn(torch.ones(1)).item() == 6
    finally:
        other._destroy()


@pytest.mark.once("torch keeps the names of operators")
def test_custom_ops_are_part_of_the_graph():
    name = next(_NAMES)

    @torch.library.custom_op(f"{name}::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.custom_op(f"{name}::sine", mutates_args=())
    def sine(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sin(x.numpy()))

    @torch.library.custom_op(f"{name}::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float, plus: int) -> torch.Tensor:
        return x * by + plus

    twice.register_autograd(lambda ctx, g: g * 2)
    fn = mica.compile(lambda x: twice(x + 1) * 3)
    for i in range(5):
        x = torch.full((3,), float(i))
        torch.testing.assert_close(fn(x), (x + 1) * 6)
    assert report(fn).hits > 0
    for i in range(5):
        x = torch.full((3,), float(i), requires_grad=True)
        with torch.enable_grad():
            result = fn(x)
            result.sum().backward()
        torch.testing.assert_close(result.detach(), (x.detach() + 1) * 6)
        assert x.grad is not None
        assert x.grad.tolist() == [6.0] * 3
    numbers = mica.compile(lambda x, by, plus: scaled(x, by, plus))
    for i in range(12):
        x = torch.full((3,), float(i))
        result = numbers(x, i // 2 / 4, i // 3)
        torch.testing.assert_close(result, x * (i // 2 / 4) + i // 3)
    reads = mica.compile(lambda x: sine(x + 1))
    for i in range(5):
        x = torch.full((3,), float(i))
        torch.testing.assert_close(reads(x), torch.sin(x + 1))

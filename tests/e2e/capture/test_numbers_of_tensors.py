"""Numbers of tensors of each dtype, one by one and by Tensor.tolist()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check


def make_of(program: Callable[..., Any]) -> Callable[[], Any]:
    def make() -> Any:
        world = World()
        world.kept = [0.0]
        world.program = lambda *args: program(world.kept, *args)
        return world

    return make


def calls(*shape: int, dtype: torch.dtype = torch.float32) -> list[Any]:
    def call(seed: int) -> Callable[[Any, Any], Any]:
        def step(world: Any, fn: Any) -> Any:
            torch.manual_seed(seed)
            x = (torch.randn(shape) * 9).to(dtype)
            return fn(x), world.kept

        return step

    return [call(seed) for seed in range(5)]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0), (0, 2), (2, 2, 2)])
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool],
)
def test_lists_are_results(shape, dtype):
    def program(kept, x):
        return x, x.tolist()

    assert check(make_of(program), *calls(*shape, dtype=dtype)) >= 3


READS = {
    "result": lambda x: (x, x[0].item()),
    "text": lambda x: f"{x[0].item():.2f}",
    "float": lambda x: (x, float(x[0]), float((x > 1).sum())),
    "product": lambda x: x.double() * x[0].item(),
    "branch": lambda x: x if float(x[0]) > 2 else x + 1,
    "exact": lambda x: (x, hash(x[0].item()), float(x[1]).hex()),
    "places": lambda x: [float(v) for v in x],
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(
    "dtype",
    [
        *[torch.float32, torch.float64, torch.bfloat16, torch.float16],
        *[torch.int64, torch.int32, torch.int16, torch.int8, torch.bool],
    ],
)
def test_numbers_of_each_dtype(name, dtype):
    def program(kept, x):
        return READS[name](x)

    steps = calls(3, dtype=dtype)
    hits = check(make_of(program), *steps, *steps)
    assert hits >= 5 or name == "exact"


@pytest.mark.parametrize("number", [2**53 + 1, -(2**63), 2**63 - 1, 2**62])
def test_large_whole_numbers(number):
    def program(kept, x):
        return x, float(x[0]), x[0].item(), float(x[0] - 1) * 2

    def call(value: int) -> Any:
        return lambda world, fn: fn(torch.tensor([value, 1]))

    check(make_of(program), *[call(v) for v in (1, 2, number, number, 3)])


@pytest.mark.parametrize(
    ("program", "hits"),
    [
        (lambda kept, x: x * x[0].tolist()[1], 3),
        (lambda kept, x: (x, x.tolist()[0][:2]), 3),
        (lambda kept, x: (x, [v for row in x.tolist() for v in row]), 3),
        (lambda kept, x: (x, kept.extend(x[0].tolist())), 3),
        (lambda kept, x: (kept.extend(x[0].tolist()), kept.pop(0)), 0),
        (lambda kept, x: f"{x[0].tolist()[0]:.2f}", 3),
        (lambda kept, x: x * sum(x[0].tolist()), 3),
        (lambda kept, x: x * max(x[1].tolist()), 0),
        (lambda kept, x: (x, str(x.tolist())), 0),
        (lambda kept, x: x.tolist() == x.clone().tolist(), 0),
        (lambda kept, x: (x, torch.tensor(x.tolist())), 0),
        (lambda kept, x: (x * 2).T.requires_grad_().tolist(), 0),
        (lambda kept, x: torch.ones(9, 9).tolist(), 0),
    ],
)
def test_what_is_done_with_lists(program, hits):
    assert check(make_of(program), *calls(2, 3)) >= hits

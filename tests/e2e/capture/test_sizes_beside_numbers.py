"""Sizes that are compared with numbers of the state, of data and of draws."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import Step, check

Make = Callable[[], SimpleNamespace]

LENGTHS = (6, 20, 4, 10, 5, 17, 16, 14, 8, 2, 23, 15, 9, 24, 3, 11, 24, 2)


def of_length(length: int, scale: float = 1.0) -> Step:
    generator = torch.Generator().manual_seed(length)
    x = scale * torch.randn(length, 4, generator=generator)
    return lambda _, program: program(x)


def _grown_table() -> SimpleNamespace:
    world = SimpleNamespace(longest=0, table=torch.zeros(0, 4))

    def program(x: torch.Tensor) -> Any:
        if x.shape[0] > world.longest:
            world.longest = x.shape[0]
            places = torch.arange(world.longest)[:, None]
            world.table = (places / 10 ** (torch.arange(4) / 4)).sin()
        return x + world.table[: x.shape[0]]

    world.program = program
    return world


def _two_conditions() -> SimpleNamespace:
    world = SimpleNamespace(low=3, high=12)

    def program(x: torch.Tensor) -> Any:
        if world.low < len(x) <= world.high:
            return x.softmax(0) * world.low
        return x[1:] * world.high

    def step(x: torch.Tensor) -> Any:
        world.low, world.high = world.low % 5 + 1, world.high + 1
        return program(x)

    world.program, world.step = program, step
    return world


def _exact_later() -> SimpleNamespace:
    world = SimpleNamespace(kept=5)

    def program(x: torch.Tensor) -> Any:
        if x.shape[0] * 2 > world.kept:
            x = x * 2
        return x[: world.kept].cumsum(0)

    world.program = program
    return world


def _key_later() -> SimpleNamespace:
    world = SimpleNamespace(kept=5, scales={k: k * 0.5 for k in range(40)})

    def program(x: torch.Tensor) -> Any:
        y = x + 1 if len(x) >= world.kept else x - 1
        return y * world.scales[world.kept]

    world.program = program
    return world


def _data() -> SimpleNamespace:
    def program(x: torch.Tensor) -> Any:
        total = x.abs().sum().item()
        if total > 3 * x.shape[0]:
            return x / total
        return x * x.shape[0]

    return SimpleNamespace(program=program)


def _mean_of_data() -> SimpleNamespace:
    def program(x: torch.Tensor) -> Any:
        mean = x.abs().sum().item() / x.shape[0]
        return (x - mean, mean) if mean > 3 else (x + mean, len(x))

    return SimpleNamespace(program=program)


def _drawn() -> SimpleNamespace:
    def program(x: torch.Tensor) -> Any:
        if random.random() * 20 > x.shape[0]:
            return x.relu()
        return x.tanh()

    return SimpleNamespace(program=program)


def _rounds() -> SimpleNamespace:
    world = SimpleNamespace(limit=7.5)

    def program(x: torch.Tensor) -> Any:
        h = x[0]
        for i in range(x.shape[0]):
            h = torch.tanh(h + x[i]) if i < world.limit else h * 0.5
        return h

    world.program = program
    return world


def _behind_rounds() -> SimpleNamespace:
    world = SimpleNamespace(limit=7.5)

    def program(x: torch.Tensor) -> Any:
        h, count = x[0], 0
        for row in x:
            h = torch.tanh(h + row)
            count += 1
        return h if count > world.limit else h + x.sum(0)

    world.program = program
    return world


def _in_rounds() -> SimpleNamespace:
    world = SimpleNamespace(limit=7.5)

    def program(x: torch.Tensor) -> Any:
        rows = []
        for row in x:
            rows.append(row * 2 if x.shape[0] > world.limit else row.exp())
        return torch.stack(rows)

    world.program = program
    return world


def _text() -> SimpleNamespace:
    world = SimpleNamespace(longest=0)

    def program(x: torch.Tensor) -> Any:
        if len(x) > world.longest:
            world.longest = len(x)
        print(f"{len(x)} of {world.longest}")
        return x.sum(0)

    world.program = program
    return world


PROGRAMS: dict[str, Make] = {
    name[1:]: make
    for name, make in list(globals().items())
    if name.startswith("_") and getattr(make, "__module__", "") == __name__
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_all_is_as_eager_has_it(name: str, scale: float) -> None:
    steps = [
        of_length(length, scale if i % 3 else 1.0)
        for i, length in enumerate(LENGTHS)
    ]
    check(PROGRAMS[name], *steps)


def _setting(attribute: str, value: Any, length: int) -> Step:
    def step(world: Any, program: Any) -> Any:
        setattr(world, attribute, value)
        return of_length(length)(world, program)

    return step


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("two_conditions", "high"),
        ("two_conditions", "low"),
        ("exact_later", "kept"),
        ("key_later", "kept"),
        ("rounds", "limit"),
        ("behind_rounds", "limit"),
        ("in_rounds", "limit"),
    ],
)
def test_numbers_and_sizes_vary_by_turns(name: str, attribute: str) -> None:
    steps = [
        _setting(attribute, value, length)
        for value, length in zip(
            (5, 5, 6, 9, 9, 3, 12, 12, 7, 6, 6, 15, 4, 8, 8, 2, 30, 9),
            LENGTHS,
            strict=True,
        )
    ]
    check(PROGRAMS[name], *steps)


@pytest.mark.parametrize(
    ("name", "hits"),
    [("grown_table", 11), ("data", 12), ("mean_of_data", 12), ("text", 11)],
)
def test_one_way_is_one_record(name: str, hits: int) -> None:
    # The longest first: after it, nothing grows.
    lengths = (30, *LENGTHS[:-2])
    assert check(PROGRAMS[name], *map(of_length, lengths)) >= hits

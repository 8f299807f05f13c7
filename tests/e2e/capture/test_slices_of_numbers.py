"""Slice objects that hold numbers: returned, stored, printed and compared."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import check

Program = Callable[[Any, torch.Tensor], Any]


def _stored(world: Any, x: torch.Tensor) -> Any:
    old = world.cut
    world.cut = slice(0, world.k)
    return x * 2, old.stop


def _stored_with_others(world: Any, x: torch.Tensor) -> Any:
    old = world.cuts
    world.cuts = (slice(0, world.k), slice(world.k, None, 2))
    return x * 2, len(old)


def _returned(world: Any, x: torch.Tensor) -> Any:
    cut = slice(world.k, None)
    return cut, x + world.k, [cut, (slice(None), slice(1, world.k, 3))]


def _appended(world: Any, x: torch.Tensor) -> Any:
    world.list.append(slice(world.k))
    return x.sum()


def _text(world: Any, x: torch.Tensor) -> Any:
    print(slice(0, world.k), (slice(world.k),))
    return x, f"{slice(0, world.k)}"


def _compared(world: Any, x: torch.Tensor) -> Any:
    return x + 1 if slice(0, world.k) == slice(0, 3) else x - 1


def _read(world: Any, x: torch.Tensor) -> Any:
    k = int(x.abs().sum())
    world.cut = slice(k, k + 2)
    return slice(None, k), x * k


def _of_a_list(world: Any, x: torch.Tensor) -> Any:
    return [1, 2, 3, 4, 5][slice(1, world.k)], x * world.k


def _of_sizes(world: Any, x: torch.Tensor) -> Any:
    return slice(0, len(x)), (slice(1, world.k), x.shape[0]), x * 2


PROGRAMS: dict[str, Program] = {
    name[1:]: program
    for name, program in list(globals().items())
    if name.startswith("_") and getattr(program, "__module__", "") == __name__
}


def _world(program: Program) -> SimpleNamespace:
    world = SimpleNamespace(
        k=3, cut=slice(0, 3), cuts=(slice(0, 3), slice(3, None, 2)), list=[]
    )
    world.program = lambda x: program(world, x)
    return world


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("is_set_back", [False, True])
def test_slices_are_as_eager_has_them(name: str, is_set_back: bool) -> None:
    ks = (3, 3, 4, 5, 3, 7, 2, 3, 9, 3, 4, 3, 3, 8)

    def calling(k: int, rows: int) -> Callable[[Any, Any], Any]:
        def step(world: Any, program: Any) -> Any:
            world.k = k
            if is_set_back:
                world.cut = slice(0, 3)
                world.cuts = (slice(0, 3), slice(3, None, 2))
            made = program(torch.full((rows, 2), k / 3))
            return made, str(world.cut), str(world.cuts), str(world.list)

        return step

    check(
        lambda: _world(PROGRAMS[name]),
        *[calling(k, 2 + i // 2 % 3) for i, k in enumerate(ks)],
    )

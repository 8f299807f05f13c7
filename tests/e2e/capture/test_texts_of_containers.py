"""Lists, tuples and dicts of numbers that vary, printed and made text of."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.two_worlds import World, call, check


class Own:
    """An object with a text of its own."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"<{self.number:.2f}>"


def round_about(a: float) -> list[Any]:
    items: list[Any] = [a]
    items.append({"itself": items, "pair": (a, items)})
    return items


MADE: dict[str, Callable[[float], Any]] = {
    "a dict": lambda a: {"loss": a, "half": a / 2, "n": 1},
    "a dict of names": lambda a: {"loss": f"{a:.3f}", 7: "it's"},
    "a list": lambda a: [a, -a, "text", None, True],
    "a tuple": lambda a: (a, 2),
    "a tuple of one": lambda a: (a,),
    "nested": lambda a: {"all": [a, (a, {"b": a})], "none": {}},
    "none": lambda a: [[], {}, (), [()]],
    "round about": round_about,
    "rounded": lambda a: [round(a, 2), int(a)],
    "an object": lambda a: [Own(a), {"own": Own(a)}],
    "a text": lambda a: ["it's", 'a "text"', b"bytes", "\n"],
    "of numpy's": lambda a: [np.exp(-abs(a))],
    "of a size": lambda a: [torch.ones(3).shape, torch.float32],
    "many": lambda a: [a * i for i in range(20)],
}
TOLD: dict[str, Callable[[Any], Any]] = {
    "printed": lambda made: print(made),
    "printed after others": lambda made: print("at", 1, made, made, sep="|"),
    "str": lambda made: str(made),
    "repr": lambda made: repr(made),
    "in a text": lambda made: f"{made}",
}


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("made", MADE)
def test_texts_are_those_of_eager(made, told):
    def make() -> World:
        world = World()
        world.total, world.log = 0.0, []

        def program(x: torch.Tensor) -> torch.Tensor:
            world.total += x.sum().item()
            world.log.append(TOLD[told](MADE[made](world.total)))
            return x + 1

        world.program = program
        return world

    def step(seed: int) -> Any:
        def take(world: World, program: Any) -> Any:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                got = call(seed)(world, program)
            return got, out.getvalue(), world.log

        return take

    hits = check(make, *map(step, range(6)))
    is_item_by_item = told in ("printed", "printed after others", "str", "repr")
    if is_item_by_item and made in ("a dict", "a list", "a tuple", "nested"):
        assert hits == 4


def test_a_list_of_the_state_that_holds_what_the_run_made():
    def make() -> World:
        world = World()
        world.kept = [1.0, [2.0]]

        def program(x: torch.Tensor) -> Any:
            world.kept[0] = x.sum().item()
            print(world.kept)
            return x, str(world.kept)

        world.program = program
        return world

    def step(seed: int) -> Any:
        def take(world: World, program: Any) -> Any:
            world.kept[1].append(seed)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                got = call(seed)(world, program)
            return got, out.getvalue(), world.kept

        return take

    check(make, *map(step, range(8)))

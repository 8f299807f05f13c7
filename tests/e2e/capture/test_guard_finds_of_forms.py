"""What the fuzzer of guards found of arrays, keys, layouts and warnings.

Each is called with an eager twin in a world of its own; tools/guard_fuzz.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from e2e.capture.two_worlds import World, check


def called(text: str) -> Any:
    """Returns the result, or the class of what it raises."""

    def step(world: Any, fn: Any) -> Any:
        if text:
            exec(text, {"torch": torch, "W": world, **vars(world)})
        try:
            return fn(torch.tensor([1.0, 2.0, 3.0]))
        except Exception as error:
            return type(error).__name__

    return step


CALL = called("")


def asking(query: str, world: Any, names: dict[str, Any]) -> Any:
    """Gives the world a program whose result depends on the query."""
    exec(f"def program(x):\n    return x * (2.0 if {query} else 3.0)", names)
    world.program = names["program"]
    return world


@pytest.mark.parametrize(
    "first, second",
    [
        ("ARR.flat = 3", "ARR[0] = 6"),
        ("ARR.real = 3", "ARR.flat = 6"),
        ("setattr(ARR, 'flat', 3)", "ARR[:] = 6"),
        ("ARR.flat = len(torch.zeros(3))", "ARR.flat[0] = 6"),
        ("ARR.T.flat = 3", "ARR.fill(6)"),
    ],
)
def test_an_array_whose_attributes_are_set_and_a_tensor_of_its_memory(
    first: str, second: str
) -> None:
    def make() -> Any:
        world: Any = World()
        world.array = numpy.array([1.0, 2.0, 3.0], "f")
        names: dict[str, Any] = {
            "torch": torch,
            "ARR": world.array,
            "SHARED": torch.from_numpy(world.array),
        }
        exec(
            f"def program(x):\n    {first}\n    y = x + SHARED\n"
            f"    {second}\n    return y + SHARED",
            names,
        )
        world.program = names["program"]
        return world

    check(make, *[CALL] * 5)


@pytest.mark.parametrize(
    "query",
    [
        "(S, 1) in D",
        "D[(S, 1)] == 2",
        "D.get((S, 1), 0) == 2",
        "((S,), 1) in {((S,), 1)}",
        "len({(S, 1), (S, 1)}) == 1",
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        "Base.__hash__ = None",
        "Child.__hash__ = lambda self: 0",
        "Child.__eq__ = lambda self, other: False",
    ],
)
def test_the_class_of_what_is_in_a_key(query: str, change: str) -> None:
    def make() -> Any:
        world: Any = World()
        world.Base = type("Base", (), {})
        world.Child = type("Child", (world.Base,), {})
        one = world.Child()
        names: dict[str, Any] = {"S": one, "D": {(one, 1): 2}}
        return asking(query, world, names)

    assert check(make, CALL, CALL, CALL, called(change), CALL) >= 1


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "sparse": lambda: torch.tensor([1.0, -2.0, 3.0]).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "mkldnn": lambda: torch.ones(2, 3).to_mkldnn(),
    "nested": lambda: torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)]
    ),
    "meta": lambda: torch.ones(3, device="meta"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "query", ["T[0].requires_grad", "T[0].numel() > 3", "T[0].dim() == 2"]
)
@pytest.mark.parametrize(
    "change",
    [
        "T[0].requires_grad = True",
        "T[0] = torch.cat((T[0], T[0])) if T[0].layout is torch.sparse_coo"
        " else T[0].clone().requires_grad_()",
        "T[0] = torch.ones(5)",
    ],
)
def test_tensors_of_other_layouts(layout: str, query: str, change: str) -> None:
    def make() -> Any:
        world: Any = World()
        world.T = [LAYOUTS[layout]()]
        names: dict[str, Any] = {"T": world.T}
        return asking(query, world, names)

    check(make, CALL, CALL, CALL, called(change), CALL, CALL)


@pytest.mark.parametrize(
    "query",
    [
        "isinstance(T[0], torch.FloatTensor)",
        "isinstance(T[0], (int, torch.FloatTensor))",
        "torch._C._any_requires_grad(T[0])",
        "T[0].storage_offset() == 0",
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        "T[0].data = T[0].data.double()",
        "T[0].data = torch.ones(9)[3:6]",
        "T[0].requires_grad_()",
    ],
)
def test_more_of_a_tensor_than_its_class(query: str, change: str) -> None:
    def make() -> Any:
        world: Any = World()
        world.T = [torch.ones(3)]
        names: dict[str, Any] = {"T": world.T, "torch": torch}
        return asking(query, world, names)

    assert check(make, CALL, CALL, CALL, called(change), CALL, CALL) >= 1


def test_a_correction_that_torch_warns_of() -> None:
    def make() -> Any:
        world: Any = World()
        world.k = 0
        world.program = lambda x: x.sum(0, keepdim=True).std(correction=world.k)
        return world

    def step(k: int) -> Any:
        def warned(world: Any, fn: Any) -> Any:
            world.k = k
            # As errors, torch would keep them, and the frames.
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                return CALL(world, fn), len(given)

        return warned

    assert check(make, *map(step, (0, 0, 0, 1, 0, 1))) >= 1

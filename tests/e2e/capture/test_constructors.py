"""What makes a class's objects is a fact for programs that make some."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import torch

import mica


def _patch(cls: Any) -> None:
    made = cls.__init__

    def patched(self: Any, *args: Any) -> None:
        made(self, *args)
        self.value = 5

    cls.__init__ = patched


def test_another_constructor_concerns_no_program_that_makes_no_object():
    class Holder:
        def __init__(self) -> None:
            self.value = 2

    holder = Holder()
    fn = mica.compile(lambda x: x * holder.value)
    for _ in range(3):
        assert fn(torch.ones(1)).item() == 2
    captures = mica.explain(fn).captures
    _patch(Holder)
    assert fn(torch.ones(1)).item() == 2
    assert mica.explain(fn).captures == captures


def test_it_concerns_one_that_makes_some():
    class Holder:
        def __init__(self) -> None:
            self.value = 2

    fn = mica.compile(lambda x: x * Holder().value)
    for _ in range(3):
        assert fn(torch.ones(1)).item() == 2
    _patch(Holder)
    for _ in range(3):
        assert fn(torch.ones(1)).item() == 5


def test_it_concerns_one_that_asks_for_it():
    class Holder:
        def __init__(self) -> None:
            self.value = 2

    first = Holder.__init__
    holder = Holder()

    def by_class(x: torch.Tensor) -> torch.Tensor:
        return x * (2 if Holder.__init__ is first else 3)

    def by_name(x: torch.Tensor) -> torch.Tensor:
        method = getattr(holder, "__init__")  # noqa: B009
        return x * (2 if method.__func__ is first else 3)

    def by_dict(x: torch.Tensor) -> torch.Tensor:
        return x * (2 if vars(Holder)["__init__"] is first else 3)

    functions = [mica.compile(f) for f in (by_class, by_name, by_dict)]
    for _ in range(3):
        assert [fn(torch.ones(1)).item() for fn in functions] == [2, 2, 2]
    _patch(Holder)
    for _ in range(3):
        assert [fn(torch.ones(1)).item() for fn in functions] == [3, 3, 3]


def test_one_that_is_set_in_the_program_is_set():
    class Holder:
        def __init__(self) -> None:
            self.value = 2

    def other(self: Any) -> None:
        self.value = 7

    def program(x: torch.Tensor) -> torch.Tensor:
        Holder.__init__ = other  # type: ignore[method-assign]
        return x * 2

    first = Holder.__init__
    fn = mica.compile(program)
    for _ in range(4):
        Holder.__init__ = first  # type: ignore[method-assign]
        fn(torch.ones(1))
        assert Holder.__init__ is other


_BESIDE_DYNAMO = """
import mica, torch
from torch import nn
net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
fn = mica.compile(net)
with torch.no_grad():
    for _ in range(3):
        fn(torch.ones(1, 2))
    before = mica.explain(fn).captures
    torch.compile(lambda x: x * 2, backend="eager")(torch.ones(1))
    init = nn.Module.__init__.__qualname__
    assert "patched_init" in init, init
    fn(torch.ones(1, 2))
assert mica.explain(fn).captures == before, mica.explain(fn).details("misses")
"""


def test_the_first_call_of_torch_compile_costs_no_record():
    subprocess.run([sys.executable, "-c", _BESIDE_DYNAMO], check=True)

"""Equal texts and floats in the state are the objects that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica


def _text(text: str) -> str:
    return "".join(list(text))  # Another object each time.


class _Plain:
    """Has what a program returns in its class."""

    value: Any = None


class _Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None


def _in_class() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    class Holder(_Plain):
        pass

    return lambda: Holder.value, lambda v: setattr(Holder, "value", v)


def _in_class_of_instance() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    class Holder(_Plain):
        pass

    holder = Holder()
    return lambda: holder.value, lambda v: setattr(Holder, "value", v)


def _in_slot() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    holder = _Slotted()
    return lambda: holder.value, lambda v: setattr(holder, "value", v)


def _in_list() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    holder: list[Any] = [None, 1]
    return lambda: holder[0], lambda v: holder.__setitem__(0, v)


def _in_tuple() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    class Holder:
        values: Any = (None,)

    return lambda: Holder.values[0], lambda v: setattr(Holder, "values", (v,))


@pytest.mark.parametrize(
    "make", [_in_class, _in_class_of_instance, _in_slot, _in_list, _in_tuple]
)
@pytest.mark.parametrize("new", [lambda: _text("ab"), lambda: float("1.5")])
def test_an_equal_one_in_its_place_is_returned(make, new):
    find, put = make()
    fn = mica.compile(lambda x: (x * 2, find()))
    for _ in range(3):
        value = new()
        put(value)
        for _ in range(3):
            assert fn(torch.ones(2))[1] is value
    assert mica.explain(fn).hits > 0


def test_what_a_keyword_is_called_by_is_an_object():
    known = _text("scale")

    def program(x: torch.Tensor, **kwargs: int) -> Any:
        (name,) = kwargs
        return x * (2 if name is known else 3)

    fn = mica.compile(program)
    for name in (known, known, _text("scale"), known, _text("scale")):
        assert fn(torch.ones(1), **{name: 1}).item() == program(
            torch.ones(1), **{name: 1}
        )

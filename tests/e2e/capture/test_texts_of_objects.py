"""Texts that objects make of themselves, and items that Python code gives."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check


class Meter:
    """A running mean, as training scripts have one."""

    def __init__(self) -> None:
        self.value, self.sum, self.count = 0.0, 0.0, 0

    def update(self, value: float, count: int) -> None:
        self.value = value
        self.sum += value * count
        self.count += count

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.sum / self.count:.3f})"


class Shown(Meter):
    """Has no text but that of its repr()."""

    __str__ = object.__str__

    def __repr__(self) -> str:
        return f"Shown({self.sum:.2f}, {self.count})"


@dataclasses.dataclass
class Result:
    loss: float
    name: str = "train"


def make_of(kind: Any, program: Callable[..., Any]) -> Callable[[], Any]:
    def make() -> Any:
        world = World()
        world.meter = kind()
        world.program = lambda *args: program(world.meter, *args)
        return world

    return make


def calls(count: int, show: Any = None) -> list[Any]:
    """Steps whose arguments differ, with all that they print."""

    def call(value: float) -> Callable[[Any, Any], Any]:
        def step(world: Any, fn: Any) -> Any:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                result = fn(torch.full((2, 3), value))
            return result, printed.getvalue(), vars(world.meter)

        return step

    return [call(1.5 * i - 1) for i in range(count)]


def update(meter: Any, x: torch.Tensor) -> torch.Tensor:
    loss = (x * x).mean()
    meter.update(loss.item(), x.size(0))
    return loss


@pytest.mark.parametrize("kind", [Meter, Shown])
@pytest.mark.parametrize(
    "text",
    [
        str,
        repr,
        format,
        lambda meter: "\t".join(["a", *(str(m) for m in [meter, meter])]),
        lambda meter: "loss " + str(meter),
        lambda meter: f"{str(meter)!r}",
    ],
)
def test_texts_in_results(kind, text):
    if kind is Meter and text is repr:
        text = Meter.__str__  # Its repr() is an address.

    def program(meter, x):
        loss = update(meter, x)
        return loss * 2, text(meter)

    assert check(make_of(kind, program), *calls(7)) >= 4


@pytest.mark.parametrize("kind", [Meter, Shown])
@pytest.mark.parametrize(
    "show",
    [
        print,
        lambda meter: print("loss", meter),
        lambda meter: print(meter, 1.0, meter, sep=", ", end="!\n"),
        lambda meter: print(*[meter, "x"], sep="", flush=True),
        lambda meter: print(meter, None, 2, ""),
    ],
)
def test_objects_that_are_printed(kind, show):
    def program(meter, x):
        loss = update(meter, x)
        show(meter)
        return loss * 2

    assert check(make_of(kind, program), *calls(7)) >= 4


def test_a_text_that_is_aligned():
    def program(meter, x):
        loss = update(meter, x)
        return loss, f"{meter!s:>30}"

    check(make_of(Meter, program), *calls(7))


def test_a_text_that_is_looked_into():
    def program(meter, x):
        loss = update(meter, x)
        return loss * len(str(meter)), str(meter) == "1.000 (1.000)"

    check(make_of(Meter, program), *calls(7))


def test_another_way_to_make_text():
    def program(meter, x):
        loss = update(meter, x)
        print(meter)
        return loss, str(meter)

    def change(world: Any, fn: Any) -> None:
        kind = type(world.meter)
        kind.__str__ = lambda self: f"now {self.sum:.1f}"

    def make() -> Any:
        return make_of(type("Own", (Meter,), {}), program)()

    assert check(make, *calls(5), change, *calls(5)) >= 4


def test_a_text_that_counts_how_often_it_was_made():
    class Counting(Meter):
        def __str__(self) -> str:
            self.count += 1
            return f"{self.count}"

    def program(meter, x):
        loss = update(meter, x)
        print(meter, meter)
        return loss

    check(make_of(Counting, program), *calls(7))


def test_texts_that_raise_or_print():
    class Telling(Meter):
        def __str__(self) -> str:
            print("making")
            if self.sum > 30:
                raise ValueError("too large")
            return "text"

    def program(meter, x):
        loss = update(meter, x)
        with contextlib.suppress(ValueError):
            print("before", meter, "after")
        return loss

    check(make_of(Telling, program), *calls(7))


class Mode(enum.IntEnum):
    TRAIN = 1


class Word(str, enum.Enum):  # noqa: UP042
    ONE = "one"


class Row(list):  # type: ignore[type-arg]
    def __str__(self) -> str:
        return "row"


@pytest.mark.parametrize("shown", [Mode.TRAIN, Word.ONE, Row([1]), Meter])
def test_objects_of_other_kinds_that_are_printed(shown):
    def program(meter, x):
        loss = update(meter, x)
        print(shown, meter, x.sum().item())
        print(meter, shown, [shown])
        return loss, str(shown), f"{shown}"

    check(make_of(Meter, program), *calls(5))


@pytest.mark.parametrize(
    "named",
    [{"sep": 1}, {"end": 2.0}, {"wrong": 1}, {"sep": None, "end": None}],
)
def test_odd_ways_to_print(named):
    def program(meter, x):
        loss = update(meter, x)
        try:
            print(meter, meter, **named)
        except TypeError as error:
            return loss, str(error)
        return loss

    check(make_of(Meter, program), *calls(5))


def test_dataclasses():
    def program(meter, x):
        loss = update(meter, x)
        return loss, str(Result(loss.item())), f"{Result(1.0)}"

    check(make_of(Meter, program), *calls(6))


class Sum:
    def __init__(self) -> None:
        self.seen: list[int] = []


@pytest.mark.parametrize(
    "program",
    [
        lambda state, x: torch.maximum(*(t * 2 for t in (x, x + 1))),
        lambda state, x: torch.maximum(*map(torch.sin, (x, x * 2))),
        lambda state, x: torch.where(
            *(x > 0 if i == 0 else x for i in range(3))
        ),
        lambda state, x: torch.cat(*([x, x] for _ in range(1)), dim=1),
        lambda state, x: torch.cat(*filter(None, [[x, x], []]), **{"dim": 0}),
        lambda state, x: torch.add(*(x for _ in range(2)), alpha=2),
        lambda state, x: x.reshape(*(d for d in (3, 2))),
        lambda state, x: x.permute(*reversed(range(x.dim()))),
        lambda state, x: max(*(t.shape[0] for t in (x, x))) * x,
        lambda state, x: torch.atleast_2d(*iter([x, x])),
        lambda state, x: dict(*([(k, x)] for k in "a")),
        lambda state, x: next(zip(*(row for row in [[x], [x + 1]]))),
        lambda state, x: print(*(i for i in range(3)), sep="-") or x,
    ],
)
def test_items_that_python_code_gives(program):
    assert check(make_of(Sum, program), *calls(4)) >= 2


def test_items_that_change_state_or_raise():
    def items(state, x):
        for i in range(2):
            state.seen.append(i)
            yield x + i
            if len(state.seen) > 6:
                raise RuntimeError("enough")

    def program(state, x):
        try:
            return torch.maximum(*items(state, x))
        except (RuntimeError, TypeError) as error:
            return str(error)

    check(make_of(Sum, program), *calls(7))


def test_what_is_no_iterable():
    def program(state, x):
        try:
            return torch.maximum(*x.size(0))
        except TypeError as error:
            return str(error)

    check(make_of(Sum, program), *calls(3))

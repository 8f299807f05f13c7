"""Lists and deques that a program adds to and reads in the same call."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import (
    Body,
    Step,
    World,
    call,
    check,
    with_grad,
    world,
)
from e2e.capture.two_worlds import drawn as x
from torch import Tensor, nn

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


def calls(count: int) -> list[Step]:
    return [call(seed) for seed in range(count)]


def mean(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    return sum(w.losses) / len(w.losses), a * 2


def extremes(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    return max(w.losses), min(w.losses), len(w.losses), sum(w.losses)


def whole_numbers(w: Any, a: Tensor) -> Any:
    w.losses.append(int(a.sum().item() * 10))
    return sum(w.losses), len(w.losses), w.losses[-1]


def last(w: Any, a: Tensor) -> Any:
    w.losses.append(a.mean().item())
    return a * w.losses[-1] if w.losses else a


def last_tensor(w: Any, a: Tensor) -> Any:
    w.losses.append(a.relu())
    return w.losses[-1] * 2, len(w.losses)


def change(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    return w.losses[-1] - w.losses[-2] if len(w.losses) > 1 else 0.0


def window(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    recent = w.losses[-3:]
    return recent, sum(recent) / len(recent)


def first(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    return w.losses[-1] - w.losses[0]


def two_at_once(w: Any, a: Tensor) -> Any:
    w.losses.extend([a.sum().item(), a.mean().item()])
    return sum(w.losses) / len(w.losses), w.losses[-2:]


def read_twice(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    before = sum(w.losses)
    w.losses.append(a.mean().item())
    return before, sum(w.losses) / len(w.losses), max(w.losses)


def told(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    return f"{sum(w.losses) / len(w.losses):.4f} {w.losses[-1]:.3f}"


def smoothed(w: Any, a: Tensor) -> Any:
    value = a.sum().item()
    w.losses.append(value if not w.losses else 0.9 * w.losses[-1] + 0.1 * value)
    return w.losses[-1]


def counted_before(w: Any, a: Tensor) -> Any:
    count = len(w.losses)
    w.losses.append(a.sum().item())
    return count, a * count


@pytest.mark.parametrize(
    ("body", "most"),
    [
        (mean, 3),
        (extremes, 6),
        (whole_numbers, 3),
        (last, 1),
        (last_tensor, 1),
        (change, 4),
        (window, 5),
        (two_at_once, 3),
        (read_twice, 5),
        (told, 3),
        (smoothed, 4),
        (counted_before, 3),
    ],
)
def test_one_record_serves_a_list_of_any_length(body: Body, most: int) -> None:
    count = 12
    assert check(world(body, losses=[]), *calls(count)) >= count - most


def test_the_first_item_of_a_list() -> None:
    def other(w: Any, program: Any) -> Any:
        w.losses[0] = 5.0
        return program(x(1))

    steps = [*calls(5), other, *calls(3)]
    assert check(world(first, losses=[1.0]), *steps) >= 7
    check(world(first, losses=[]), *steps)


def test_a_deque_that_drops_what_is_too_much() -> None:
    for bound in (1, 3):
        make = world(mean, losses=deque(maxlen=bound))
        assert check(make, *calls(8)) >= 5
    assert check(world(extremes, losses=deque()), *calls(8)) >= 3


def cleared(w: Any, program: Any) -> Any:
    w.losses.clear()
    return program(x(7))


def replaced(w: Any, program: Any) -> Any:
    w.losses = []
    return program(x(7))


def bounded(w: Any, program: Any) -> Any:
    w.losses = deque([1.0], maxlen=2)
    return program(x(7))


def of_ints(w: Any, program: Any) -> Any:
    w.losses[:] = [1, 2, 3]
    return program(x(3))


def with_nan(w: Any, program: Any) -> Any:
    w.losses.append(float("nan"))
    return program(x(3))


def with_infinity(w: Any, program: Any) -> Any:
    w.losses[:] = [float("inf"), -0.0]
    return program(x(3))


def with_bools(w: Any, program: Any) -> Any:
    w.losses[:] = [True, 2.0]
    return program(x(3))


@pytest.mark.parametrize("body", [mean, extremes, window, smoothed])
def test_lists_that_others_change_between_calls(body: Body) -> None:
    steps: list[Step] = []
    for other in (cleared, of_ints, with_nan, with_infinity, with_bools):
        steps += [*calls(3), other]
    check(world(body, losses=[]), *steps, *calls(3), replaced, *calls(4))


def test_another_container_in_its_place() -> None:
    steps = [*calls(3), replaced, *calls(3), bounded, *calls(4), replaced]
    assert check(world(mean, losses=[]), *steps, *calls(3)) >= 5


def test_what_can_not_be_added_raises_as_in_eager() -> None:
    def text(w: Any, program: Any) -> Any:
        w.losses.append("a")
        with pytest.raises(TypeError):
            program(x(4))
        del w.losses[2:]
        return program(x(5))

    check(world(mean, losses=[]), *calls(4), text, *calls(3), text, *calls(2))


def test_two_names_for_one_list() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.losses.append(a.sum().item())
        w.others.append(a.mean().item())
        return sum(w.losses) / len(w.others)

    def make() -> Any:
        new = world(body, losses=[])()
        new.others = new.losses
        return new

    def part(w: Any, program: Any) -> Any:
        w.others = list(w.losses)
        return program(x(3))

    def join(w: Any, program: Any) -> Any:
        w.others = w.losses
        return program(x(3))

    check(make, *calls(4), part, *calls(3), join, *calls(3))


def test_exceptions_after_what_was_added() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.losses.append(a.sum().item())
        if w.fails:
            raise ValueError("no")
        return sum(w.losses)

    def fail(w: Any, program: Any) -> Any:
        w.fails = True
        with pytest.raises(ValueError, match="no"):
            program(x(0))
        w.fails = False
        return list(w.losses)

    steps = [*calls(3), fail, *calls(3), fail, *calls(3)]
    assert check(world(body, losses=[], fails=False), *steps) >= 3


def popped(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    if len(w.losses) > 3:
        w.losses.pop(0)
    return sum(w.losses) / len(w.losses)


def emptied(w: Any, a: Tensor) -> Any:
    mean = sum([*w.losses, a.sum().item()]) / (len(w.losses) + 1)
    w.losses.append(mean)
    if len(w.losses) >= 3:
        w.losses.clear()
    return mean


def of_tensors(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum())
    return sum(w.losses) / len(w.losses)


def stacked(w: Any, a: Tensor) -> Any:
    w.losses.append(a.clone())
    return torch.stack(list(w.losses)).mean(0)


def sized(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    return a.new_zeros(len(w.losses))


def walked(w: Any, a: Tensor) -> Any:
    w.losses.append(a.sum().item())
    return [value * 2 for value in w.losses]


@pytest.mark.parametrize(
    "body", [popped, emptied, of_tensors, stacked, sized, walked]
)
def test_other_uses_are_as_in_eager(body: Body) -> None:
    check(world(body, losses=[]), *calls(9))


def test_a_list_that_is_an_argument() -> None:
    def make() -> Any:
        new: Any = World()
        new.losses = []

        def program(a: Tensor, losses: list[float]) -> Any:
            losses.append(a.sum().item())
            return sum(losses) / len(losses)

        new.program = program
        return new

    def step(seed: int) -> Step:
        return lambda w, program: program(x(seed), w.losses)

    check(make, *map(step, range(6)))


def test_a_training_loop_that_stops_early() -> None:
    def step(w: Any, a: Tensor) -> Any:
        w.optimizer.zero_grad()
        loss = w.net(a).pow(2).mean()
        loss.backward()
        w.optimizer.step()
        w.losses.append(loss.item())
        recent = sum(w.losses[-5:]) / len(w.losses[-5:])
        if recent < w.best - 1e-3:
            w.best, w.waited = recent, 0
        else:
            w.waited += 1
        return recent, w.waited > 3, sum(w.losses) / len(w.losses)

    def make() -> Any:
        torch.manual_seed(0)
        state = {"losses": [], "best": float("inf"), "waited": 0}
        new = world(step, **state)()
        new.net = nn.Linear(4, 2)
        new.optimizer = torch.optim.SGD(new.net.parameters(), lr=0.1)
        return new

    assert check(make, *calls(40)) >= 24


def test_records_let_go_of_a_list_that_was_replaced() -> None:
    w = world(mean, losses=[])()
    compiled = mica.compile(w.program)
    for seed in range(60):
        if seed % 10 == 0:
            w.losses = []
        compiled(x(seed))
    assert len(mica.explain(compiled).graphs) <= 16


@pytest.mark.parametrize("added", [True, None, 2, "a", 1.0])
def test_items_of_other_kinds_are_read_as_they_are(added: Any) -> None:
    def before(w: Any, a: Tensor) -> Any:
        w.losses.append(w.flag)
        return a * (w.losses[-2] is True), w.losses[-2], w.losses[-1]

    def grown(w: Any, program: Any) -> Any:
        w.losses.append(added)
        return program(x(9))

    steps = [*calls(3), grown, *calls(2), grown, grown, *calls(2)]
    check(world(before, losses=[1.0], flag=False), *steps)


class Numbers:
    """What a program adds to, and looks for by identity."""

    items = [3.0]


def test_items_are_those_that_eager_meets():
    def program(t):
        Numbers.items.append(1.0)
        t = t + 1
        assert any(item is Numbers.items[0] for item in Numbers.items)
        return t

    Numbers.items = [3.0]
    compiled = mica.compile(program)
    for _ in range(4):
        compiled(torch.ones(3))
    assert Numbers.items == [3.0, 1.0, 1.0, 1.0, 1.0]

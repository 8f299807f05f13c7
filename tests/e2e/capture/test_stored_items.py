"""Arrays of numpy's that are written and read by index: replay buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.test_drawn_arrays import plain
from e2e.capture.two_worlds import Step, check, with_grad, world
from torch import Tensor

_grad = pytest.fixture(autouse=True)(with_grad)

Body = Callable[[Any, Tensor], Any]


def advance(w: Any, by: int = 1) -> int:
    at = int(w.at)
    w.at = (w.at + by) % 8
    return at


def a_row(w: Any, x: Tensor) -> Any:
    w.rows[advance(w)] = x.numpy()
    return x * 2


def a_row_of_a_tensor(w: Any, x: Tensor) -> Any:
    w.rows[advance(w)] = x
    return x * 2


def a_number(w: Any, x: Tensor) -> Any:
    at = advance(w)
    w.row[at] = w.rate
    w.whole[at] = at * 3
    w.wide[at] = w.rate
    return x * 2


def a_number_at_one_place(w: Any, x: Tensor) -> Any:
    w.row[2] = w.rate
    w.rows[-1, 1] = w.rate
    w.whole[3] = w.at
    w.flags[1] = True
    return x * 2


def what_is_the_same_for_long(w: Any, x: Tensor) -> Any:
    at = advance(w)
    w.flags[at] = False
    w.whole[at] = 0
    return x * 2


def several_rows(w: Any, x: Tensor) -> Any:
    at = advance(w, by=2)
    w.rows[at : at + 2] = x.numpy()
    w.wide[at : at + 2] = w.rate
    return x * 2


def parts(w: Any, x: Tensor) -> Any:
    w.rows[:, 1] = w.row
    w.rows[3, :2] = x.numpy()[:2]
    w.wide[...] = x.sum().numpy()
    w.rows[0:4:2] = 1
    return x * 2


def over_itself(w: Any, x: Tensor) -> Any:
    w.rows[1:] = w.rows[:-1]
    w.rows[0] = x.numpy()
    return x + torch.from_numpy(w.rows.copy()).sum(0)


def through_a_view(w: Any, x: Tensor) -> Any:
    row = w.rows[2]
    row[1:] = x.numpy()[1:]
    w.rows.T[0] = w.row
    return x * 2


def by_places(w: Any, x: Tensor) -> Any:
    at = np.random.randint(0, 8, 3)
    w.row[at] = x.abs().numpy()
    w.rows[at] = x.numpy()
    w.wide[at] = w.rate
    return x * 2


def by_a_mask(w: Any, x: Tensor) -> Any:
    w.row[:3] = x.numpy()
    w.three[(x > 0).numpy()] = 0.0
    w.three[(x < -0.5).numpy()] = w.rate
    return x + torch.from_numpy(w.three.copy())


def taken(w: Any, x: Tensor) -> Any:
    at = np.random.randint(0, 8, 4)
    return torch.from_numpy(w.rows[at]) * x, torch.as_tensor(w.whole[at])


def stored_and_taken(w: Any, x: Tensor) -> Any:
    at = advance(w)
    w.rows[at] = x.numpy()
    w.row[at] = w.rate
    w.whole[at] = at
    w.filled = min(w.filled + 1, 8)
    chosen = np.random.randint(0, w.filled, size=4)
    rewards = torch.as_tensor(w.row[chosen])
    return (
        torch.as_tensor(w.rows[chosen]).sum(1) * rewards,
        torch.from_numpy(w.whole[chosen]),
        torch.as_tensor(w.flags[chosen].astype(np.float32)),
    )


def in_a_dict(w: Any, x: Tensor) -> Any:
    at = advance(w)
    for name in ("a", "b"):
        w.store[name][at] = x.numpy() * 2
    return torch.from_numpy(w.store["b"].copy()) + x


def of_a_tensor(_: Any, x: Tensor) -> Any:
    y = x.clone()
    y.numpy()[0] = 7
    y.numpy()[1:] = x.numpy()[:2]
    return x + y, y


def trained_on(w: Any, x: Tensor) -> Any:
    at = advance(w)
    w.rows[at] = x.numpy()
    w.row[at] = w.rate
    chosen = np.random.randint(0, 8, size=4)
    goal = torch.as_tensor(w.row[chosen])
    loss = ((torch.as_tensor(w.rows[chosen]) @ w.weight - goal) ** 2).mean()
    w.weight.grad = None
    loss.backward()
    with torch.no_grad():
        w.weight -= 0.1 * w.weight.grad
    return loss.item()


BODIES = [
    a_row,
    a_row_of_a_tensor,
    a_number,
    a_number_at_one_place,
    what_is_the_same_for_long,
    several_rows,
    parts,
    over_itself,
    through_a_view,
    by_places,
    by_a_mask,
    taken,
    in_a_dict,
    of_a_tensor,
    trained_on,
]


def state() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "at": 0,
        "filled": 0,
        "rate": 0.5,
        "row": np.zeros(8, np.float32),
        "rows": rng.normal(size=(8, 3)).astype(np.float32),
        "wide": np.zeros(8, np.float64),
        "whole": np.arange(8),
        "flags": np.zeros(8, np.bool_),
        "three": np.zeros(3, np.float32),
        "store": {"a": np.zeros((8, 3)), "b": np.zeros((8, 3), np.float32)},
        "weight": torch.ones(3, requires_grad=True),
    }


def left(w: Any) -> Any:
    names = ("row", "rows", "wide", "whole", "flags", "three", "at", "rate")
    return [
        *(plain(getattr(w, name)) for name in names),
        *map(plain, w.store.values()),
        w.weight.detach().clone(),
    ]


def step_of(seed: int) -> Step:
    """A call; and what it left."""

    def step(w: Any, program: Any) -> Any:
        np.random.seed(seed)
        w.rate = 0.25 * seed - 1
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        try:
            result = plain(program(x))
        except (IndexError, ValueError) as error:
            result = str(error)
        return result, left(w), x, np.random.rand()

    return step


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("body", BODIES)
def test_arrays_are_written_and_taken_from_in_a_graph(
    body: Body, exact: bool
) -> None:
    steps = map(step_of, range(16))
    assert check(world(body, **state()), *steps, exact=exact) >= 8


def test_a_buffer_that_fills_is_one_graph() -> None:
    assert check(world(stored_and_taken, **state()), *map(step_of, range(24)))


def test_what_others_write_is_what_the_next_call_finds() -> None:
    def write(w: Any, _: Any) -> None:
        w.rows[:] = 7.0
        w.row[4] = 3.0

    def replace(w: Any, _: Any) -> None:
        w.rows = np.full((8, 3), 2.0, np.float32)

    def resize(w: Any, _: Any) -> None:
        w.rows = np.full((9, 3), 2.0, np.float64)

    for other in (write, replace, resize):
        steps = [*map(step_of, range(8)), other, *map(step_of, range(8, 12))]
        check(world(taken, **state()), *steps)
        check(world(stored_and_taken, **state()), *steps)


def test_an_index_beyond_the_end_raises_numpys_error() -> None:
    def body(w: Any, x: Tensor) -> Any:
        w.row[w.at] = w.rate
        w.at += 1
        return x * 2

    check(world(body, **state()), *map(step_of, range(12)))


@pytest.mark.parametrize(
    "value",
    [1e300, float("nan"), float("inf"), 2**60, -0.0, True, np.float32(0.1)],
)
def test_numbers_of_all_kinds_are_stored_as_numpy_does(value: Any) -> None:
    def body(w: Any, x: Tensor) -> Any:
        w.row[w.at] = w.value
        w.wide[w.at] = w.value
        return x * 2

    def with_value(seed: int) -> Step:
        def step(w: Any, program: Any) -> Any:
            w.value = value if seed % 3 == 2 else 0.5 * seed
            with np.errstate(all="ignore"):
                return step_of(seed)(w, program)

        return step

    check(world(body, value=0.5, **state()), *map(with_value, range(12)))


@pytest.mark.parametrize("value", [1.9, -1.9, 300.0, 2**40])
def test_numbers_are_cut_to_whole_ones_as_numpy_does(value: Any) -> None:
    def body(w: Any, x: Tensor) -> Any:
        w.whole[w.at] = w.rate * value
        w.flags[w.at] = w.rate
        return x * 2

    check(world(body, **state()), *map(step_of, range(8)))


def test_an_arrays_argument_is_written_in_place() -> None:
    def make() -> Any:
        return world(lambda _, x: x, **state())()

    def program(row: Any, at: int, x: Tensor) -> Any:
        row[at] = x[0]
        row[1] = 2.5
        return torch.from_numpy(row.copy()) * x[0]

    def make_with_rows() -> Any:
        new = make()
        new.program = program
        return new

    def step_at(at: int) -> Step:
        def step(_: Any, compiled: Any) -> Any:
            row = np.arange(4, dtype=np.float32)
            result = compiled(row, at % 4, torch.arange(3.0) + at)
            return result, plain(row)

        return step

    assert check(make_with_rows, *map(step_at, range(8))) >= 5


def test_two_arrays_of_one_memory_are_written_as_in_eager() -> None:
    def body(w: Any, x: Tensor) -> Any:
        w.rows[w.at] = x.numpy()
        w.at = (w.at + 1) % 8
        return torch.from_numpy(w.view.copy()) + x

    def make() -> Any:
        new = world(body, **state())()
        new.view = new.rows[2:5]
        return new

    check(make, *map(step_of, range(10)))


def test_arrays_that_may_not_be_written_raise_as_in_eager() -> None:
    def make() -> Any:
        new = world(a_row, **state())()
        new.rows.flags.writeable = False
        return new

    check(make, *map(step_of, range(6)))


def test_what_numpy_writes_leaves_versions_alone() -> None:
    def body(w: Any, x: Tensor) -> Any:
        y = (w.weight * x).detach().clone()
        loss = (w.weight * y).sum()
        y.numpy()[0] = 3.0
        w.weight.grad = None
        loss.backward()
        return w.weight.grad

    assert check(world(body, **state()), *map(step_of, range(8))) >= 5


def test_drawn_and_passed_arrays_are_written() -> None:
    def body(_: Any, x: Tensor) -> Any:
        noise = np.random.randn(3)
        noise[0] = 0.0
        noise[1:] = noise[:-1]
        shown = x.numpy()
        shown[0] = 5
        return torch.from_numpy(noise) * x, noise

    assert check(world(body, **state()), *map(step_of, range(8))) >= 5


def test_a_view_that_is_left_shows_what_is_written() -> None:
    def body(w: Any, x: Tensor) -> Any:
        row = w.rows[advance(w)]
        row[:] = x.numpy()
        w.last = row
        return x * 2

    check(world(body, **state()), *map(step_of, range(10)))


def test_what_is_taken_is_a_copy() -> None:
    def body(w: Any, x: Tensor) -> Any:
        at = np.random.randint(0, 8, 2)
        w.rows[at] = 1.5
        taken = w.rows[at]
        taken[0] = 9
        return taken, at, w.rows[at].sum(1), x

    assert check(world(body, **state()), *map(step_of, range(8)), exact=False)


def test_other_arrays_and_aliases_between_calls() -> None:
    def body(w: Any, x: Tensor) -> Any:
        w.rows[advance(w)] = x.numpy()
        return torch.from_numpy(w.view.copy()).sum() * x

    def put(make_view: Callable[[Any], Any]) -> Step:
        def step(w: Any, _: Any) -> None:
            w.view = make_view(w)

        return step

    def other_order(w: Any, _: Any) -> None:
        w.rows = np.asfortranarray(w.rows)

    steps = [put(lambda _: np.ones(3)), *map(step_of, range(6))]
    steps += [put(lambda w: w.rows[1:]), *map(step_of, range(6, 9))]
    steps += [put(lambda w: w.rows), step_of(9), other_order, step_of(10)]
    steps += [put(lambda _: np.zeros(2)), step_of(11), step_of(12)]
    check(world(body, **state()), *steps)

"""Items of tables by an index that varies: `rates[step]`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.two_worlds import Step, call, check, drawn, world

RATES = [0.01 * i * i for i in range(100)]
Body = Callable[[Any, torch.Tensor], Any]


def advance(w: Any) -> int:
    w.step += 1
    return int(w.step)


def of_a_list(w: Any, x: torch.Tensor) -> Any:
    w.rate = w.rates[advance(w)]
    return x * w.rate


def of_one_in_a_dict(w: Any, x: torch.Tensor) -> Any:
    at = advance(w) - 1
    return x * w.config["rates"][at] + w.config["pair"][1][at]


def by_arithmetic(w: Any, x: torch.Tensor) -> Any:
    at = advance(w)
    return x * w.rates[(at * 3 + 1) % len(w.rates)] + w.rates[-at]


def of_an_item(w: Any, x: torch.Tensor) -> Any:
    at = w.order[advance(w) % 4]
    return x * w.rates[at]


def that_goes_on(w: Any, x: torch.Tensor) -> Any:
    rate = w.rates[advance(w)]
    w.sum += float(rate) * 2
    if rate > 0.1:
        x = x + 1
    return x * (1 - rate) / (rate + 1), w.sum


def by_a_draw(w: Any, x: torch.Tensor) -> Any:
    return x * w.rates[random.randrange(50)]


def in_an_optimizer(w: Any, x: torch.Tensor) -> Any:
    for group in w.groups:
        group["lr"] = w.rates[w.step]
        x = x - group["lr"] * x
    advance(w)
    return x


def state() -> dict[str, Any]:
    return {
        "step": 0,
        "sum": 0.0,
        "rate": None,
        "rates": list(RATES),
        "order": [3, 1, 2, 0],
        "config": {"rates": tuple(RATES), "pair": (0, RATES[::-1])},
        "groups": [{"lr": 0.0}, {"lr": 1.0}],
    }


BODIES = [
    of_a_list,
    of_one_in_a_dict,
    by_arithmetic,
    of_an_item,
    that_goes_on,
    by_a_draw,
    in_an_optimizer,
]


def left(seed: int) -> Step:
    """A call; and what it left in the state."""

    def step(w: Any, program: Any) -> Any:
        random.seed(seed)
        result = program(drawn(seed))
        return result, w.step, w.rate, w.sum, list(w.rates), w.groups

    return step


@pytest.mark.parametrize("kind", ["list", "tuple", "array"])
@pytest.mark.parametrize("body", BODIES)
def test_one_record_serves_all_items(body: Body, kind: str) -> None:
    names = state()
    rates = names["rates"]
    names["rates"] = (
        np.array(rates)
        if kind == "array"
        else tuple(rates)
        if kind == "tuple"
        else rates
    )
    if kind == "array" and body is by_arithmetic:
        names["config"]["rates"] = np.array(RATES)
    # Where numpy's float64 is compared, two ways may be recorded.
    assert check(world(body, **names), *map(left, range(12))) >= 8


def put(**names: Any) -> Step:
    def step(w: Any, _: Any) -> None:
        vars(w).update(names)

    return step


def test_a_table_that_changed_is_read_as_it_is() -> None:
    def write(w: Any, _: Any) -> None:
        w.rates[w.step + 1] = 0.5

    def replace(w: Any, _: Any) -> None:
        w.rates = [0.25 + i for i in range(100)]

    def shorten(w: Any, _: Any) -> None:
        del w.rates[50:]

    steps = [*map(left, range(6)), write, left(6), replace, left(7), left(8)]
    steps += [shorten, left(9), put(rates=(1.0,) * 30), left(10), left(11)]
    steps += [put(rates=[1] * 30), left(12), left(13)]
    assert check(world(of_a_list, **state()), *steps) >= 6


@pytest.mark.parametrize(
    "value", [True, None, 2, float("nan"), float("inf"), 2**60, 2**70, "0.5"]
)
def test_an_item_of_another_kind_is_what_eager_finds(value: Any) -> None:
    def write(w: Any, _: Any) -> None:
        w.rates[w.step + 1] = value

    def attempt(seed: int) -> Step:
        def step(w: Any, program: Any) -> Any:
            try:
                return left(seed)(w, program)
            except (TypeError, RuntimeError, OverflowError) as error:
                return str(error)

        return step

    steps = [*map(attempt, range(6)), write, attempt(6), *map(attempt, (7, 8))]
    check(world(of_a_list, **state()), *steps)


def test_an_index_beyond_the_end_raises_what_eager_raises() -> None:
    def attempt(seed: int) -> Step:
        def step(w: Any, program: Any) -> Any:
            try:
                return program(drawn(seed)), w.step
            except IndexError as error:
                return str(error), w.step

        return step

    names = {**state(), "rates": RATES[:8]}
    assert check(world(of_a_list, **names), *map(attempt, range(12))) >= 4


def test_items_that_the_run_set_before_are_its_own() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        at = advance(w)
        w.rates[at] = 2.5
        return x * w.rates[at]

    check(world(body, **state()), *map(left, range(8)))


def test_items_that_the_run_sets_later_are_as_they_were() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        rate = w.rates[advance(w)]
        w.rates.append(rate * 2)
        w.rates[3] = float(w.step)
        return x * rate

    check(world(body, **state()), *map(left, range(8)))


def test_arrays_that_the_run_writes_are_read_as_they_are() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        at = advance(w)
        w.rates[at + 1] = w.rates[at] * 2 + 1
        return x * w.rates[at + 1]

    names = {**state(), "rates": np.array(RATES)}
    check(world(body, **names), *map(left, range(8)))


def test_sizes_from_a_table_are_served_or_run_eagerly() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        return x[:, : w.order[advance(w) % 4]] * 2

    check(world(body, **state()), *map(call, range(12)))


def test_tensors_and_modules_of_a_list_are_told_apart() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        return x * w.tensors[advance(w) % 3]

    tensors = [torch.tensor(float(i)) for i in range(3)]
    check(world(body, tensors=tensors, **state()), *map(call, range(9)))


def test_a_table_after_print_is_what_eager_reads() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        print("step", w.step)
        return x * w.rates[advance(w)]

    check(world(body, **state()), *map(left, range(8)))


def test_tables_that_other_containers_lead_to_may_be_replaced() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        at = advance(w)
        return x * w.config["pair"][1][at] + w.listed[0][at] + w.inner.table[at]

    def other_pair(w: Any, _: Any) -> None:
        w.config["pair"] = (0, [3.0 * i for i in range(100)])

    def other_contents(w: Any, _: Any) -> None:
        w.config["pair"][1][:] = [2.0] * 50

    def other_item(w: Any, _: Any) -> None:
        w.listed[0] = [5.0 * i for i in range(100)]

    def other_owner(w: Any, _: Any) -> None:
        w.inner = type(w)()
        w.inner.table = np.arange(100.0) * 7

    def other_array(w: Any, _: Any) -> None:
        w.inner.table = np.arange(100.0) * 9

    def make() -> Any:
        new = world(body, listed=[list(RATES)], **state())()
        new.inner = type(new)()
        new.inner.table = np.arange(100.0)
        return new

    steps = [*map(left, range(5))]
    others = (other_pair, other_contents, other_item, other_owner, other_array)
    for number, other in enumerate(others):
        steps += [other, left(2 * number + 5), left(2 * number + 6)]
    assert check(make, *steps) >= 5


class Other:
    """Neither a number nor equal to one."""


@pytest.mark.parametrize(
    "table",
    [
        [10.0, 20.0, 0.0, 40.0, 2.0],
        [Other(), Other(), 1.0, 7.0, 4.0],
        (Other(), 5, 2, 3, "a"),
        [None, 5, 2, True, 1],
        np.array([3.0, 6.0, 0.0, 2.0]),
    ],
    ids=["numbers", "objects", "tuple", "mixed", "array"],
)
@pytest.mark.parametrize("negated", [False, True])
def test_whether_a_number_is_in_a_table_is_no_item_of_it(table, negated):
    def body(w: Any, x: torch.Tensor) -> Any:
        at = advance(w)
        found = at not in w.table if negated else at in w.table
        return x * (bool(found) + 1)

    check(world(body, table=table, **state()), *map(left, range(9)))


def test_whether_a_number_is_in_a_list_that_grows_is_no_item_of_it() -> None:
    def body(w: Any, x: torch.Tensor) -> Any:
        found = 2 in w.seen
        w.seen.append(advance(w) * 1.5)
        return x * (found + 1)

    check(world(body, seen=[], **state()), *map(left, range(9)))

"""Numbers that vary and are stored in tensors: `tensor[i] = number`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check, with_grad

_grad = pytest.fixture(autouse=True)(with_grad)

ROWS = torch.zeros(6, 4)
Body = Callable[[Any, torch.Tensor, Any], Any]


def one(w: Any, x: torch.Tensor, number: Any) -> Any:
    w.row[2] = number
    return x + w.row


def computed(w: Any, x: torch.Tensor, number: Any) -> Any:
    w.row[1] = number * 2 + 1
    w.row[3] = -number
    return x + w.row


def a_slice(w: Any, x: torch.Tensor, number: Any) -> Any:
    w.row[1:3] = number
    return x + w.row


def of_many_dims(w: Any, x: torch.Tensor, number: Any) -> Any:
    w.rows[1, 2] = number
    w.rows[:, 0] = number + 1
    w.rows[..., 3] = number
    return w.rows.sum(0) + x


def by_indices_and_masks(w: Any, x: torch.Tensor, number: Any) -> Any:
    w.row[[0, 2]] = number
    w.row[w.row > 1] = number * 3
    return x + w.row


def an_argument(_: Any, x: torch.Tensor, number: Any) -> Any:
    x[1] = number
    return x * 2


def a_new_one(_: Any, x: torch.Tensor, number: Any) -> Any:
    new = torch.zeros_like(x)
    new[1] = number
    return x * new


def one_that_is_tracked(_: Any, x: torch.Tensor, number: Any) -> Any:
    x = x.requires_grad_()
    y = x * 2
    y[1] = number
    (y * y).sum().backward()
    return x.grad


def of_a_ring(w: Any, x: torch.Tensor, number: Any) -> Any:
    w.row[w.at] = number
    w.at = (w.at + 1) % 4
    return x + w.row


BODIES = (
    one,
    computed,
    a_slice,
    of_many_dims,
    by_indices_and_masks,
    an_argument,
    a_new_one,
    one_that_is_tracked,
    of_a_ring,
)


def served(body: Body, dtype: torch.dtype, numbers: list[Any]) -> int:
    def make() -> Any:
        world: Any = World()
        world.row, world.rows = (t.to(dtype) for t in (ROWS[0], ROWS.clone()))
        world.row, world.at = world.row.clone(), 0
        world.program = lambda x, number: body(world, x, number)
        return world

    def call(at: int, number: Any) -> Any:
        x = torch.arange(4.0).add(at).to(dtype)

        def step(world: Any, program: Any) -> Any:
            mine = x.clone()
            try:
                result = program(mine, number)
            except RuntimeError as error:
                result = str(error)
            return result, mine.detach(), world.row, world.rows, world.at

        return step

    return check(make, *[call(at, n) for at, n in enumerate(numbers)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("body", BODIES)
def test_a_stored_number_varies(body: Body, dtype: torch.dtype) -> None:
    numbers = [0.5, 1.5, -2.25, 3.0, 0.1, 7.5, 1e-3, 2.0]
    assert served(body, dtype, numbers) >= 5
    assert served(body, dtype, [1, 4, 2, 9, -3, 5, 8, 6]) >= 5


@pytest.mark.parametrize(
    "body", [b for b in BODIES if b is not one_that_is_tracked]
)
def test_a_stored_int_varies(body: Body) -> None:
    numbers = [1, 4, 2, 9, -3, 5, 2**40, 6]
    assert served(body, torch.int64, numbers) >= 5


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int32, torch.bool]
)
def test_dtypes_that_are_not_followed_store_the_calls_number(
    dtype: torch.dtype,
) -> None:
    served(one, dtype, [1, 4, 2, 9, 0, 5, 8, 6])


def test_a_number_that_has_no_float32_raises_as_eager_does() -> None:
    assert served(one, torch.float32, [0.5, 1.5, 2.5, 1e300, 3.5, 0.25]) >= 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 2**60])
def test_extremes_are_stored_as_they_are(value: Any) -> None:
    numbers = [0.5, 1.5, value, 2.5, value, 0.25]
    served(one, torch.float64, numbers)
    served(one, torch.float32, numbers)


def test_an_attribute_of_an_older_tensor_holds_the_calls_number() -> None:
    def body(w: Any, x: torch.Tensor, number: Any) -> Any:
        w.row.scale = number
        return x * number, w.row.scale

    served(body, torch.float32, [0.5, 1.5, 2.5, 3.5, 4.5])

"""What a program leaves that is as long as its loops, and looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.looped_programs import make_rows

import mica

LENGTHS = (5, 7, 6, 9, 4, 3, 12, 6, 8, 7)


def _gone_through(x: torch.Tensor, item: Any) -> tuple[torch.Tensor, list[Any]]:
    total, items = x[0], []
    for row in x:
        total = torch.tanh(total + row)
        items.append(item)
    return total, items


def of_none(x: torch.Tensor) -> Any:
    """The rounds append what is no tensor."""
    return _gone_through(x, None)


def of_one_tensor(x: torch.Tensor) -> Any:
    """They append one tensor each time."""
    return _gone_through(x, x)


def of_rounds(x: torch.Tensor) -> Any:
    """They append their number."""
    total, numbers = x[0], []
    for i in range(x.shape[0]):
        total = torch.tanh(total + x[i])
        numbers.append(i)
    return total, numbers


def of_a_first_tensor(x: torch.Tensor) -> Any:
    """Only the first round appends a tensor."""
    total, items = x[0], []
    for i in range(x.shape[0]):
        total = torch.tanh(total + x[i])
        items.append(total if i == 0 else None)
    return total, items


def as_a_tuple(x: torch.Tensor) -> Any:
    """A constant that is as long as the loop."""
    return tuple(None for _ in range(len(x))), x.sum()


def in_other_constants(x: torch.Tensor) -> Any:
    """The same within another one."""
    return ("a", (tuple(None for _ in range(len(x))),)), x.sum()


def by_a_comprehension(x: torch.Tensor) -> Any:
    """A comprehension appends."""
    return [3 for _ in range(x.shape[0])], x.sum()


def repeated(x: torch.Tensor) -> Any:
    """A list that a number repeats."""
    total = x[0]
    for row in x:
        total = torch.tanh(total + row)
    return [total] * x.shape[0]


def compared(x: torch.Tensor) -> Any:
    """The list is compared with one of some length."""
    total, items = _gone_through(x, 1)
    return total, items == [1] * 6


def differences(x: torch.Tensor) -> torch.Tensor:
    """A round takes the row of the one before it, too."""
    before, made = None, []
    for row in x:
        if before is not None:
            made.append(row - before)
        before = row
    return torch.stack(made)


def products_of_parts(x: torch.Tensor) -> torch.Tensor:
    """The same of parts that split() gives."""
    before, made = None, []
    for part in x.split(1):
        if before is not None:
            made.append(part * before)
        before = part
    return torch.cat(made)


def second_differences(x: torch.Tensor) -> torch.Tensor:
    """It takes two more rows."""
    before = first = None
    made = []
    for row in x:
        if first is not None:
            made.append(row - 2 * before + first)
        first, before = before, row
    return torch.stack(made)


FORMS = [
    of_none,
    of_one_tensor,
    of_rounds,
    of_a_first_tensor,
    as_a_tuple,
    in_other_constants,
    by_a_comprehension,
    repeated,
    compared,
    differences,
    products_of_parts,
    second_differences,
]


def _assert_same(got: Any, wanted: Any) -> None:
    assert type(got) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)
    elif isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            _assert_same(one, other)
    else:
        assert got == wanted


@pytest.mark.parametrize("fn", FORMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[::-1]])
def test_it_is_as_long_as_in_eager(
    fn: Callable[[torch.Tensor], Any], lengths: tuple[int, ...]
) -> None:
    fast = mica.compile(fn)
    with torch.no_grad():
        for length in lengths:
            rows = make_rows(length)
            _assert_same(fast(rows), fn(rows))


class Keeping:
    """Keeps what a call made."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Leaves a list that is as long as the loop."""
        total, self.kept = _gone_through(x, None)
        return total


def test_what_is_left_in_the_state_is_as_long_as_in_eager() -> None:
    model = Keeping()
    fast = mica.compile(model)
    with torch.no_grad():
        for length in LENGTHS:
            fast(make_rows(length))
            assert len(model.kept) == length


@pytest.mark.parametrize("fn", [differences, products_of_parts])
def test_the_row_before_is_followed(
    fn: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    fast = mica.compile(fn)
    with torch.no_grad():
        for length in (6, 9, 7, 5, 12, 8):
            rows = make_rows(length)
            _assert_same(fast(rows), fn(rows))
    assert mica.explain(fast).captures == 2

"""Loops over sizes in generators, and what such loops make grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from e2e.capture.looped_programs import make_rows

import mica

Program = Callable[[torch.Tensor], Any]
LENGTHS = (8, 12, 16, 9, 13, 6, 7, 30)
SHORT = (2, 3, 5, 4, 6, 3, 8, 2, 7)


def _captures(fn: Program, lengths: tuple[int, ...]) -> int:
    fast = mica.compile(fn)
    with torch.no_grad():
        for length in lengths:
            given = make_rows(length)
            torch.testing.assert_close(fast(given), fn(given))
    return mica.explain(fast).captures


def _steps(x: torch.Tensor) -> Iterator[torch.Tensor]:
    h = x[0]
    for row in x:
        h = torch.tanh(h + row)
        yield h


def _added(x: torch.Tensor) -> torch.Tensor:
    return sum(row.exp() for row in x)


def _added_from(x: torch.Tensor) -> torch.Tensor:
    return sum((row.exp() for row in x), x[0])


def _listed(x: torch.Tensor) -> torch.Tensor:
    return torch.stack(list(_steps(x)))


def _tupled(x: torch.Tensor) -> torch.Tensor:
    return torch.stack(tuple(row * 2 for row in x))


def _gone_through(x: torch.Tensor) -> torch.Tensor:
    outs, h = [], x[0]
    for step in _steps(x):
        h = h * 0.5 + step
        outs.append(h)
    return torch.stack(outs)


def _inside_each_other(x: torch.Tensor) -> torch.Tensor:
    def doubled() -> Iterator[torch.Tensor]:
        for step in _steps(x):
            yield step * 2

    h = x[0]
    for step in doubled():
        h = h * 0.5 + step
    return h


def _around(x: torch.Tensor) -> torch.Tensor:
    def all_steps() -> Iterator[torch.Tensor]:
        yield x[0]
        h = x[0]
        for row in x:
            h = torch.tanh(h + row)
            yield h
        yield h * 2

    outs = []
    for step in all_steps():
        outs.append(step)
    return torch.stack(outs)


def _numbered(x: torch.Tensor) -> torch.Tensor:
    def rows() -> Iterator[tuple[int, torch.Tensor]]:
        for i, row in enumerate(x):
            yield i, row * 2

    h = x[0]
    for i, row in rows():
        h = h * 0.5 + row * i
    return h


@pytest.mark.parametrize(
    "fn",
    [
        _added,
        _added_from,
        _listed,
        _tupled,
        _gone_through,
        _inside_each_other,
        _around,
        _numbered,
    ],
)
def test_a_generators_loop_is_any_loop(fn: Program) -> None:
    assert _captures(fn, LENGTHS) == 2
    _captures(fn, SHORT)


def _asked_otherwise(x: torch.Tensor) -> torch.Tensor:
    steps = _steps(x)
    h = next(steps)
    for step in steps:
        more = next(steps, None)
        h = h * 0.5 + step
        if more is not None:
            h = h - more
    return h


def _left(x: torch.Tensor) -> torch.Tensor:
    h, count = x[0], 0
    for step in _steps(x):
        h = h * 0.5 + step
        count += 1
        if count == 5:
            break
    return h


def _counted(x: torch.Tensor) -> torch.Tensor:
    steps = tuple(_steps(x))
    return steps[-1] * 2 if len(steps) > 8 else steps[0]


def _in_step(x: torch.Tensor) -> torch.Tensor:
    h = x[0]
    for a, b in zip(_steps(x), _steps(x * 2), strict=True):
        h = h * 0.5 + a * b
    return h


def _shared(x: torch.Tensor) -> torch.Tensor:
    box = [x[0], 1]

    def rows() -> Iterator[torch.Tensor]:
        for row in x:
            box[1] += 1
            yield torch.tanh(box[0] + row) * box[1]

    for step in rows():
        box[0] = step
    return box[0]


def _by_turns(x: torch.Tensor) -> torch.Tensor:
    one, other, h = _steps(x), _steps(x * 2), x[0]
    for a in one:
        for b in other:
            h = h * 0.5 + a * b
            break
    return h


@pytest.mark.parametrize(
    "fn",
    [_asked_otherwise, _left, _counted, _in_step, _shared, _by_turns],
)
def test_what_isnt_followed_is_right(fn: Program) -> None:
    _captures(fn, LENGTHS)
    _captures(fn, SHORT)


def _passed(x: torch.Tensor) -> torch.Tensor:
    for _ in range(x.shape[0]):
        pass
    return x * 2


def _of_numbers(x: torch.Tensor) -> torch.Tensor:
    total = 0
    for i in range(x.shape[0]):
        total += i * 2
    return x * total + sum(k for k in range(len(x)))


@pytest.mark.parametrize("fn", [_passed, _of_numbers])
def test_rounds_that_call_nothing(fn: Program) -> None:
    assert _captures(fn, LENGTHS) == 2
    _captures(fn, SHORT)


def test_a_list_of_all_but_the_first_round() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        outs = []
        for i in range(1, x.shape[0]):
            outs.append(x[i] - x[i - 1])
        h, back = x[0], []
        for one in reversed(outs):
            h = torch.tanh(h + one)
            back.append(h)
        return torch.stack(back)

    assert _captures(fn, LENGTHS) == 2
    _captures(fn, SHORT)


def _joined(x: torch.Tensor) -> torch.Tensor:
    y = x[:1]
    for i in range(1, x.shape[0]):
        y = torch.cat([y, torch.tanh(x[i : i + 1] + y.mean(0))])
    return y


def _from_none(x: torch.Tensor) -> torch.Tensor:
    y = x[:0]
    for row in x:
        y = torch.cat([y, row[None] * (len(y) + 1)])
    return y * y.shape[0]


def _attended(x: torch.Tensor) -> torch.Tensor:
    """What a decoder with a cache does."""
    x = x[:, 0]
    keys, outs = x[:1], []
    for i in range(1, x.shape[0]):
        keys = torch.cat([keys, x[i : i + 1]])
        weights = torch.softmax(x[i : i + 1] @ keys.mT / 8**0.5, -1)
        outs.append(weights @ keys)
    return torch.cat(outs)


def _prefixes(x: torch.Tensor) -> torch.Tensor:
    y, total = x[:2], x[0]
    for row in x[2:]:
        y = torch.cat([y, row[None]])
        total = total + y.std(0) + y.numel() / y.shape[0]
        total = total + (torch.arange(len(y))[:, None, None] * y).sum(0)
    return total


def _doubled(x: torch.Tensor) -> torch.Tensor:
    y = x[:2]
    for row in x:
        if y.shape[0] < 40:
            y = torch.cat([y, y * 0.5 + row])
    return y


def _in_a_window(x: torch.Tensor) -> torch.Tensor:
    y = x[:1]
    for row in x:
        y = torch.cat([y, row[None] + y[-1:]])
        if y.shape[0] > 4:
            y = y[1:]
    return y


@pytest.mark.parametrize(
    ("fn", "most"),
    [(_joined, 2), (_from_none, 2), (_attended, 2), (_prefixes, 2)]
    + [(_doubled, len(LENGTHS)), (_in_a_window, 4)],
)
def test_what_each_round_makes_larger(fn: Program, most: int) -> None:
    assert _captures(fn, LENGTHS) <= most
    _captures(fn, SHORT)


def test_words_that_are_joined_to_those_before() -> None:
    weight = torch.randn(12, 12, dtype=torch.float64)

    def generate(ids: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            word = weight[ids].mean(1).argmax(-1, keepdim=True)
            ids = torch.cat([ids, word], 1)
        return ids

    fast = mica.compile(generate)
    ids = torch.randint(0, 12, (2, 3))
    with torch.no_grad():
        for count in (5, 8, 6, 12, 9, 7, 20, 30):
            assert torch.equal(fast(ids, count), generate(ids, count))
    assert mica.explain(fast).captures <= 4


def _left_by_number(x: torch.Tensor) -> torch.Tensor:
    h = x[0]
    for i in range(x.shape[0]):
        if i >= 6:
            break
        h = torch.tanh(h + x[i])
    return h


def _returned(x: torch.Tensor) -> torch.Tensor:
    outs = []
    for i in range(len(x)):
        outs.append(x[i] * i)
        if len(outs) == 5:
            return torch.stack(outs)
    return x


def _left_and_gone_on(x: torch.Tensor) -> torch.Tensor:
    h, numbers = x[0], iter(range(x.shape[0]))
    for i in numbers:
        h = torch.tanh(h + x[i])
        if i == 3:
            break
    for i in numbers:
        h = h * 0.5 + x[i]
    return h


def _left_and_counted(x: torch.Tensor) -> torch.Tensor:
    numbers = iter(range(x.shape[0]))
    for i in numbers:
        if i == 2:
            break
    return x * len(list(numbers))


@pytest.mark.parametrize(
    ("fn", "most"),
    [(_left_by_number, 4), (_returned, 4)]
    + [(_left_and_gone_on, len(LENGTHS)), (_left_and_counted, len(LENGTHS))],
)
def test_ranges_that_are_left_early(fn: Program, most: int) -> None:
    assert _captures(fn, LENGTHS) <= most
    _captures(fn, SHORT)


def test_an_int_alone_says_how_often_a_loop_goes() -> None:
    def up(x: torch.Tensor, n: int) -> torch.Tensor:
        i = 0
        while i < n:
            x = torch.tanh(x + i)
            i += 1
        return x

    def down(x: torch.Tensor, n: int) -> torch.Tensor:
        while n > 0:
            x = torch.tanh(x + n)
            n -= 1
        return x

    for fn in (up, down):
        fast = mica.compile(fn)
        x = make_rows(3)
        with torch.no_grad():
            for n in (5, 8, 6, 12, 9, 7, 20, 5, 11, 30, 31, 32):
                torch.testing.assert_close(fast(x, n), fn(x, n))
        assert mica.explain(fast).captures <= 4


def test_generators_are_closed_within_each_other():
    """zip() leaves the second one as it is, with those that it waits for."""

    def inner(x: torch.Tensor) -> Iterator[torch.Tensor]:
        try:
            for row in x:
                yield row.exp()
        finally:
            closed.append(1)

    def outer(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for row in inner(x):
            yield row * 2

    def delegating(x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield from outer(x)

    def zipped(x: torch.Tensor) -> torch.Tensor:
        total = x[0]
        for a, b in zip(outer(x), delegating(x)):
            total = total + a * b
        for a in delegating(x):
            total = total - a
            break
        return total

    def averaged(x: torch.Tensor) -> torch.Tensor:
        for p, q in zip(slow.parameters(), fast.parameters(), strict=False):
            p.data.mul_(0.9).add_(q.data, alpha=0.1)
        return slow(x)

    closed: list[int] = []
    slow, fast = (torch.nn.Linear(8, 4).double() for _ in range(2))
    with torch.no_grad():
        for program in (zipped, averaged):
            compiled = mica.compile(program)
            for _ in range(4):
                compiled(make_rows(3))
            told = mica.explain(compiled)
            assert told.is_one_graph and told.hits >= 2, str(told)
    assert len(closed) == 12

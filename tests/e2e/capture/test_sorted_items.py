"""sorted() and list.sort() by sizes, by numbers and by keys of several."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import check

Program = Callable[[Any], Any]
NAN = float("nan")


def _rows(xs: list[torch.Tensor], order: list[int]) -> Any:
    return torch.cat([xs[i] * (k + 1) for k, i in enumerate(order)])


def _by_size(xs: list[torch.Tensor]) -> Any:
    return torch.cat(sorted(xs, key=lambda x: x.shape[0]))


def _by_size_down(xs: list[torch.Tensor]) -> Any:
    xs = list(xs)
    xs.sort(key=len, reverse=True)
    return _rows(xs, [0, 1, 2])


def _places(xs: list[torch.Tensor]) -> Any:
    order = sorted(range(len(xs)), key=lambda i: -len(xs[i]))
    return _rows(xs, order), order


def _by_score(xs: list[torch.Tensor]) -> Any:
    scored = sorted(((x.sum().item(), i) for i, x in enumerate(xs)))
    return _rows(xs, [i for _, i in scored]), scored[0][0]


def _zipped(xs: list[torch.Tensor]) -> Any:
    scores = [x.max().item() for x in xs]
    pairs = sorted(zip(scores, range(len(xs)), strict=True), reverse=True)
    return _rows(xs, [i for _, i in pairs])


def _numbers(xs: list[torch.Tensor]) -> Any:
    found = sorted(x[0, 0].item() for x in xs)
    return xs[0] * found[1], found


def _in_place(xs: list[torch.Tensor]) -> Any:
    found = [x[0, 0].item() for x in xs]
    found.sort(reverse=True)
    return xs[1] - found[0]


def _items(xs: list[torch.Tensor]) -> Any:
    scores = {name: x.mean().item() for name, x in zip("abc", xs, strict=True)}
    by = sorted(scores.items(), key=operator.itemgetter(1))
    return [name for name, _ in by], xs[0] * by[-1][1]


def _dict_items(xs: list[torch.Tensor]) -> Any:
    scores = {name: x.mean().item() for name, x in zip("abc", xs, strict=True)}
    by = sorted(scores.items(), key=lambda item: item[1])
    return [name for name, _ in by], xs[0] * by[-1][1]


def _of_lists(xs: list[torch.Tensor]) -> Any:
    scores = [x.mean().item() for x in xs]
    return _rows(xs, sorted(range(3), key=scores.__getitem__))


def _of_tuples(xs: list[torch.Tensor]) -> Any:
    scores = tuple(x.mean().item() for x in xs)
    return _rows(xs, sorted(range(3), key=scores.__getitem__))


def _two_keys(xs: list[torch.Tensor]) -> Any:
    return torch.cat(sorted(xs, key=lambda x: (len(x), -x[0, 0].item())))


def _names(xs: list[torch.Tensor]) -> Any:
    names = {
        f"{len(x) % 2}{name}": x for name, x in zip("cab", xs, strict=True)
    }
    return torch.cat([names[name] for name in sorted(names, key=str.lower)])


def _with_tensors(xs: list[torch.Tensor]) -> Any:
    # Where the first are equal it compares tensors, of which some are one.
    pairs = [(len(x) // 3, x[0, 0]) for x in xs]
    return [value for _, value in sorted(pairs)]


def _tensors(xs: list[torch.Tensor]) -> Any:
    return torch.cat(sorted(xs, key=lambda x: x.sum()))


def _nested(xs: list[torch.Tensor]) -> Any:
    order = sorted(range(3), key=lambda i: ((len(xs[i]) % 2, 1), -i))
    return _rows(xs, order)


def _mixed(xs: list[torch.Tensor]) -> Any:
    keys = [len(xs[0]), xs[1][0, 0].item(), len(xs[2]) > 3]
    return sorted(keys), _rows(xs, sorted(range(3), key=lambda i: keys[i]))


def _unlike(xs: list[torch.Tensor]) -> Any:
    keys = ["a", len(xs[0]), xs[1][0, 0].item()]
    return sorted(keys[1:] if len(xs[2]) > 3 else keys, key=lambda key: key)


def _raises(xs: list[torch.Tensor]) -> Any:
    found = [len(x) for x in xs]
    try:
        found.sort(key=lambda count: 1 / (count - 2))
    except ZeroDivisionError:
        found.append(-1)
    return found, xs[0] * found[0]


def _looks(xs: list[torch.Tensor]) -> Any:
    found = list(xs)
    seen = []
    found.sort(key=lambda x: (seen.append(len(found)), len(x))[1])
    return torch.cat(found), seen


def _changes(xs: list[torch.Tensor]) -> Any:
    found = list(xs)
    try:
        found.sort(key=lambda x: (found.append(x), len(x))[1])
    except ValueError as error:
        return str(error), torch.cat(found)
    return found


def _ties(xs: list[torch.Tensor]) -> Any:
    up = sorted(range(3), key=lambda i: len(xs[i]) // 4)
    down = sorted(range(3), key=lambda i: len(xs[i]) // 4, reverse=True)
    return up, down, _rows(xs, up), _rows(xs, down)


def _other_words(xs: list[torch.Tensor]) -> Any:
    try:
        return sorted(xs, by=len)  # type: ignore[call-overload]
    except TypeError as error:
        return str(error), xs[0] * 2


def _none(xs: list[torch.Tensor]) -> Any:
    return sorted([x[0, 0].item() for x in xs], key=None, reverse=False)


def _in_loops(xs: list[torch.Tensor]) -> Any:
    rows = []
    for row in xs[0]:
        best = sorted(row.tolist())
        rows.append(row * best[0])
    return torch.stack(rows)


def _by_rows(xs: list[torch.Tensor]) -> Any:
    sums = [row.sum().item() for row in xs[0]]
    return xs[0][sorted(range(len(sums)), key=lambda i: sums[i])]


def _many(xs: list[torch.Tensor]) -> Any:
    numbers = (xs[0].flatten()[:1] * torch.arange(40).cos()).tolist()
    return sorted(numbers), sorted(numbers, key=lambda number: -number)


PROGRAMS: dict[str, Program] = {
    name[1:]: make
    for name, make in list(globals().items())
    if name.startswith("_") and getattr(make, "__module__", "") == __name__
}
PROGRAMS.pop("rows")
SIZES = (
    *((2, 5, 3), (4, 7, 6), (5, 2, 9), (3, 8, 4), (6, 6, 2), (4, 4, 4)),
    *((3, 3, 7), (9, 5, 2), (2, 2, 3), (5, 6, 3), (7, 8, 4), (8, 3, 5)),
)


def _drawn(seed: int, sizes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 2, generator=generator) for n in sizes]


def _step(xs: list[torch.Tensor]) -> Callable[[Any, Any], Any]:
    def step(_: Any, program: Program) -> Any:
        try:
            return program([x.clone() for x in xs])
        except (TypeError, RuntimeError) as error:
            return type(error).__name__, str(error)

    return step


def _check(name: str, calls: list[list[torch.Tensor]]) -> int:
    return check(
        lambda: SimpleNamespace(program=PROGRAMS[name]),
        *[_step(xs) for xs in calls],
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_order_is_eagers(name: str) -> None:
    _check(name, [_drawn(seed, sizes) for seed, sizes in enumerate(SIZES * 2)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_has_no_order_is_sorted_as_eager_does(name: str) -> None:
    calls = [_drawn(seed % 3, (3, 3, 3)) for seed in range(12)]
    for i, xs in enumerate(calls):
        values = (NAN, math.inf, -0.0, 0.0, NAN)
        if i % 3 != 1:
            xs[i % 3][0, 0] = values[i % 5]
        if i % 4 == 3:
            xs[(i + 1) % 3][0, 0] = values[i % 5]
    _check(name, calls)


@pytest.mark.parametrize(
    ("name", "hits"),
    [("by_size", 7), ("by_size_down", 7), ("places", 7), ("two_keys", 7)],
)
def test_an_order_of_sizes_is_one_record(name: str, hits: int) -> None:
    sizes = [(n, n + 2, n + 5) for n in range(2, 11)]
    assert _check(name, [_drawn(0, each) for each in sizes]) >= hits


@pytest.mark.parametrize(
    ("name", "hits"),
    [
        *(("by_score", 7), ("zipped", 7), ("numbers", 7), ("in_place", 7)),
        *(("dict_items", 7), ("of_lists", 7)),
    ],
)
def test_an_order_of_numbers_is_one_record(name: str, hits: int) -> None:
    calls = []
    for seed in range(8):
        calls.append([x * 0.01 for x in _drawn(seed, (3, 3, 3))])
        for i, x in enumerate(calls[-1]):
            x += i
    assert _check(name, calls) >= hits


def test_lists_of_the_state_are_sorted_in_place() -> None:
    def make() -> SimpleNamespace:
        world = SimpleNamespace(best=[3.0, 1.0, 2.0], count=0)

        def program(x: torch.Tensor) -> Any:
            world.best.append(x.sum().item())
            world.best.sort(reverse=True)
            world.best.pop()
            return x * world.best[0], list(world.best)

        world.program = program
        return world

    calls = [torch.randn(3) + i % 4 for i in range(12)]
    check(make, *[lambda _, program, x=x: program(x) for x in calls])


def test_numbers_of_the_state_are_sorted() -> None:
    def make() -> SimpleNamespace:
        world = SimpleNamespace(rates=[0.1, 0.3, 0.2], count=0)

        def program(x: torch.Tensor) -> Any:
            rates = sorted(world.rates)
            return x * rates[1], sorted(world.rates, key=lambda rate: -rate)

        world.program = program
        return world

    def step(world: Any, program: Program) -> Any:
        world.count += 1
        world.rates = [math.sin(world.count * k) for k in (1, 2, 3)]
        if world.count == 9:
            world.rates[1] = NAN
        return program(torch.ones(2))

    check(make, *[step] * 16)

"""Idioms of people's programs, each beside an eager twin."""

from __future__ import annotations

import collections
import copy
import itertools
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, report, same, x
from torch import nn

import mica

LINEAR = nn.Linear(4, 4)
GENERATOR = torch.Generator()


class Items(list):  # type: ignore[type-arg]
    """A list with a name of its own."""

    def total(self) -> Any:
        return sum(self)


class Pair(tuple):  # type: ignore[type-arg]
    pass


def flattened(a: torch.Tensor) -> torch.Tensor:
    return sum(itertools.chain.from_iterable([[a, a * 2], (a + 1,)]))


def flattened_parts(a: torch.Tensor) -> Any:
    parts = (chunk.split(1) for chunk in a.chunk(3))
    return list(itertools.chain.from_iterable(parts))


def combined(a: torch.Tensor) -> torch.Tensor:
    terms = [a, a * 2, a + 1]
    out = torch.zeros_like(a)
    for u, v in itertools.combinations(terms, 2):
        out = out + u * v
    for u, v in itertools.pairwise(itertools.accumulate(terms)):
        out = out + u - v
    for u in itertools.islice(itertools.cycle(terms), 5):
        out = out + u
    for n, run in itertools.groupby([1, 1, 2]):
        out = out * n + len(list(run))
    return out


def branch_on_closeness(a: torch.Tensor) -> torch.Tensor:
    if torch.allclose(a, a.clone()):
        return a + 1
    return a - 1


def branch_on_tolerance(a: torch.Tensor) -> torch.Tensor:
    near = torch.allclose(a, a * (1 + 1e-4), rtol=1e-3, atol=0.0)
    far = torch.allclose(a, a + 1)
    return a * 2 if near and not far else a


def written_result(a: torch.Tensor) -> torch.Tensor:
    b = a * 2
    b.add_(1).mul_(3)
    return b


def model_copied(a: torch.Tensor) -> torch.Tensor:
    model = copy.deepcopy(LINEAR)
    with torch.no_grad():
        model.weight.add_(1)
    return model(a)


SERVED: list[Callable[[torch.Tensor], Any]] = [
    flattened,
    flattened_parts,
    combined,
    branch_on_closeness,
    branch_on_tolerance,
    written_result,
    model_copied,
]


@pytest.mark.parametrize("program", SERVED, ids=lambda f: f.__name__)
def test_an_idiom_is_served(program: Callable[[torch.Tensor], Any]) -> None:
    compiled = mica.compile(program)
    how = ""
    for seed in range(4):
        got, letter = call_and_tell(compiled, x(seed, 3, 4))
        how += letter
        same(got, program(x(seed, 3, 4)))
    assert how == "chhh", str(report(compiled))


def test_a_branch_on_closeness_goes_eagers_way() -> None:
    def near(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b if torch.allclose(a, b, equal_nan=True) else a - b

    compiled = mica.compile(near)
    nan = torch.tensor([float("nan"), 1.0])
    inf = torch.tensor([float("inf"), 1.0])
    for a, b in [
        (x(1, 2), x(1, 2)),
        (x(1, 2), x(2, 2)),
        (x(1, 2), x(1, 2) + 1e-9),
        (nan, nan.clone()),
        (inf, inf.clone()),
        (inf, -inf),
        (x(1, 2), x(1, 2) + 1e-3),
        (nan, x(1, 2)),
    ]:
        for _ in range(2):
            same(compiled(a, b), near(a, b))
    assert report(compiled).hits >= 8


def named(a: torch.Tensor) -> torch.Tensor:
    pair = collections.namedtuple("pair", "u v")(a + 1, a * 2)  # noqa: PYI024
    return pair.u * pair.v


def seeded(a: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return a + torch.rand(4)


def drawn_twice(a: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state()
    first = torch.rand(4)
    torch.set_rng_state(state)
    return a + first - 2 * torch.rand(4)


def reseeded_generator(a: torch.Tensor) -> torch.Tensor:
    GENERATOR.manual_seed(5)
    return a + torch.rand(4, generator=GENERATOR)


def new_generator(a: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return a + torch.randn(4, generator=generator)


def seeded_aside(a: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        noise = torch.rand(4)
    return a + noise


def written_count(a: torch.Tensor) -> Any:
    before = a._version
    b = a * 2
    b.add_(1)
    return b * (b._version + 1), before


def name_of_frame(a: torch.Tensor) -> Any:
    return a + 1, sys._getframe().f_code.co_name


def number_of_names(a: torch.Tensor) -> torch.Tensor:
    return a * len(dir(LINEAR))


def pickled(a: torch.Tensor) -> torch.Tensor:
    return a * len(pickle.dumps({"b": [1, 2]}))


def out_of_nothing(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty(0)
    torch.add(a, 1, out=out)
    return out


def adder(a: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    weight = a * 2

    def add(b: torch.Tensor) -> torch.Tensor:
        return weight + b

    return add


@pytest.mark.parametrize(
    "program",
    [
        named,
        seeded,
        drawn_twice,
        reseeded_generator,
        new_generator,
        seeded_aside,
        written_count,
        name_of_frame,
        number_of_names,
        pickled,
        out_of_nothing,
        adder,
    ],
    ids=lambda f: f.__name__,
)
def test_an_idiom_that_is_no_graph_is_as_eager(
    program: Callable[[torch.Tensor], Any],
) -> None:
    def run(call: Callable[[torch.Tensor], Any]) -> list[Any]:
        torch.manual_seed(7)
        GENERATOR.manual_seed(1)
        outcomes = []
        for seed in range(6):
            result = call(x(seed, 3, 4))
            outcomes.append(result(x(9, 3, 4)) if callable(result) else result)
        return [*outcomes, torch.get_rng_state(), GENERATOR.get_state()]

    compiled = mica.compile(program)
    same(run(compiled), run(program))


def test_a_history_that_grows_is_eagers() -> None:
    def step(history: list[torch.Tensor], a: torch.Tensor) -> torch.Tensor:
        history.append(a.mean())
        return torch.stack(history[-3:]).sum()

    compiled = mica.compile(step)
    mine: list[torch.Tensor] = []
    plain: list[torch.Tensor] = []
    for seed in range(8):
        same(compiled(mine, x(seed, 4)), step(plain, x(seed, 4)))
        same(mine, plain)


def test_a_count_in_a_name_is_eagers() -> None:
    class Counter:
        count = 0
        name = ""

    def step(counter: Counter, a: torch.Tensor) -> torch.Tensor:
        counter.count += 1
        counter.name = f"step_{counter.count}"
        return a + 1

    compiled = mica.compile(step)
    mine, plain = Counter(), Counter()
    for seed in range(8):
        same(compiled(mine, x(seed, 4)), step(plain, x(seed, 4)))
        same(vars(mine), vars(plain))


def test_a_new_namespace_at_each_call_is_taken_apart() -> None:
    def program(options: types.SimpleNamespace) -> torch.Tensor:
        options.total = options.a + options.b * options.scale
        return options.total * 2

    compiled = mica.compile(program)
    how = ""
    for seed in range(6):
        fields = {"a": x(seed, 4), "b": x(seed + 1, 4), "scale": 2.0}
        mine = types.SimpleNamespace(**fields)
        plain = types.SimpleNamespace(**fields)
        got, letter = call_and_tell(compiled, mine)
        how += letter
        same(got, program(plain))
        same(vars(mine), vars(plain))
    assert how.endswith("hhh"), how
    other = types.SimpleNamespace(b=x(1, 4), a=x(2, 4), scale=3.0)
    same(compiled(copy.copy(other)), program(copy.copy(other)))


def test_a_new_list_of_a_subclass_at_each_call_is_taken_apart() -> None:
    def program(items: Items) -> torch.Tensor:
        total = items.total() + items[0]
        items.append(total)
        return total * getattr(items, "scale", 1)

    compiled = mica.compile(program)
    how = ""
    for seed in range(6):
        mine, plain = (Items([x(seed, 4), x(seed + 1, 4)]) for _ in range(2))
        got, letter = call_and_tell(compiled, mine)
        how += letter
        same(got, program(plain))
        same(list(mine), list(plain))
        assert type(mine) is Items
    assert how.endswith("hhh"), how
    mine, plain = (Items([x(1, 4), x(2, 4)]) for _ in range(2))
    mine.scale = plain.scale = 5  # type: ignore[attr-defined]
    same(compiled(mine), program(plain))
    same(list(mine), list(plain))


@pytest.mark.parametrize(
    "make",
    [
        lambda a: Pair((a,)),
        lambda a: collections.OrderedDict(a=a),
        lambda a: Items([a]),
    ],
    ids=["tuple", "OrderedDict", "list"],
)
def test_an_attribute_that_a_container_has_one_day_is_seen(
    make: Callable[[torch.Tensor], Any],
) -> None:
    def program(items: Any) -> torch.Tensor:
        first = next(
            iter(items.values() if hasattr(items, "values") else items)
        )
        return first * getattr(items, "scale", 1)

    compiled = mica.compile(program)
    for seed in range(4):
        same(compiled(make(x(seed, 4))), program(make(x(seed, 4))))
    for scale in (2, 5, 5):
        items = make(x(1, 4))
        items.scale = scale
        same(compiled(items), x(1, 4) * scale)
    same(compiled(make(x(2, 4))), x(2, 4))


def test_results_written_in_place_have_eagers_count() -> None:
    def program(a: torch.Tensor) -> Any:
        b = a * 2
        b.add_(1).mul_(3)
        c = a + 1
        part = c[1:]
        part.zero_()
        return b, c, part, a - 1, b.view(-1)

    compiled = mica.compile(program)
    for seed in range(4):
        got = compiled(x(seed, 3, 4))
        want = program(x(seed, 3, 4))
        same(got, want)
        assert [t._version for t in got] == [t._version for t in want]
        got[2].add_(1)
        assert got[1]._version == got[2]._version
    assert report(compiled).hits == 3

"""What programs do to torch's random generators."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, report, same, x
from torch import nn
from torch.utils.checkpoint import checkpoint

import mica

OWN = torch.Generator()
HELD = types.SimpleNamespace(generator=torch.Generator())


def seeded(a: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return a + torch.rand(4)


def drawn_twice(a: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state()
    first = torch.rand(4)
    torch.set_rng_state(state)
    return a + first - 2 * torch.rand(4) + torch.randn(4)


def told(a: torch.Tensor) -> Any:
    b = a + torch.randn(3)[0]
    return b, torch.get_rng_state(), OWN.get_state()


def forked(a: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        noise = torch.rand(4)
    return a + noise + torch.rand(4)


def made(a: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    plain = torch.Generator(device="cpu")
    b = torch.randn(4, generator=generator) * torch.rand(4, generator=plain)
    return a + b + torch.rand(4) + torch.rand(4, generator=generator)


def of_state(a: torch.Tensor) -> torch.Tensor:
    b = torch.randn(4, generator=OWN) * torch.rand(4)
    return a + b.uniform_(generator=OWN) + torch.zeros(4).uniform_()


def reseeded(a: torch.Tensor) -> torch.Tensor:
    OWN.manual_seed(5)
    HELD.generator.manual_seed(-1)
    return (
        a
        + torch.rand(4, generator=OWN)
        + torch.rand(4, generator=HELD.generator)
    )


def set_back(a: torch.Tensor) -> Any:
    state = OWN.get_state()
    first = torch.rand(4, generator=OWN)
    OWN.set_state(state)
    again = torch.rand(4, generator=OWN)
    HELD.generator.set_state(state)
    third = torch.rand(4, generator=HELD.generator)
    return a + first - again, third, OWN.initial_seed(), torch.initial_seed()


def permuted(a: torch.Tensor) -> torch.Tensor:
    return a[:, torch.randperm(4, generator=OWN)]


def chosen(a: torch.Tensor) -> torch.Tensor:
    weights = a.softmax(-1)
    first = torch.multinomial(weights, 2, generator=OWN)
    return first + torch.multinomial(weights, 2)


def defaulted(a: torch.Tensor) -> torch.Tensor:
    return a + torch.rand(4, generator=torch.default_generator)


def branched(a: torch.Tensor) -> torch.Tensor:
    b = torch.rand(4, generator=OWN) + torch.rand(4)
    return a + b if b.sum() > 4 else a - b


def states() -> list[torch.Tensor]:
    return [
        torch.get_rng_state(),
        OWN.get_state(),
        HELD.generator.get_state(),
    ]


def run(call: Callable[..., Any], count: int = 6) -> list[Any]:
    torch.manual_seed(7)
    OWN.manual_seed(1)
    HELD.generator.manual_seed(2)
    outcomes = []
    for seed in range(count):
        outcomes.append(call(x(seed, 3, 4)))
        outcomes += states()
    return outcomes


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        seeded,
        drawn_twice,
        told,
        forked,
        made,
        of_state,
        reseeded,
        set_back,
        permuted,
        chosen,
        defaulted,
    ],
    ids=lambda f: f.__name__,
)
def test_a_generator_is_eagers_after_each_call(
    program: Callable[..., Any], exact: bool
) -> None:
    compiled = mica.compile(program, exact=exact)
    same(run(compiled), run(program))
    assert report(compiled).hits >= 4, report(compiled).details()


def test_a_run_that_is_dropped_draws_nothing() -> None:
    compiled = mica.compile(branched)
    same(run(compiled, 12), run(branched, 12))
    assert len(report(compiled).graphs) == 2


def test_a_generator_of_an_argument_is_the_one_that_is_drawn_from() -> None:
    def program(a: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return a + torch.rand(4, generator=generator)

    compiled = mica.compile(program)
    mine = [torch.Generator().manual_seed(seed) for seed in range(2)]
    plain = [torch.Generator().manual_seed(seed) for seed in range(2)]
    for seed in (0, 0, 0, 1, 1, 0, 1):
        same(compiled(x(seed), mine[seed]), program(x(seed), plain[seed]))
    same([g.get_state() for g in mine], [g.get_state() for g in plain])
    assert report(compiled).hits >= 4


def test_a_generator_that_takes_anothers_place_is_drawn_from() -> None:
    def program(a: torch.Tensor) -> torch.Tensor:
        return a + torch.rand(4, generator=HELD.generator)

    compiled = mica.compile(program)
    before = HELD.generator
    try:
        for seed in (1, 1, 2, 2):
            HELD.generator = torch.Generator().manual_seed(seed)
            got = compiled(x(seed))
            HELD.generator = torch.Generator().manual_seed(seed)
            same(got, program(x(seed)))
    finally:
        HELD.generator = before


def test_a_state_of_an_argument_is_set() -> None:
    def program(a: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        torch.set_rng_state(state)
        return a + torch.rand(4)

    compiled = mica.compile(program)
    for seed in range(5):
        state = torch.Generator().manual_seed(seed).get_state()
        same(compiled(x(seed), state), program(x(seed), state))
    assert report(compiled).hits == 4


def test_seeds_that_vary_are_eagers() -> None:
    def program(a: torch.Tensor, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return a + torch.rand(4, generator=generator)

    compiled = mica.compile(program)
    for seed in (1, 1, 2, 2, 2**40, -5):
        same(compiled(x(seed % 9), seed), program(x(seed % 9), seed))


def returned(a: torch.Tensor) -> Any:
    return a + 1, torch.Generator()


def kept(a: torch.Tensor) -> Any:
    HELD.made = torch.Generator().manual_seed(3)
    return a + torch.rand(4, generator=HELD.made)


def seeded_by_chance(a: torch.Tensor) -> Any:
    OWN.seed()
    return a + 1


def cloned(a: torch.Tensor) -> Any:
    return a + torch.rand(4, generator=OWN.clone_state())


@pytest.mark.parametrize(
    "program",
    [returned, kept, seeded_by_chance, cloned],
    ids=lambda f: f.__name__,
)
def test_what_else_is_done_to_generators_is_no_graph(
    program: Callable[..., Any],
) -> None:
    compiled = mica.compile(program)
    try:
        for seed in range(3):
            OWN.manual_seed(1)
            got = compiled(x(seed, 3, 4))
            OWN.manual_seed(1)
            want = program(x(seed, 3, 4))
            if program is returned:
                same(got[1].get_state(), want[1].get_state())
                got, want = got[0], want[0]
            same(got, want)
        assert report(compiled).hits == 0
    finally:
        vars(HELD).pop("made", None)


@pytest.fixture
def grad(_no_grad: None) -> Iterator[None]:
    with torch.enable_grad():
        yield


@pytest.mark.usefixtures("grad")
@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_a_checkpoint_within_a_step_is_eagers(
    use_reentrant: bool, probability: float
) -> None:
    def made_step() -> tuple[nn.Module, Callable[..., Any]]:
        torch.manual_seed(0)
        first = nn.Sequential(nn.Linear(4, 8), nn.Dropout(probability))
        model = nn.ModuleList([first, nn.Linear(8, 2)])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(a: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            b = (a * 2).requires_grad_()
            hidden = checkpoint(first, b, use_reentrant=use_reentrant)
            loss = model[1](hidden).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return model, step

    mine, step = made_step()
    plain, eager = made_step()
    compiled = mica.compile(step, exact=True)
    outcomes: list[list[Any]] = [[], []]
    how = ""
    for call, outcome in ((compiled, outcomes[0]), (eager, outcomes[1])):
        torch.manual_seed(5)
        for seed in range(6):
            if call is compiled:
                got, letter = call_and_tell(call, x(seed, 3, 4))
                how += letter
            else:
                got = call(x(seed, 3, 4))
            outcome += [got, torch.get_rng_state()]
    same(*outcomes)
    same(mine.state_dict(), plain.state_dict())
    # The other kind has torch.compile's own machinery set up at each call.
    if use_reentrant:
        assert how.endswith("hhh"), how + report(compiled).details()

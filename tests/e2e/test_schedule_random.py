"""Random numbers in pipelines are those of the uncut step, in its order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from e2e.pipelines import (
    BATCH,
    KINDS,
    ONE_MICRO_BATCH,
    Trained,
    assert_as_program,
    assert_as_uncut,
    assert_same,
    feeds,
    run,
)
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import mica

SCHEDULES = [(kind, devices) for kind in KINDS for devices in (2, 4)]


@pytest.fixture(scope="module")
def dropping() -> Trained:
    return Trained("sgd", 4, dropout=0.3)


def in_eager(trained: Trained, steps: int = 3) -> dict[str, Tensor]:
    """The state after steps of accumulated micro-batches."""
    trained.restart()
    torch.manual_seed(1)
    for number in range(steps):
        trained.accumulated_step(feeds(4, number))
    return trained.state()


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize(("kind", "devices"), SCHEDULES)
def test_every_kind_draws_what_the_uncut_step_draws(
    dropping: Trained, kind: str, devices: int, fuse: bool
) -> None:
    assert_as_uncut(dropping, kind, [devices], fuse)


@pytest.mark.parametrize("fuse", [False, True])
def test_one_micro_batch_is_the_program_itself(
    dropping: Trained, fuse: bool
) -> None:
    assert_as_program(dropping, ONE_MICRO_BATCH, fuse)


def test_draws_eagers_numbers(dropping: Trained) -> None:
    want = in_eager(dropping)
    generator = torch.get_rng_state()
    schedule = mica.Schedule("1f1b", devices=3, micro_batches=4)
    _, state = run(dropping, schedule)
    assert torch.equal(torch.get_rng_state(), generator)
    for name, tensor in want.items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-4, atol=1e-5)


Draw = Callable[[Tensor], Tensor]

DRAWS: dict[str, Draw] = {
    "uniform": lambda x: x + torch.rand(BATCH, 4),
    "like": lambda x: x * torch.rand_like(x),
    "bernoulli": lambda x: x * torch.bernoulli(torch.sigmoid(x)),
    "native": lambda x: torch.native_dropout(x, 0.3, True)[0],
    "alpha": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "normal": lambda x: x + torch.randn(16, 4)[:BATCH],
    "permuted": lambda x: x[torch.randperm(BATCH)],
}


class Drawing(nn.Module):
    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self.draw = draw
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.draw(layer(x)).tanh()
        return x


def capture(draw: Draw) -> mica.Program:
    torch.manual_seed(2)
    model = Drawing(draw)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        opt.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        opt.step()
        return loss.detach()

    return mica.capture(step, (torch.ones(BATCH, 4),))


def state_of(program: mica.Program) -> dict[str, Tensor]:
    return {n: t.detach().clone() for n, t in program.tensors.items()}


@pytest.mark.parametrize("name", DRAWS)
def test_ops_that_draw(name: str) -> None:
    program = capture(DRAWS[name])
    start = state_of(program)
    x = torch.randn(3 * BATCH, 4, generator=torch.Generator().manual_seed(0))
    found = []
    for devices in (1, 4):
        with torch.no_grad():
            for key, tensor in program.tensors.items():
                tensor.copy_(start[key])
        torch.manual_seed(5)
        schedule = mica.Schedule("gpipe", devices=devices, micro_batches=3)
        executor = mica.Executor("cpu", num_threads=1)
        losses = executor.run(program, {"x": x}, schedule=schedule)
        found.append((losses, state_of(program), torch.get_rng_state()))
    (losses, state, generator), (got_losses, got, got_generator) = found
    assert_same(got, state)
    assert torch.equal(got_generator, generator)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(losses, got_losses))
    assert len({loss.item() for (loss,) in losses}) == 3


def refused(draw: Draw, match: str) -> None:
    program = capture(draw)
    start = state_of(program)
    torch.manual_seed(5)
    generator = torch.get_rng_state()
    schedule = mica.Schedule("gpipe", devices=2, micro_batches=2)
    executor = mica.Executor("cpu", num_threads=1)
    with pytest.raises(NotImplementedError, match=match):
        executor.run(
            program, {"x": torch.ones(2 * BATCH, 4)}, schedule=schedule
        )
    assert_same(state_of(program), start)
    assert torch.equal(torch.get_rng_state(), generator)


def test_normal_numbers_in_pairs_are_refused() -> None:
    refused(lambda x: x + torch.randn(3)[0], "in pairs, of which one is kept")


def test_ops_whose_draws_depend_on_data_are_refused() -> None:
    refused(
        lambda x: x + torch.poisson(x.detach().abs() * 9),
        "took another number of random numbers than expected",
    )


def test_an_error_leaves_the_generator(dropping: Trained) -> None:
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    fed = feeds(4)
    fed["tokens"][-1, -1] = 11  # There are 0 to 10.
    before = dropping.state()
    torch.manual_seed(3)
    generator = torch.get_rng_state()
    executor = mica.Executor("cpu", num_threads=1)
    with pytest.raises(Exception, match="index|range"):
        executor.run(dropping.program, fed, schedule=schedule)
    assert torch.equal(torch.get_rng_state(), generator)
    assert_same(dropping.state(), before)

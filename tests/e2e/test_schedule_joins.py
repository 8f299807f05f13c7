"""Steps whose stages need each other's gradients or weights, in pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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

import mica

# What clips in every step, and what never does.
CLIPS, NEVER = 0.05, 1e6

STEPS = {
    "clipped": lambda: Trained("adamw", 4, clip=CLIPS),
    "tied": lambda: Trained("adamw", 4, is_tied=True),
    "both": lambda: Trained("sgd", 4, is_tied=True, clip=CLIPS),
}


@pytest.fixture(scope="module", params=STEPS)
def joined(request: pytest.FixtureRequest) -> Trained:
    return STEPS[request.param]()


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_uncut_step_bit_for_bit(
    joined: Trained, kind: str, fuse: bool
) -> None:
    assert_as_uncut(joined, kind, (2, 4), fuse)


@pytest.mark.parametrize("fuse", [False, True])
def test_one_micro_batch_is_the_program_itself(
    joined: Trained, fuse: bool
) -> None:
    assert_as_program(joined, ONE_MICRO_BATCH, fuse)


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("clip", [None, CLIPS])
def test_is_eagers_step_over_the_whole_batch(
    is_tied: bool, clip: float | None
) -> None:
    trained = Trained("sgd", 4, is_tied=is_tied, clip=clip)
    schedule = mica.Schedule("1f1b", devices=3, micro_batches=4)
    _, state = run(trained, schedule)
    trained.restart()
    for number in range(3):
        trained.eager_step(feeds(4, number))
    for name, want in trained.state().items():
        torch.testing.assert_close(state[name], want, rtol=1e-4, atol=1e-5)


def test_clipping_changes_the_step() -> None:
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    plain, clipped, free = (
        run(Trained("sgd", 4, clip=clip), schedule)[1]
        for clip in (None, CLIPS, NEVER)
    )
    weight = "model.head.weight"
    assert torch.equal(plain[weight], free[weight])
    assert not torch.allclose(plain[weight], clipped[weight])


def test_norms_go_to_every_other_device() -> None:
    trained = Trained("sgd", 4, clip=CLIPS)
    schedule = mica.Schedule("1f1b", devices=3, micro_batches=4)
    text = mica.Executor("cpu").schedule_text(trained.program, schedule)
    head, *programs = text.split("// ")
    by_name = {part.partition("\n")[0]: part for part in programs}
    for stage in range(3):
        lines = head.partition(f"reduce({stage})")[2].partition("update(")[0]
        sent = [line for line in lines.splitlines() if "sends to" in line]
        assert sent
        # A norm a gradient, no gradient.
        assert all("f32[], 4 bytes" in line for line in sent)
        for other in range(3):
            assert (f"sends to device {other}" in lines) == (other != stage)
        assert "aten.stack" in by_name[f"update({stage})"]
    executor = mica.Executor("cpu")
    executor.run(trained.program, feeds(4), schedule=schedule)
    trace = executor.schedule_trace(trained.program, schedule)
    assert '"reduce"' in trace


def test_a_schedule_may_say_itself_when_stages_reduce() -> None:
    trained = Trained("sgd", 2, clip=CLIPS)
    schedule = mica.Schedule("gpipe", devices=2, micro_batches=2)
    _, want = run(trained, schedule)
    text = str(schedule)
    for stage in range(2):
        text = text.replace(
            f"    update({stage})\n",
            f"    reduce({stage})\n    update({stage})\n",
        )
    said = mica.Schedule.parse(text)
    assert str(said) == text
    assert "reduce" in said.svg()
    _, state = run(trained, said)
    assert_same(state, want)
    # A step that needs none has nothing to do there.
    plain = Trained("sgd", 2)
    _, want = run(plain, schedule)
    _, state = run(plain, said)
    assert_same(state, want)
    with pytest.raises(ValueError, match=r"reduce\(1\) is missing"):
        mica.Schedule.parse(text.replace("    reduce(1)\n", ""))


def test_tied_weights_are_read_where_they_are_updated() -> None:
    trained = Trained("adamw", 4, is_tied=True)
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    text = mica.Executor("cpu").schedule_text(trained.program, schedule)
    assert (
        'reads of device 0: variable "model.embed.weight", f32[11,16], '
        "704 bytes" in text
    )
    updates = text.split("// update(")
    assert 'update "model.embed.weight"' in updates[1]
    assert 'variable "model.embed.weight"' not in updates[2]


def test_the_norm_comes_back_with_each_micro_batch() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    opt = torch.optim.SGD(model.parameters(), lr=0.0)

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), CLIPS)
        opt.step()
        return loss.detach(), norm

    program = mica.capture(step, (torch.ones(BATCH, 4),))
    x = torch.randn(3 * BATCH, 4, generator=torch.Generator().manual_seed(1))
    model.zero_grad()
    losses = [model(part).square().mean() for part in x.split(BATCH)]
    sum(losses, torch.zeros(())).backward()
    want = nn.utils.clip_grad_norm_(model.parameters(), CLIPS)
    norms = []
    for devices in (1, 2, 4):
        schedule = mica.Schedule("1f1b", devices=devices, micro_batches=3)
        executor = mica.Executor("cpu", num_threads=1)
        results = executor.run(program, {"x": x}, schedule=schedule)
        for (loss, norm), wanted in zip(results, losses, strict=True):
            torch.testing.assert_close(loss, wanted.detach())
            norms.append(norm)
    torch.testing.assert_close(norms[0], want)
    assert all(torch.equal(norm, norms[0]) for norm in norms)
    norms[0].zero_()  # Each is the caller's own.
    assert norms[1] != 0


def by_hand(norm: Callable[[Iterable[Tensor]], Tensor]) -> mica.Program:
    """The step of a small net whose halved gradients are divided by a norm."""
    torch.manual_seed(3)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        for grad in grads:
            grad.mul_(0.5)
        scale = norm(grads)
        for grad in grads:
            grad.div_(scale)
        opt.step()
        return loss.detach()

    return mica.capture(step, (torch.ones(BATCH, 4),))


def squares(grads: Iterable[Tensor]) -> Tensor:
    return torch.stack([g.square().sum() for g in grads]).sum().sqrt()


def summed(grads: Iterable[Tensor]) -> Tensor:
    total = torch.zeros(())
    for grad in grads:
        total = total + grad.square().sum()
    return total.sqrt()


def joined_whole(grads: Iterable[Tensor]) -> Tensor:
    return torch.cat([g.flatten() for g in grads]).norm()


def largest(grads: Iterable[Tensor]) -> Tensor:
    return torch.stack([g.abs().max() for g in grads]).max()


@pytest.mark.parametrize("norm", [squares, summed, joined_whole, largest])
@pytest.mark.parametrize("fuse", [False, True])
def test_norms_by_hand(
    norm: Callable[[Iterable[Tensor]], Tensor], fuse: bool
) -> None:
    program = by_hand(norm)
    start = {n: t.detach().clone() for n, t in program.tensors.items()}
    states = []
    for stages in ("[0]", "[0,1]", "[0,0]", "[0,1,0,1]"):
        count = stages.count(",") + 1
        text = f"schedule @s(micro_batches=2, stages={stages}) {{\n"
        for device in range(max(map(int, stages[1:-1].split(","))) + 1):
            mine = [
                s
                for s in range(count)
                if stages[1:-1].split(",")[s] == str(device)
            ]
            lines = [f"forward({s},{i})" for s in mine for i in range(2)]
            lines += [
                f"backward({s},{i})" for s in mine[::-1] for i in range(2)
            ]
            lines += [f"update({s})" for s in mine]
            text += "  device {\n    " + "\n    ".join(lines) + "\n  }\n"
        schedule = mica.Schedule.parse(text + "}\n")
        with torch.no_grad():
            for name, tensor in program.tensors.items():
                tensor.copy_(start[name])
        executor = mica.Executor("cpu", num_threads=1, fuse=fuse)
        x = torch.randn(
            2 * BATCH, 4, generator=torch.Generator().manual_seed(1)
        )
        executor.run(program, {"x": x}, schedule=schedule)
        states.append(
            {n: t.detach().clone() for n, t in program.tensors.items()}
        )
    for state in states[1:]:
        assert_same(state, states[0])

"""Captured training steps cut into stages and run as pipelines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.pipelines import (
    BATCH,
    KINDS,
    Net,
    Trained,
    assert_as_program,
    assert_as_uncut,
    assert_same,
    feeds,
    run,
)
from torch import Tensor

import mica


@pytest.fixture(scope="module")
def trained() -> Trained:
    return Trained("adamw", 4)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_uncut_step_bit_for_bit(
    trained: Trained, kind: str, fuse: bool
) -> None:
    # Interleaved ones want micro-batches in groups of the devices.
    devices = (2,) if kind == "interleaved" else (2, 3)
    assert_as_uncut(trained, kind, devices, fuse)


@pytest.mark.parametrize("fuse", [False, True])
def test_one_micro_batch_is_the_program_itself(
    trained: Trained, fuse: bool
) -> None:
    assert_as_program(trained, [("zb_h1", 3)], fuse)


def test_is_eagers_step_over_the_whole_batch() -> None:
    trained = Trained("sgd", 4)
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    _, state = run(trained, schedule)
    trained.restart()
    for number in range(3):
        trained.eager_step(feeds(4, number))
    for name, want in trained.state().items():
        torch.testing.assert_close(state[name], want, rtol=1e-4, atol=1e-5)


def test_modules_start_stages(trained: Trained) -> None:
    schedule = mica.Schedule("1f1b", devices=3, micro_batches=4)
    want_losses, want = run(
        trained, mica.Schedule("gpipe", devices=1, micro_batches=4)
    )
    split_at = ["model.layers.1", "model.layers.3"]
    losses, state = run(trained, schedule, split_at=split_at)
    assert_same(state, want)
    assert all(map(torch.equal, losses, want_losses))
    text = mica.Executor("cpu").schedule_text(
        trained.program, schedule, split_at=split_at
    )
    stages = text.split("// ")
    by_name = {stage.partition("\n")[0]: stage for stage in stages[1:]}
    for number, stage in ((0, 0), (1, 1), (2, 1), (3, 2)):
        weight = f'variable "model.layers.{number}.qkv.weight"'
        for name in ("forward", "backward", "update"):
            for other in range(3):
                assert (weight in by_name[f"{name}({other})"]) == (
                    other == stage
                ), (weight, name, other)
    assert "sends to device 1" in stages[0]
    assert "receives from device 2" in stages[0]
    assert "mica.send(" in by_name["forward(0)"]
    assert "mica.receive(" in by_name["forward(1)"]


def test_ops_know_their_modules(trained: Trained) -> None:
    text = str(trained.program)
    assert ' in "model.layers.2.mlp.0"' in text
    assert ' backward "model.layers.2.mlp.0"' in text
    assert ' in "model.embed"' in text


def test_sgd_with_momentum_runs_pinned() -> None:
    trained = Trained("sgd", 2)
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=2)
    _, want = run(trained, mica.Schedule("gpipe", devices=1, micro_batches=2))
    _, state = run(trained, schedule, cpus=[0, 0])
    assert_same(state, want)


def test_takes_a_mapping_for_each_micro_batch(trained: Trained) -> None:
    schedule = mica.Schedule("gpipe", devices=2, micro_batches=4)
    executor = mica.Executor("cpu", num_threads=1)
    whole = feeds(4)
    trained.restart()
    want = executor.run(trained.program, whole, schedule=schedule)
    trained.restart()
    parts = [
        {name: t[i * BATCH :][:BATCH] for name, t in whole.items()}
        for i in range(4)
    ]
    got = executor.run(trained.program, parts, schedule=schedule)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(got, want, strict=True))


def test_tells_when_jobs_ran(trained: Trained) -> None:
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    executor = mica.Executor("cpu", num_threads=1)
    assert executor.schedule_trace(trained.program, schedule) == ""
    executor.run(trained.program, feeds(4), schedule=schedule)
    trace = json.loads(executor.schedule_trace(trained.program, schedule))
    jobs = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(jobs) == 2 * (4 + 4 + 1)
    assert all(event["dur"] > 0 for event in jobs)


def test_writes_raise_version_counters(trained: Trained) -> None:
    weight = trained.program.tensors["model.head.weight"]
    before = weight._version
    schedule = mica.Schedule("gpipe", devices=1, micro_batches=4)
    mica.Executor("cpu").run(trained.program, feeds(4), schedule=schedule)
    assert weight._version > before


def expect(
    trained: Trained,
    error: type[Exception],
    message: str,
    call: Callable[[], Any],
) -> None:
    """The call says so, and updates nothing."""
    before = trained.state()
    with pytest.raises(error, match=message):
        call()
    assert_same(trained.state(), before)


def test_says_what_is_wrong_with_feeds(trained: Trained) -> None:
    executor = mica.Executor("cpu")
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    good = feeds(4)

    def fed(feed: Any) -> Callable[[], Any]:
        return lambda: executor.run(trained.program, feed, schedule=schedule)

    part = feeds(1)
    expect(
        trained,
        ValueError,
        'micro-batch 0: feed "labels" is missing: wants i64',
        fed({"tokens": good["tokens"]}),
    )
    expect(
        trained,
        ValueError,
        r'"tokens": wants 4 micro-batches of i64\[2,5\], 8 rows, got \[7, 5\]',
        fed({**good, "tokens": good["tokens"][:7]}),
    )
    expect(
        trained,
        ValueError,
        "wants feeds of 4 micro-batches, got 3",
        fed([part] * 3),
    )
    expect(
        trained,
        ValueError,
        'micro-batch 2: feed "labels" is missing',
        fed([part, part, {"tokens": part["tokens"]}, part]),
    )
    expect(
        trained,
        ValueError,
        'feed "more" is no input of program @step',
        fed({**good, "more": good["tokens"]}),
    )


def test_says_what_is_wrong_with_schedules(trained: Trained) -> None:
    executor = mica.Executor("cpu")
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    with pytest.raises(ValueError, match='zb_h1 or zbv, got "2f2b"'):
        mica.Schedule("2f2b", devices=2, micro_batches=4)
    with pytest.raises(ValueError, match="micro-batches: wants 1 to"):
        mica.Schedule("1f1b", devices=2, micro_batches=0)
    with pytest.raises(ValueError, match="got backwards"):
        mica.Schedule(
            "1f1b", devices=2, micro_batches=4, costs={"backwards": 1}
        )
    swapped = str(mica.Schedule("1f1b", devices=2, micro_batches=2))
    swapped = swapped.replace(
        "backward(1,0)\n    forward(1,1)", "forward(1,1)\n    backward(1,0)"
    ).replace(
        "forward(0,1)\n    backward(0,0)", "backward(0,0)\n    forward(0,1)"
    )
    with pytest.raises(ValueError, match="deadlock: device 0: backward"):
        mica.Schedule.parse(swapped)
    missing = str(schedule).replace("    backward(1,2)\n", "")
    with pytest.raises(ValueError, match=r"backward\(1,2\)"):
        mica.Schedule.parse(missing)
    with pytest.raises(ValueError, match="a job type"):
        mica.Schedule.parse(str(schedule).replace("update(1)", "upgrade(1)"))

    def split(at: list[str]) -> Callable[[], Any]:
        return lambda: executor.run(
            trained.program, feeds(4), schedule=schedule, split_at=at
        )

    expect(
        trained,
        LookupError,
        'module "model.layers.9" runs no forward op; there are .*'
        "model.layers.3.mlp",
        split(["model.layers.9"]),
    )
    expect(trained, ValueError, "got 2", split(["model.head"] * 2))
    frozen = mica.Executor("cpu", frozen=True)
    expect(
        trained,
        NotImplementedError,
        "frozen",
        lambda: frozen.run(trained.program, feeds(4), schedule=schedule),
    )
    expect(
        trained,
        ValueError,
        "device 1: CPU 1000",
        lambda: executor.run(
            trained.program, feeds(4), schedule=schedule, cpus=[0, 1000]
        ),
    )
    expect(
        trained,
        LookupError,
        'fetch "nope"',
        lambda: executor.run(
            trained.program, feeds(4), ["nope"], schedule=schedule
        ),
    )


def test_forward_passes_alone_are_pipelines_too() -> None:
    model = Net().eval()

    @torch.no_grad()
    def infer(tokens: Tensor) -> Tensor:
        return model(tokens)

    tokens = feeds(2)["tokens"]
    program = mica.capture(infer, (tokens[:BATCH],))
    schedule = mica.Schedule.parse(
        "schedule @infer(micro_batches=2, stages=[0,1]) {\n"
        "  device {\n    forward(0,0)\n    forward(0,1)\n  }\n"
        "  device {\n    forward(1,0)\n    forward(1,1)\n  }\n}\n"
    )
    executor = mica.Executor("cpu", num_threads=1)
    ((name, _),) = program.inputs
    got = executor.run(program, {name: tokens}, schedule=schedule)
    for i, (logits,) in enumerate(got):
        part = tokens[i * BATCH :][:BATCH]
        (want,) = executor.run(program, {name: part})
        assert torch.equal(logits, want)
    trains = mica.Schedule("1f1b", devices=2, micro_batches=2)
    with pytest.raises(ValueError, match="tells of no backward op"):
        executor.run(program, {name: tokens}, schedule=trains)


def test_draws_tables_and_pictures() -> None:
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=2)
    assert schedule.table().splitlines() == [
        "device 0 | F0 F1 .  .  B0 B0 .  B1 B1",
        "device 1 | .  F0 B0 B0 F1 B1 B1",
    ]
    assert schedule.svg().startswith("<svg")
    assert mica.Schedule.parse(str(schedule)).table() == schedule.table()
    assert 0 < schedule.bubble < 1

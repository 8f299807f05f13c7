"""What threads take from a queue gives the numbers of one thread."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from e2e.branches import PROGRAM, Branches, assert_a_fork_is_told
from e2e.training import make_step
from torch import Tensor

import mica


@pytest.mark.parametrize("spin", ["0", "1"])
def test_compiled_branches(monkeypatch: pytest.MonkeyPatch, spin: str) -> None:
    torch.manual_seed(0)
    model, x = Branches(16).eval(), torch.randn(2, 16, 64, 64)
    with torch.no_grad():
        monkeypatch.setenv("MICA_NUM_THREADS", "1")
        one = mica.compile(model, frozen=True)
        one(x)
        want = one(x)
        monkeypatch.setenv("MICA_NUM_THREADS", "3")
        monkeypatch.setenv("MICA_SPIN", spin)
        many = mica.compile(model, frozen=True)
        many(x)  # Runs eagerly: other kernels.
        for _ in range(19):
            assert torch.equal(many(x), want)
    made = mica.explain(many)
    assert made.hits == 19
    assert made.is_one_graph


def test_training_steps_of_two_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MICA_NUM_THREADS", "2")

    def train(_: object = None) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        model = Branches(16)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.uniform_(-0.1, 0.1, generator=generator)
        x = torch.randn(2, 16, 32, 32, generator=generator)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = mica.compile(
            make_step(optimizer, lambda x: (model(x) ** 2).mean())
        )

        losses = [step(x) for _ in range(8)]
        return losses + [p.detach().clone() for p in model.parameters()]

    alone = train()
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(train, range(2)))
    for results in both:
        assert len(results) == len(alone)
        for got, want in zip(results, alone, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_a_forked_process_runs_alone() -> None:
    program = mica.Program.parse(PROGRAM)
    x = torch.randn(320, 320)
    executor = mica.Executor(num_threads=2, queue=True)
    (want,) = executor.run(program, {"x": x})
    child = os.fork()
    if child == 0:
        (got,) = executor.run(program, {"x": x})
        os._exit(0 if got.numpy().tobytes() == want.numpy().tobytes() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_process_is_told_of_teams() -> None:
    assert_a_fork_is_told(mica.Executor(num_threads=2, queue=False))

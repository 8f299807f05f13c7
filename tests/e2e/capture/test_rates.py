"""Training steps that set their own rate: schedules of torch and by hand.

Which calls are captured, served or run eagerly is told for each schedule, and
all that training leaves behind is held to an eager twin's, bit for bit.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, report
from torch import nn
from torch.optim import Optimizer, lr_scheduler

import mica

Maker = Callable[[Optimizer], Any]

# The first call makes the optimizer's state, and tells which numbers are read
# and then set; so does a letter "e" further on, where others are. A "c" is the
# first call that goes another way, or that finds another number changed.
SCHEDULES: dict[str, tuple[Maker, str]] = {
    "constant": (
        lambda o: lr_scheduler.ConstantLR(o, 0.5, 6),
        "ecchhechhhhhhhhhhhhhhhhh",
    ),
    "linear": (
        lambda o: lr_scheduler.LinearLR(o, 0.5, total_iters=8),
        "ecchhhhhchhhhhhhhhhhhhhh",
    ),
    "exponential": (
        lambda o: lr_scheduler.ExponentialLR(o, 0.9),
        "echhhhhhhhhhhhhhhhhhhhhh",
    ),
    "polynomial": (
        lambda o: lr_scheduler.PolynomialLR(o, 15, 2.0),
        "ecchhhhhhhhhhhhchhhhhhhh",
    ),
    "step": (
        lambda o: lr_scheduler.StepLR(o, 7),
        "ecchhhechhhhhchhhhhhhhhh",
    ),
    "multistep": (
        lambda o: lr_scheduler.MultiStepLR(o, [5, 9]),
        "ecchechhchhhhhhhhhhhhhhh",
    ),
    "cosine": (
        lambda o: lr_scheduler.CosineAnnealingLR(o, 25),
        "ecchhhhhhhhhhhhhhhhhhhhh",
    ),
    "cosine with restarts": (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 8, 2),
        "ecchhhhechhhhhhhhhhhhhhc",
    ),
    "by a function": (
        lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (1 + n)),
        "ecchhhhhhhhhhhhhhhhhhhhh",
    ),
    "by a factor": (
        lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: 0.95),
        "ecchhhhhhhhhhhhhhhhhhhhh",
    ),
    "warm-up": (
        lambda o: lr_scheduler.LambdaLR(o, lambda n: min(1.0, (n + 1) / 6)),
        "ecchhhhhhhhhhhhhhhhhhhhh",
    ),
    "warm-up and cosine by hand": (
        lambda o: lr_scheduler.LambdaLR(o, warm_up),
        "ecchhchhhhhhhhhhhhhhhhhh",
    ),
    "one cycle": (
        lambda o: lr_scheduler.OneCycleLR(
            o, 0.1, total_steps=40, cycle_momentum=False
        ),
        "ecchhhhhhhhchhhhhhhhhhhh",
    ),
    "one cycle, of momentum too": (
        lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40),
        "ecchhhhhhhhchhhhhhhhhhhh",
    ),
    "cyclic": (
        lambda o: lr_scheduler.CyclicLR(
            o, 0.01, 0.1, step_size_up=5, cycle_momentum=False
        ),
        "ecchhchhhhhhhhhhhhhhhhhh",
    ),
    "one after the other": (
        lambda o: lr_scheduler.SequentialLR(
            o,
            [
                lr_scheduler.LinearLR(o, 0.1, total_iters=5),
                lr_scheduler.CosineAnnealingLR(o, 20),
            ],
            [5],
        ),
        "ecchcecchhhhhhhhhhhhhhhh",
    ),
    "one by the other": (
        lambda o: lr_scheduler.ChainedScheduler(
            [
                lr_scheduler.LinearLR(o, 0.1, total_iters=5),
                lr_scheduler.ExponentialLR(o, 0.9),
            ]
        ),
        "ecchhchhhhhhhhhhhhhhhhhh",
    ),
}


def warm_up(n: int) -> float:
    if n < 6:
        return (n + 1) / 6
    return 0.5 * (1 + math.cos(math.pi * (n - 6) / 40))


class Training:
    """A net, its optimizer and its schedule, from one seed."""

    def __init__(self, make: Maker) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        groups = [
            {"params": self.net[0].parameters()},
            {"params": self.net[2].parameters(), "lr": 0.05},
        ]
        self.optimizer = torch.optim.Adam(groups, lr=0.1)
        self.schedule = make(self.optimizer)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    def left(self) -> list[Any]:
        """All that the step changes, numbers by value."""
        groups = [
            {k: v for k, v in group.items() if k != "params"}
            for group in self.optimizer.param_groups
        ]
        schedules = [self.schedule, *getattr(self.schedule, "_schedulers", [])]
        return [
            [p.detach().tolist() for p in self.net.parameters()],
            [
                {k: v.tolist() for k, v in state.items()}
                for state in self.optimizer.state.values()
            ],
            groups,
            [plain(schedule) for schedule in schedules],
        ]


def plain(schedule: Any) -> dict[str, Any]:
    kinds = (int, float, list, Counter)
    return {
        k: v
        for k, v in vars(schedule).items()
        if isinstance(v, kinds) and k not in ("_schedulers", "lr_lambdas")
    }


def batches(count: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield (
            torch.randn(8, 4, generator=generator),
            torch.randint(0, 2, (8,), generator=generator),
        )


@pytest.fixture(scope="module", autouse=True)
def _set_up() -> None:
    """Torch sets itself up at the first watched step of a process."""
    with torch.enable_grad():
        training = Training(SCHEDULES["exponential"][0])
        step = mica.compile(training.step)
        for x, y in batches(2):
            step(x, y)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_in_a_step(name: str) -> None:
    make, want = SCHEDULES[name]
    told = ""
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, plain = Training(make), Training(make)
        step = mica.compile(mine.step, exact=True)
        for x, y in batches(len(want)):
            loss, letter = call_and_tell(step, x, y)
            told += letter
            assert loss.item() == plain.step(x, y).item()
            assert mine.left() == plain.left()
    assert told == want, str(report(step))
    assert len(report(step).graphs) == want.count("c")

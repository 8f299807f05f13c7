"""The training step that most tests run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Step = Callable[..., torch.Tensor]


def make_step(optimizer: torch.optim.Optimizer, loss: Step) -> Step:
    """Returns a step of training that takes and returns what `loss` does."""

    def step(*args: Any, **kwargs: Any) -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(*args, **kwargs)
        value.backward()
        optimizer.step()
        return value

    return step

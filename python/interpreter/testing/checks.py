"""What checks of interpreter.h share: each is a function that raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# By name.
CHECKS: dict[str, Callable[[], None]] = {}


def check(fn: Callable[[], None]) -> Callable[[], None]:
    """Adds a check under its name."""
    assert fn.__name__ not in CHECKS
    CHECKS[fn.__name__] = fn
    return fn


class Module:
    """Stands for torch.nn.Module."""

    def __call__(self, *args: Any) -> Any:
        return self.forward(*args)


class Plain:
    def __init__(self, x: Any = 1, y: Any = 2) -> None:
        self.x = x
        self.y = y

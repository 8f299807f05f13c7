"""Programs that leave their graph, and what their pieces must agree with."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import torch
from e2e.capture.agreement_of_calls import report, same, x

import mica

LOG: list[Any] = []


def note(*values: Any) -> None:
    """An effect that no record has: it is cut out."""
    LOG.append((os.getpid() > 0, *values))


def in_pieces(
    fn: Callable[..., Any],
    args: Callable[[int], tuple[Any, ...]] | None = None,
    graphs: int | None = None,
    calls: int = 6,
) -> Any:
    """Calls compiled and plain in turn; results and effects must agree.

    Args:
      fn: The program.
      args: Of call number i.
      graphs: Runs of pieces as graphs in the last call.
      calls: How many.
    """
    compiled = mica.compile(fn)
    for i in range(calls):
        given = args(i) if args is not None else (x(i),)
        mine = copy.deepcopy(given)
        LOG.clear()
        want = fn(*given)
        effects = list(LOG)
        LOG.clear()
        got = compiled(*mine)
        same(got, want)
        same(LOG, effects)
        same(mine, given)
    told = report(compiled)
    if graphs is not None:
        assert told.last_graphs == graphs, str(told)
        assert told.split_calls >= calls - 2, str(told)
    return compiled


# Two graphs around a step.
def middle(a: torch.Tensor) -> torch.Tensor:
    b = torch.relu(a) + 1
    note("here")
    return b * 2 - a


# Three graphs around two steps, the second within a context.
def under_no_grad(a: torch.Tensor) -> torch.Tensor:
    b = a * 2
    note(1)
    with torch.no_grad():
        c = b + 1
        note(2)
        d = c * b
    return d

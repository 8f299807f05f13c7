"""Compiled callables against the plain ones, over several calls."""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import mica


def same(a: Any, b: Any) -> None:
    """Asserts that two results are equal, structure and metadata included."""
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.stride() == b.stride()
        assert a.requires_grad == b.requires_grad
        torch.testing.assert_close(a, b, equal_nan=True)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, float):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6, equal_nan=True)
    elif hasattr(a, "__dict__") and not isinstance(a, (type, nn.Module)):
        same(vars(a), vars(b))
    else:
        assert a == b or (a != a and b != b)


def run_text(name: str, source: str, **names: Any) -> dict[str, Any]:
    """Returns what a program's text defines; its lines have tracebacks."""
    lines = source.splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)
    exec(compile(source, name, "exec"), names)
    return names


def report(compiled: Any) -> mica.Explanation:
    return mica.explain(compiled)


def call_and_tell(fn: Any, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """Returns a call's result, and a letter.

    "h" for a hit, "c" a capture, "p" pieces with a graph among them, "e" eager.
    """
    before = report(fn)
    result = fn(*args, **kwargs)
    after = report(fn)
    if after.hits > before.hits:
        return result, "h"
    if after.eager_calls > before.eager_calls:
        return result, "e"
    return result, "p" if after.split_calls > before.split_calls else "c"


def check(fn: Any, *calls: tuple[Any, ...], hits: int | None = None) -> Any:
    """Calls compiled and plain in turn; `hits` is how many a record served."""
    compiled = mica.compile(fn)
    for args in calls:
        mine = copy.deepcopy(args)
        want = fn(*args)
        same(compiled(*mine), want)
        same(mine, args)
    if hits is not None:
        assert report(compiled).hits == hits, str(report(compiled))
    return compiled


def assert_served(served: Callable[[int], int], first: int, count: int) -> None:
    """Checks random programs: as many of their calls are served as there are.

    Args:
      served: Checks the program of a seed, and tells how many of its calls a
        record served.
      first: The first seed.
      count: How many seeds.
    """
    hits = sum(map(served, range(first, first + count)))
    assert hits >= count  # Else it compares eager with eager.


def pure_until(count: int) -> tuple[list[int], Callable[[], None]]:
    """Makes a function annotated as pure that raises from some call on.

    Args:
      count: Calls that it bears; the next ones raise ValueError.
    Returns:
      A list with an entry for each call so far, and the function.
    """
    calls: list[int] = []

    def moody() -> None:
        calls.append(0)
        if len(calls) > count:
            raise ValueError("no")

    mica.annotate(moody, "pure")
    return calls, moody


X = torch.arange(12.0).reshape(3, 4)


def x(seed: int = 0, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape or (3, 4), generator=generator)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.bn = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0
        self.options = {"bias": True, "nested": [1, 2]}

    def forward(self, a):
        h = self.fc(a) * self.scale + len(self.options["nested"])
        if self.options["bias"]:
            h = h + 1
        return self.drop(self.bn(h))

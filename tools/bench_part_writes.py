#!/usr/bin/env python3
"""What does it cost to write one row into a buffer of 64 MB?

Caches as decoders keep them, on one thread: a row for each of 32 sequences by
index_copy_, at a position that the module counts, and one at an argument's.
Mica against eager, which take turns.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import torch
from torch import nn

import mica
from bench_common import (
    add_json_flag,
    interleave,
    ratios,
    spread,
    write_json,
)

ROWS, WIDTH = 1024, 512
CALLS = 50


class Cache(nn.Module):
    """A buffer of 32 sequences' rows, and how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: torch.Tensor
        self.register_buffer("rows", torch.zeros(32, ROWS, WIDTH))
        self.at = 0


class Copied(Cache):
    """By an index that is a tensor."""

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Writes a row of each sequence."""
        self.rows.index_copy_(1, at, x[:, None])
        return self.rows[:, :4].sum()


class Counted(Cache):
    """By a number that the module counts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Writes a row of each sequence."""
        self.rows[:, self.at] = x
        self.at = (self.at + 1) % ROWS
        return self.rows[:, :4].sum()


class Given(Cache):
    """By an argument, of one sequence."""

    def forward(self, x: torch.Tensor, at: int) -> torch.Tensor:
        """Writes a row of one sequence."""
        self.rows[3, at] = x[0]
        return self.rows[3, at].sum()


def cases() -> Iterator[tuple[str, type[Cache], Callable[[int], Any]]]:
    """Yields name, class, and a call's arguments by its number."""
    x = torch.randn(32, WIDTH)
    yield "index_copy_", Copied, lambda n: (x, torch.tensor([n % ROWS]))
    yield "counted position", Counted, lambda n: (x,)
    yield "argument", Given, lambda n: (x, n % ROWS)


def call_next(
    fn: Any, given: Callable[[int], Any], numbers: Iterator[int]
) -> object:
    """A call with the next number's arguments."""
    return fn(*given(next(numbers)))


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json_flag(parser)
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, kind, given in cases():
        compiled: Any = mica.compile(kind())
        calls: dict[str, Callable[[], object]] = {
            "eager": functools.partial(call_next, kind(), given, count()),
            "mica": functools.partial(call_next, compiled, given, count()),
        }
        with torch.no_grad():
            interleave(calls, 1, 5)
            seconds = interleave(calls, arguments.rounds, CALLS)
        times = spread(ratios(seconds["mica"], seconds["eager"]))
        told = mica.explain(compiled)
        row = {
            "name": name,
            "eager_us": spread(seconds["eager"], 1e6),
            "mica_us": spread(seconds["mica"], 1e6),
            "by_eager": times,
            "captures": told.captures,
        }
        rows.append(row)
        print(
            f"{name:18} {row['mica_us']['median']:7.1f} us, eager "
            f"{row['eager_us']['median']:7.1f}; {times['median']:.2f} of it "
            f"({times['min']:.2f} to {times['max']:.2f}), "
            f"{told.captures} captures"
        )
    write_json(arguments.json, {"cases": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Text that str.format() makes shows what there is at each call."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.twin_worlds import Twins, programs

PROGRAMS = programs("format_fields.txt")
WORLD = """
class Own:
    val = 1
class Meter:
    unit = "a"
    def __init__(self):
        self.val = self.count = self.total = self.avg = 0
        self.own = Own()
    def update(self, v):
        self.val = v; self.total += v; self.count += 1
        self.avg = self.total / self.count
    @property
    def twice(self): return self.val * 2
    def __repr__(self): return f"Meter({self.count})"
M, D, L = Meter(), {"k": 0.5, "n": 1}, [1, 2]
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_format_shows_what_there_is(name):
    program, call = PROGRAMS[name]
    twins = Twins(name, f"{WORLD}{program}\n")
    for i in range(9):
        twins.call(
            call,
            then="[M.val, M.count, M.avg, D, L]",
            X=torch.linspace(-1.0, 1.5, 6) + i,
            I=i,
        )

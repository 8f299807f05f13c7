"""Numpy arrays that share memory with tensors show what these hold."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.twin_worlds import Twins, programs

PROGRAMS = programs("shared_memory.txt")
WORLD = "import numpy, torch, array\nI_ = [0]\nA = T = U = None\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_array_shows_what_its_tensor_holds(name):
    program, call = PROGRAMS[name]
    twins = Twins(name, f"{WORLD}{program}\n")
    for i in range(7):
        x = torch.linspace(-1.0, 1.5, 6) + i * (i % 2)
        twins.call(call, then="[X, A, T, U]", X=x, I=i)

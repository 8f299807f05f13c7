"""Numbers and texts that a program hands on are the objects that eager has."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.twin_worlds import Twins, programs

PROGRAMS = programs("own_objects.txt")
WORLD = """
import mica
class O: u = "ab"
S = O(); S.v = 0.5; S.w = 0.25; S.n = 1000; S.t = "ab"
D, TOLD, T = {}, [], "ab"
NAN = float("nan")
L = [NAN, 1.0]
def tell(v, n): TOLD.append((v, n))
mica.annotate(tell, "host")
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_objects_are_eager_s(name):
    program, call = PROGRAMS[name]
    twins = Twins(name, f"{WORLD}{program}\n")
    for i in range(14):
        twins.call(
            call,
            then="[vars(S), D]",
            X=torch.linspace(-1.0, 1.5, 6),
            I=i,
            V=float(str(i // 2 + 0.25)),
            N=int(str(i // 2 * 7)),
        )

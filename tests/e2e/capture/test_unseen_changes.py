"""What is easily taken for something else that is guarded, or not at all."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.twin_worlds import Twins, programs

PROGRAMS = programs("kept_in_c.txt") | programs("words_and_keys.txt")
WORLD = """
import torch
class O: pass
S = O()
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_is_seen(name):
    program, call, changes = PROGRAMS[name]
    twins = Twins(name, f"{WORLD}{program}\n")
    for change in ["pass", *changes.splitlines()]:
        twins.call(change)
        for _ in range(3):
            twins.call(call, X=torch.linspace(-1.0, 1.5, 3))

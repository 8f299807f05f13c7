"""Programs in a process where torch.compile runs, too."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo import mutation_guard

import mica


@pytest.fixture
def tracker():
    """What torch.compile counts its beginnings by."""
    mutation_guard.install_generation_tagging_init()  # Patches nn.Module.
    before = mutation_guard.GenerationTracker.generation
    yield mutation_guard.GenerationTracker
    mutation_guard.GenerationTracker.generation = before


def test_modules_that_a_call_makes_are_no_other_at_each_compile(tracker):
    compiled = mica.compile(lambda x: nn.ReLU()(x) * 2)
    for _ in range(6):
        tracker.generation += 1
        assert compiled(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 4.0]
    assert mica.explain(compiled).hits == 5


def test_who_asks_for_the_count_gets_it(tracker):
    compiled = mica.compile(lambda x: x * tracker.generation)
    for _ in range(6):
        tracker.generation += 1
        assert compiled(torch.ones(1)).item() == tracker.generation

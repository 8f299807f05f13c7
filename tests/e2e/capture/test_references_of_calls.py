"""A compiled callable takes no more with each call than the plain one does.

The programs of the sequences are called again and again: what records, misses
and refusals keep is there after the first rounds, and no further round adds to
it.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from e2e.capture import (
    test_sequences,
    test_sequences_of_numbers,
    test_sequences_of_state,
)
from e2e.capture.references import SINGLE, run_and_compare
from e2e.capture.sequences_of_calls import arguments, make_world, sequences

import mica

pytestmark = [
    pytest.mark.once("it counts by itself"),
    pytest.mark.skipif(
        os.environ.get("MICA_REFERENCES") == "none", reason="nothing is counted"
    ),
]

# Until a callable has all the records that it may have, or gives up.
FIRST_ROUNDS = 25


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *value.values()]
    if isinstance(value, (list, tuple)):
        return [value, *value]
    return [value, *getattr(value, "__dict__", {}).values()]


def _changes(program: str, steps: list[str], is_compiled: bool) -> list[str]:
    """Returns what rounds of a sequence's calls change, in its last world."""
    world = make_world(program)
    fn = mica.compile(world["program"]) if is_compiled else world["program"]

    def call(step: str) -> None:
        args, kwargs = arguments(step, world)
        try:
            fn(*args, **kwargs)
        except Exception:
            pass  # Of a program and a world that don't go together any more.

    calls = [step for step in steps if not step.startswith("! ")]
    for step in steps:
        call(step) if step in calls else exec(step[2:], world)

    def run() -> None:
        torch.manual_seed(0)
        for step in calls:
            call(step)

    for _ in range(FIRST_ROUNDS):
        run()
    is_settled = True
    if is_compiled:
        before = mica.explain(fn)
        run()
        after = mica.explain(fn)
        is_settled = (before.dropped, len(before.graphs)) == (
            after.dropped,
            len(after.graphs),
        )
    parts = [part for value in world.values() for part in _parts(value)]
    watched = {id(item): item for item in [*SINGLE, *parts]}.values()
    return run_and_compare(run, [*watched], with_heap=is_settled)


@pytest.mark.parametrize(
    "module",
    [test_sequences, test_sequences_of_numbers, test_sequences_of_state],
    ids=lambda module: module.__name__.rpartition(".")[2],
)
def test_calls_take_no_more_each_time(module):
    found = []
    for parameters in sequences(module.SEQUENCES):
        program, steps, _ = parameters.values
        told = _changes(program, steps, is_compiled=True)
        # Some programs do take more each time.
        if told and not _changes(program, steps, is_compiled=False):
            found.append((parameters.id, told))
    assert not found

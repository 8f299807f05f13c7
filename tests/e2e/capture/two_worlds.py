"""Steps in an eager and in a compiled world, compared one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from e2e.capture.agreement_of_calls import report, same

import mica


def check(make: Callable[[], Any], *steps: Callable[[Any, Any], Any]) -> int:
    """Takes steps in an eager and in a compiled world; returns the hits.

    `make` gives a namespace with a `program`; a step gets it and the callable,
    and returns what is compared.
    """
    eager, served = make(), make()
    compiled = mica.compile(served.program, exact=True)
    for number, step in enumerate(steps):
        state = random.getstate()
        want = step(eager, eager.program)
        random.setstate(state)
        got = step(served, compiled)
        try:
            same(got, want)
        except AssertionError as error:
            raise AssertionError(f"step {number}: {got}, not {want}") from error
    return report(compiled).hits


class World:
    """A namespace."""

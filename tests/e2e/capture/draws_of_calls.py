"""Programs that draw, beside eager twins: results and generators' states."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from e2e.capture.agreement_of_calls import call_and_tell, report, same

import mica

CALLS = 32


def states(*others: Any) -> list[bytes]:
    """Returns the states of the global generators, and of `others`."""
    return [
        pickle.dumps(random.getstate()),
        pickle.dumps(np.random.get_state(legacy=False)),
        torch.get_rng_state().numpy().tobytes(),
        *(pickle.dumps(other) for other in others),
    ]


def seed(number: int = 1) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def vector(i: int) -> tuple[torch.Tensor]:
    return (torch.arange(4.0) + i,)


def outcome(fn: Any, args: tuple[Any, ...]) -> tuple[Any, str]:
    """Returns a call's result and letter; of one that raises, what and "x"."""
    try:
        return call_and_tell(fn, *args)
    except Exception as error:
        return (type(error).__name__, str(error)), "x"


def twins(
    make: Callable[[], tuple[Callable[..., Any], Sequence[Any]]],
    args: Callable[[int], tuple[Any, ...]] = vector,
    calls: int = CALLS,
    stance: Any = "default",
    **options: Any,
) -> tuple[Any, str]:
    """Calls a program and its eager twin; all states must agree at each call.

    Args:
      make: Gives a new program, and the generators and other objects of its
        own whose states count.
      args: Of call number i.
      calls: How many.
      stance: Under which the compiled ones are made.
      options: Of `mica.compile`.
    Returns:
      The compiled callable, and a letter for each call: "x" for one that
      raises, others as call_and_tell() has them.
    """
    seed()
    fn, others = make()
    wanted = []
    for i in range(calls):
        try:
            result = fn(*args(i))
        except Exception as error:
            result = (type(error).__name__, str(error))
        wanted.append((result, states(*others)))
    seed()
    fn, others = make()
    compiled = mica.compile(fn, **options)
    letters = ""
    for i, (result, then) in enumerate(wanted):
        with mica.stance(stance):
            got, letter = outcome(compiled, args(i))
        letters += letter
        same(got, result)
        assert states(*others) == then, f"call {i}: {report(compiled)}"
    return compiled, letters


def plain(program: Callable[..., Any]) -> Callable[[], Any]:
    """What twins() wants of a program without objects of its own."""
    return lambda: (program, ())

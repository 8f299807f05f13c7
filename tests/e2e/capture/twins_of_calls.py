"""Programs that do something outside, compiled and plain, in worlds apart.

A world is a function without arguments that makes a program and a function
that shows its state. Each call's result, exception, state and text has to be
the same in both worlds.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from typing import Any

import torch
from e2e.capture.agreement_of_calls import report, same

import mica

World = Callable[[], tuple[Callable[..., Any], Callable[[], Any]]]


def outcome(fn: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, str]:
    """Returns what a call gives or raises, and what it writes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            given = fn(*args)
        except Exception as error:
            given = (type(error), str(error))
    return given, f"{out.getvalue()}|{err.getvalue()}"


def shown(value: Any) -> str:
    """A text of a value that tells all that a comparison is to tell."""
    if isinstance(value, torch.Tensor):
        return f"{value.tolist()} {value.requires_grad} {value.grad}"
    if isinstance(value, dict):
        return str([(shown(k), shown(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return str([shown(item) for item in value])
    return repr(value)


def agree(
    world: World, *calls: tuple[Any, ...], between: Any = None
) -> tuple[str, Any]:
    """Calls both twins in turn.

    Args:
      world: Makes a program and what shows its state.
      calls: Arguments.
      between: Called with the call's number before each call of each world,
        with what the world's program has as its attribute `handle`.
    Returns:
      What happened: "h" a hit, "c" a capture, "p" pieces, "e" eager; and the
      compiled callable.
    """
    eager, state = world()
    plain, own_state = world()
    fast = mica.compile(plain)
    letters = ""
    for number, args in enumerate(calls):
        if between is not None:
            between(number, getattr(eager, "handle", None))
        want, text = outcome(eager, args)
        if between is not None:
            between(number, getattr(plain, "handle", None))
        before = report(fast)
        got, own_text = outcome(fast, args)
        after = report(fast)
        same(got, want)
        assert own_text == text, (number, own_text, text)
        assert shown(own_state()) == shown(state()), number
        letters += (
            "h"
            if after.hits > before.hits
            else "e"
            if after.eager_calls > before.eager_calls
            else "p"
            if after.split_calls > before.split_calls
            else "c"
        )
    return letters, fast

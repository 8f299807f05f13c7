"""The table of ONNX operators: one small Python function each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

# The opset up to which the table was read against the operators' definitions.
NEWEST_OPSET = 28


@dataclass(frozen=True)
class Operator:
    """How one operator runs.

    Attributes:
      call: Takes inputs by position, None for one that is left out, and
        attributes by keyword; returns a value, or a tuple of them.
      since: The first opset for which it holds.
      sizes: Positions of inputs that it takes as Python numbers and tuples;
        from `rest` on, all of them.
      numbers: Positions at which it takes a Python number for a scalar, too.
      attributes: Names of the attributes that it takes.
      is_random: Two calls give different results.
      wants_outputs: It takes the number of outputs as `outputs`.
      wants_dtype: It takes the dtype of sizes that Python holds as `dtype`.
    """

    call: Callable[..., Any]
    since: int
    sizes: tuple[int, ...]
    numbers: tuple[int, ...]
    attributes: frozenset[str]
    is_random: bool
    wants_outputs: bool
    wants_dtype: bool


_TABLE: dict[tuple[str, str], list[Operator]] = {}


def operator(
    name: str,
    since: int = 1,
    *,
    domain: str = "",
    sizes: tuple[int, ...] = (),
    numbers: tuple[int, ...] = (),
    is_random: bool = False,
    like: Callable[..., Any] | None = None,
) -> Callable[[_Function], _Function]:
    """Enters the decorated function into the table, as `Operator` says.

    Attributes of `like` are passed on to it.
    """

    def enter(call: _Function) -> _Function:
        names = _keywords(call)
        if like is not None:
            names |= _keywords(like)
        entries = _TABLE.setdefault((domain, name), [])
        entries.append(
            Operator(
                call,
                since,
                sizes,
                numbers,
                frozenset(names - {"outputs", "dtype_of_sizes"}),
                is_random,
                "outputs" in names,
                "dtype_of_sizes" in names,
            )
        )
        entries.sort(key=lambda entry: -entry.since)
        return call

    return enter


def _keywords(call: Callable[..., Any]) -> set[str]:
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:  # A builtin of torch, which is all inputs.
        return set()
    return {p.name for p in parameters if p.kind == p.KEYWORD_ONLY}


def find(domain: str, name: str, opset: int) -> Operator | None:
    """Returns the newest entry that holds at an opset; None without one."""
    for entry in _TABLE.get((domain, name), ()):
        if entry.since <= opset:
            return entry
    return None

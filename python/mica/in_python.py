"""Calls whose C code runs the program's Python code, done in Python.

What C code does with an object's `__str__` or a generator's items can't be
followed while it is done. A watched run calls these in its place, with the same
outcome; what they call is followed as the program's own code is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

_print = print
# What a hit prints as it is.
_PRINTED = (str, bytes, int, float, complex, type(None), torch.Tensor)
_PRINTED_WHOLE = (list, tuple, dict, set, frozenset)


def print_texts(
    *values: object,
    sep: str | None = None,
    end: str | None = None,
    file: Any = None,
    flush: bool = False,
) -> None:
    """`print`, by the text of each object that makes its own.

    Args:
      *values: What is printed, at least one.
      sep: As `print` takes it,
      end: the same,
      file: the same, and
      flush: the same.
    """
    last = len(values) - 1
    for i, value in enumerate(values):
        shown = value
        if not isinstance(value, _PRINTED + _PRINTED_WHOLE):
            shown = str(value)
        if i < last:
            # Each before the next makes its text.
            _print(shown, end=" " if sep is None else sep, file=file)
        else:
            _print(shown, end=end, file=file, flush=flush)


def call_with_items(
    function: Callable[..., Any], items: Iterable[Any], /, **keywords: Any
) -> Any:
    """`function(*items, **keywords)`, of items that Python code gives."""
    return function(*[*items], **keywords)

"""What C code folds, or calls a function in C for, done in Python.

As in_python.py: a watched run calls these in place of CPython's own, which
hide the numbers that they pass from one call to the next.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mica import _mica

# As they are before the program replaces any.
_isinstance, _len, _map, _reduce = isinstance, len, map, functools.reduce
_AssertionError, _int, _type, _zip = AssertionError, int, type, zip
_LISTS = (tuple, list)
# Of functions in C the operators that they are.
_OPERATORS: list[tuple[object, Callable[[Any, Any], Any]]] = [
    (operator.add, lambda a, b: a + b),
    (operator.mul, lambda a, b: a * b),
    (operator.and_, lambda a, b: a & b),
    (operator.or_, lambda a, b: a | b),
]


def reduce_items(
    function: Callable[[Any, Any], Any], items: Iterable[Any], /, *initial: Any
) -> Any:
    """`functools.reduce(function, items, *initial)`."""
    for named, own in _OPERATORS:
        if function is named:
            function = own
    found, total = (True, initial[0]) if initial else (False, None)
    for item in items:
        total = function(total, item) if found else item
        found = True
    return total if found else _reduce(function, ())  # Raises.


def multiply(items: Iterable[Any], /, *, start: Any = 1) -> Any:
    """`math.prod(items, start=start)`."""
    total = start
    for item in items:
        total = total * item
    return total


def map_items(
    function: Callable[..., Any], /, *items: Iterable[Any]
) -> Iterator[Any]:
    """`map(function, *items)`, which calls a function in C from Python."""
    if _len(items) == 1:
        return _map(lambda item: function(item), *items)
    return _map(lambda *each: function(*each), *items)


def equal_sizes(x: Any, y: Any) -> bool:
    """`sym_eq(x, y)` of torch's, by which autograd compares sizes."""
    if _isinstance(x, _LISTS) and _isinstance(y, _LISTS):
        if _len(x) != _len(y):
            return False
        equal: bool = True
        for a, b in _zip(x, y, strict=True):
            equal = equal & equal_sizes(a, b)
        return equal
    if _isinstance(x, _int) and _isinstance(y, _int):
        return x == y  # type: ignore[no-any-return]
    raise _AssertionError(f"unexpected sym_eq between {_type(x)} {_type(y)}")


_mica.call_in_place_of(
    "torch.fx.experimental.symbolic_shapes", "sym_eq", equal_sizes
)

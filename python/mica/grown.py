"""Lists and deques that a program adds to, in two parts.

What a record asks, before each hit, of what was there before the call; and how
a watched run goes on from there to what the call added.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from mica import _mica, in_python

# As they are before the program replaces any.
_float, _int, _len = float, int, len
_map, _max, _min, _set, _sum, _type = map, max, min, set, sum, type
_deque, _islice = deque, islice
_NUMBERS = {_float, _int}
_isfinite, _sum_parts = math.isfinite, _mica.sum_parts

_add, _add_up = in_python.add_and_lose, in_python.add_up
_is_long = in_python.is_long

_Items = list[Any] | deque[Any]
# How many items are added then, and whether the first of them is a float.
_Added = tuple[int, bool]
_OnFrom = Callable[[Any], Any]


def _bound(items: Any) -> int | None:
    """The most that it holds; None for any number."""
    bound: int | None = items.maxlen if _type(items) is _deque else None
    return bound


def _kept(items: _Items, num_added: int) -> Sequence[Any] | _Items | None:
    """Those that stay where as many are added; None if not all are numbers."""
    bound = _bound(items)
    if not _set(_map(_type, items)) <= _NUMBERS:
        return None
    if bound is None:
        return items
    return [*_islice(items, _max(0, _len(items) + num_added - bound), None)]


def length(items: _Items, added: _Added) -> int:
    """How many there are with those that are added."""
    size = _len(items) + added[0]
    bound = _bound(items)
    return size if bound is None else _min(size, bound)


def total(items: _Items, added: _Added) -> Any:
    """The sum of those that stay; None if not all are numbers."""
    kept = _kept(items, added[0])
    if kept is None:
        return None
    # To add 0.0 or 0 to a float is the same.
    return _sum(kept) if kept or not added[1] else 0.0


def _parts(items: _Items, added: _Added) -> tuple[float, float] | None:
    """The same, and apart from it what was lost in rounding."""
    kept = _kept(items, added[0])
    if kept is None:
        return None
    return _sum_parts(kept) if kept or not added[1] else (0.0, 0.0)


def total_so_far(items: _Items, added: _Added) -> Any:
    """The first of them; None if not all are numbers."""
    parts = _parts(items, added)
    return None if parts is None else parts[0]


def lost_so_far(items: _Items, added: _Added) -> Any:
    """The second of them; None if not all are numbers."""
    parts = _parts(items, added)
    return None if parts is None else parts[1]


def largest(items: _Items, added: _Added) -> Any:
    """The largest of those that stay; False for none."""
    kept = _kept(items, added[0])
    if kept is None:
        return None
    return _max(kept) if kept else False


def smallest(items: _Items, added: _Added) -> Any:
    """The smallest of those that stay; False for none."""
    kept = _kept(items, added[0])
    if kept is None:
        return None
    return _min(kept) if kept else False


def item(items: list[Any], index: int) -> Any:
    """A number among the items; None for anything else."""
    if not -_len(items) <= index < _len(items):
        return None
    value = items[index]
    return value if _type(value) in _NUMBERS else None


def number_at(table: Any, index: int) -> Any:
    """The number at `index` of a list, a tuple or an array; None for none."""
    if not -_len(table) <= index < _len(table):
        return None
    return table[index]


def length_of_tail(items: list[Any], most: int) -> str:
    """How many of the last ones there are."""
    return f"{_min(_len(items), most)} items"


def is_empty(items: _Items, _: None) -> bool:
    """Whether there are none."""
    return not items


def give(number: int, _: tuple[Any, ...], /) -> _OnFrom:
    """What is called in place of `len`."""
    return lambda _: number


def go_on_adding(number: Any, added: tuple[Any, ...], /) -> _OnFrom:
    """What is called in place of `sum`."""

    def go_on(_: Any) -> Any:
        result = number
        for value in added:
            result = result + value
        return result

    return go_on


def go_on_adding_exactly(
    number: Any, lost_before: float, added: tuple[Any, ...], /
) -> _OnFrom:
    """The same, as CPython does from 3.12 on."""

    def go_on(items: Any) -> Any:
        if _type(number) is _int:
            return _add_up(added, number)
        total, lost = number, lost_before
        for value in added:
            if _type(value) is _float:
                total, lost = _add(total, lost, value)
            elif _is_long(value):
                total = total + _float(value)
            else:
                return _sum(items)  # Which ends the recording.
        if _isfinite(lost):
            return total + lost
        return _sum(items) if _isfinite(total) else total

    return go_on


def go_on_to_largest(number: Any, added: tuple[Any, ...], /) -> _OnFrom:
    """What is called in place of `max`; False for no number."""

    def go_on(_: Any) -> Any:
        found, most = number is not False, number
        for value in added:
            if not found or value > most:
                found, most = True, value
        return most if found else _max(())

    return go_on


def go_on_to_smallest(number: Any, added: tuple[Any, ...], /) -> _OnFrom:
    """What is called in place of `min`; False for no number."""

    def go_on(_: Any) -> Any:
        found, least = number is not False, number
        for value in added:
            if not found or value < least:
                found, least = True, value
        return least if found else _min(())

    return go_on

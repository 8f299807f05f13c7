"""`sorted` and `list.sort` done in Python, question by question.

C code that sorts looks at numbers unseen. A watched run calls these in its
place: each question which of two keys comes first is then one that the program
asks, so that the order holds for all numbers that give the same answers.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

# As they are before the program replaces any.
_bool, _dict, _enumerate, _float, _int = bool, dict, enumerate, float, int
_len, _method = len, types.BuiltinFunctionType
_list, _min, _range, _sorted, _str = list, min, range, sorted, str
_tuple, _type, _error = tuple, type, ValueError

# So many questions as that are asked for: n * log2(n).
_MOST = 32


def in_order(
    items: Iterable[Any], /, *, key: Any = None, reverse: bool = False
) -> list[Any]:
    """`sorted(items, key=key, reverse=reverse)`."""
    found = [*items]
    keys = found if key is None else _keys_of(found, key)
    order = _order_of(keys, reverse)
    if order is None:
        # Of keys that were made already; a tuple's method is C code's.
        places = _range(_len(found))
        order = _sorted(places, key=_tuple(keys).__getitem__, reverse=reverse)
    return [found[i] for i in order]


def sort_items(
    items: list[Any], /, *, key: Any = None, reverse: bool = False
) -> None:
    """`items.sort(key=key, reverse=reverse)`."""
    found = items[:]
    if key is None:
        items[:] = in_order(found, reverse=reverse)
        return
    items.clear()  # So the key function finds it.
    try:
        ordered = in_order(found, key=key, reverse=reverse)
    except BaseException:
        items[:] = found
        raise
    is_changed = _len(items) > 0
    items[:] = ordered
    if is_changed:
        raise _error("list modified during sort")


def _keys_of(found: list[Any], key: Any) -> list[Any]:
    if _type(key) is _method and key.__name__ == "__getitem__":
        holder = key.__self__
        if _type(holder) is _list or _type(holder) is _dict:
            return [holder[item] for item in found]
    return [key(item) for item in found]


def _order_of(keys: list[Any], descends: bool) -> list[int] | None:
    """Where the keys are, the first first; None if C code is to find that.

    By binary insertion, behind equal ones: any way to sort keys that are
    ordered gives this order.
    """
    if _len(keys) > _MOST:
        return None
    for key in keys:
        if not _is_ordered(key):
            return None
    order: list[int] = []
    for i, key in _enumerate(keys):
        low, high = 0, _len(order)
        while low < high:
            middle = (low + high) // 2
            other = keys[order[middle]]
            is_before = (
                _is_less(other, key) if descends else _is_less(key, other)
            )
            if is_before is None:
                return None
            if is_before:
                high = middle
            else:
                low = middle + 1
        order.insert(low, i)
    return order


def _is_ordered(key: Any) -> bool:
    """Whether it is of a kind that may be, and holds no NaN."""
    kind = _type(key)
    if kind is _float:
        is_number: bool = key == key  # noqa: PLR0124
        return is_number
    if kind is _tuple:
        for item in key:  # noqa: SIM110
            if _type(item) is _float and item != item:  # noqa: PLR0124
                return False
        return True
    return kind is _int or kind is _str or kind is _bool


def _is_less(a: Any, b: Any) -> bool | None:
    """`a < b`; None of objects of which C code is to say that."""
    if _type(a) is not _tuple or _type(b) is not _tuple:
        return a < b if _may_compare(a, b) else None
    for i in _range(_min(_len(a), _len(b))):
        one, other = a[i], b[i]
        if not _may_compare(one, other):
            return None
        if one != other:
            return one < other  # type: ignore[no-any-return]
    return _len(a) < _len(b)


def _may_compare(a: Any, b: Any) -> bool:
    kind, other = _type(a), _type(b)
    if kind is _str:
        return other is _str
    return (kind is _int or kind is _float or kind is _bool) and (
        other is _int or other is _float or other is _bool
    )

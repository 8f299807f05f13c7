"""Calls whose C code runs the program's Python code, done in Python.

What C code does with an object's `__str__` or a generator's items can't be
followed while it is done. A watched run calls these in its place, with the same
outcome; what they call is followed as the program's own code is.
"""

from __future__ import annotations

import collections
import copy
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from mica import _mica, tensor_copies

# As they are before the program replaces any.
_enumerate, _isinstance, _len, _print = enumerate, isinstance, len, print
_dict, _int, _list, _max, _min = dict, int, list, max, min
_repr, _str, _sum, _tuple, _type = repr, str, sum, tuple, type
_float, _id, _iter, _isfinite = float, id, iter, math.isfinite
_empty, _range = torch.empty, range
_Tensor = torch.Tensor
_tensor = torch._C.TensorBase
# What a hit prints as it is.
_PRINTED = (
    *(str, bytes, bool, int, float, complex, type(None)),
    *(list, tuple, dict, set, frozenset),
)
_TEXTS = (str, bytes, bytearray)
# Ints that are followed are nearer to 0, and asked about nothing further away.
_LIMIT = 2**53 - 1
_ADDS_EXACTLY = sys.version_info >= (3, 12)
_HANDED_ON = (str, bytes, bool, int, float, complex, type(None))


def text_of(value: Any, /, *within: Any) -> str:
    """`repr(value)`, of a list, tuple or dict, by the texts of its items.

    Args:
      value: The container, or an item of one.
      *within: The containers that it is in: one that holds itself has dots.
    """
    kind = _type(value)
    if kind is not _dict and kind is not _list and kind is not _tuple:
        return _repr(value)
    for outer in within:
        if outer is value:
            return (
                "{...}"
                if kind is _dict
                else "[...]"
                if kind is _list
                else "(...)"
            )
    around = (*within, value)
    if kind is _dict:
        texts = [
            text_of(key, *around) + ": " + text_of(item, *around)
            for key, item in value.items()
        ]
        return "{" + ", ".join(texts) + "}"
    texts = [text_of(item, *around) for item in value]
    if kind is _list:
        return "[" + ", ".join(texts) + "]"
    return "(" + ", ".join(texts) + (",)" if _len(texts) == 1 else ")")


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
    last = _len(values) - 1
    for i, value in _enumerate(values):
        shown = value
        kind = _type(value)
        if kind is _dict or kind is _list or kind is _tuple:
            shown = text_of(value)
        elif kind not in _PRINTED and not _isinstance(value, _Tensor):
            shown = _str(value)
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


def update_items(
    items: dict[Any, Any], /, *others: dict[Any, Any], **named: Any
) -> None:
    """`items.update(*others, **named)`, of dicts of no other class."""
    for other in others:
        for key, value in other.items():
            items[key] = value  # noqa: PERF403
    for name, value in named.items():
        items[name] = value  # noqa: PERF403


class FillingItems:
    """A defaultdict to which `filling[key]` adds what it doesn't have.

    Attributes:
      items: The dict. It has a factory, and no such key.
    """

    __slots__ = ("items",)

    items: collections.defaultdict[Any, Any]

    def __getitem__(self, key: Any) -> Any:
        items = self.items
        value = items.default_factory()  # type: ignore[misc]
        items[key] = value
        return value


class TakingItems:
    """A tensor of which `taking[key]` is taken by another key.

    Attributes:
      items: The tensor.
      key: Has tensors where the program's own has arrays.
    """

    __slots__ = ("items", "key")

    items: Any
    key: Any

    def __getitem__(self, _: Any) -> Any:
        return self.items[self.key]


def join_texts(separator: str, texts: Iterable[str], /) -> str:
    """`separator.join(texts)`, of texts that Python code gives."""
    return separator.join([*texts])


def any_of(items: Iterable[object], /) -> bool:
    """`any(items)`."""
    for item in items:  # noqa: SIM110
        if item:
            return True
    return False


def all_of(items: Iterable[object], /) -> bool:
    """`all(items)`."""
    for item in items:  # noqa: SIM110
        if not item:
            return False
    return True


def add_up(items: Iterable[Any], /, start: Any = 0) -> Any:
    """`sum(items, start)`."""
    if _isinstance(start, _TEXTS):
        return _sum((), start)  # Raises.
    if _ADDS_EXACTLY:
        return _add_up_exactly(items, start)
    total = start
    for item in items:
        total = total + item
    return total


def is_long(number: int) -> bool:
    """Whether a long of C's can be it."""
    return -_LIMIT <= number <= _LIMIT or -(2**63) <= number < 2**63


def _add_up_exactly(items: Iterable[Any], total: Any) -> Any:
    """Adds with what is lost in rounding, as CPython does from 3.12 on.

    It does so while the sum is a float and what is added a number, if before
    there were only ints that C has.
    """
    rest = _iter(items)
    kind = _type(total)
    # One loop for what follows ints, too: whose rounds a record may fold.
    is_whole = kind is int and is_long(total)
    if kind is not float:
        for item in rest:
            total = total + item
            if is_whole:
                is_int = _type(item) is int or _type(item) is bool
                if is_int and is_long(item) and is_long(total):
                    continue
                if _type(total) is float:
                    # What begins as an int is never -0.
                    return _add_up_floats(rest, total, False)
                is_whole = False
        return total
    return _add_up_floats(rest, total, True)


def add_and_lose(total: float, lost: float, item: float) -> tuple[float, float]:
    """Adds `item` to `total`, and what that loses in rounding to `lost`."""
    # Knuth (1997), volume 2, 4.2.2, theorem B: exact, and without the
    # question which one is larger, on which a record would depend.
    both = total + item
    added = both - total
    return both, lost + ((total - (both - added)) + (item - added))


def _add_up_floats(
    rest: Iterator[Any], total: Any, may_be_minus_zero: bool
) -> Any:
    """The same once the sum is a float."""
    lost = 0.0
    numbers: list[float] = [total]
    for item in rest:
        if _type(item) is float:
            total, lost = add_and_lose(total, lost, item)
            numbers.append(item)
        elif _isinstance(item, int) and is_long(item):
            total = total + _float(item)
            numbers.append(item)
        else:
            total = _with_lost(total, lost, numbers, True) + item
            for other in rest:
                total = total + other
            return total
    return _with_lost(total, lost, numbers, may_be_minus_zero)


def _with_lost(
    total: float, lost: float, numbers: list[float], may_be_minus_zero: bool
) -> float:
    if _isfinite(lost):
        return total + lost if lost or not may_be_minus_zero else total
    if not _isfinite(total):
        return total
    # The theorem's steps went out of range, which C's don't.
    return _sum(numbers)


def largest(items: Iterable[Any], /, **named: Any) -> Any:
    """`max(items, **named)`."""
    if not named.keys() <= {"key", "default"}:
        return _max((), **named)  # Raises.
    key = named.get("key")
    found, best, most = False, None, None
    for item in items:
        value = item if key is None else key(item)
        if key is None and found and _type(most) is _type(item) is _int:
            best = most = _max(most, item)  # Followed as a number.
        elif not found or value > most:
            found, best, most = True, item, value
    return best if found else _max((), **named)


def smallest(items: Iterable[Any], /, **named: Any) -> Any:
    """`min(items, **named)`."""
    if not named.keys() <= {"key", "default"}:
        return _min((), **named)  # Raises.
    key = named.get("key")
    found, best, least = False, None, None
    for item in items:
        value = item if key is None else key(item)
        if key is None and found and _type(least) is _type(item) is _int:
            best = least = _min(least, item)
        elif not found or value < least:
            found, best, least = True, item, value
    return best if found else _min((), **named)


def as_list(tensor: torch.Tensor, /) -> Any:
    """`tensor.tolist()`, number by number."""
    return _listed(_tensor.detach(tensor))


def _listed(tensor: torch.Tensor) -> Any:
    if _tensor.dim(tensor) == 0:
        return _tensor.item(tensor)
    return [_listed(row) for row in _tensor.unbind(tensor)]


def pad(
    items: list[Any] | tuple[Any, ...],
    batch_first: bool,
    value: float,
    side: str,
    /,
) -> torch.Tensor:
    """`pad_sequence` of torch's, whose C++ code hides the largest size."""
    lengths = [_tensor.size(item, 0) for item in items]
    most = lengths[0]
    for length in lengths[1:]:
        most = _max(most, length)
    rows = [_len(items), most] if batch_first else [most, _len(items)]
    first = items[0]
    padded = _empty(
        [*rows, *[_tensor.size(first, d) for d in _range(1, first.dim())]],
        dtype=first.dtype,
        device=first.device,
    )
    _tensor.fill_(padded, value)  # A write, as it is in C++.
    for i, item in _enumerate(items):
        start = most - lengths[i] if side == "left" else 0
        if batch_first:
            part = _tensor.select(padded, 0, i)
            part = _tensor.narrow(part, 0, start, lengths[i])
        else:
            part = _tensor.narrow(padded, 0, start, lengths[i])
            part = _tensor.select(part, 1, i)
        _tensor.copy_(part, item)
    return padded


def as_dict(pairs: Iterable[Any], /, **named: Any) -> dict[Any, Any]:
    """`dict(pairs, **named)`, of pairs that an iterator gives."""
    return _dict([*pairs], **named)


def listed(items: Iterable[Any], /) -> list[Any]:
    """`list(items)`, of items that a generator gives."""
    return [item for item in items]  # noqa: C416


def tupled(items: Iterable[Any], /) -> tuple[Any, ...]:
    """`tuple(items)`, of items that a generator gives."""
    return _tuple([item for item in items])  # noqa: C416


def deepcopy(x: Any, memo: Any = None, _nil: Any = ()) -> Any:
    """`copy.deepcopy(x, memo)`, which hands on numbers and texts."""
    if _type(x) in _HANDED_ON:
        return x
    if _type(x) is _Tensor:
        memo = {} if memo is None else memo
        copied = None if _id(x) in memo else tensor_copies.deep(x, memo)
        if copied is not None:
            return copied
    return _deepcopy(x, memo)


# What copy.deepcopy() does itself.
_deepcopy = types.FunctionType(
    copy.deepcopy.__code__,
    copy.deepcopy.__globals__,
    "deepcopy",
    copy.deepcopy.__defaults__,
)
_mica.call_in_place(copy.deepcopy, deepcopy)

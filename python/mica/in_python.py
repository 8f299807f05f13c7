"""Calls whose C code runs the program's Python code, done in Python.

What C code does with an object's `__str__` or a generator's items can't be
followed while it is done. A watched run calls these in its place, with the same
outcome; what they call is followed as the program's own code is.
"""

from __future__ import annotations

import collections
import copy
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from mica import _mica

# As they are before the program replaces any.
_enumerate, _isinstance, _len, _print = enumerate, isinstance, len, print
_dict, _max, _min, _str, _sum = dict, max, min, str, sum
_tuple, _type = tuple, type
_Tensor = torch.Tensor
_tensor = torch._C.TensorBase
# What a hit prints as it is.
_PRINTED = (
    *(str, bytes, bool, int, float, complex, type(None)),
    *(list, tuple, dict, set, frozenset),
)
_TEXTS = (str, bytes, bytearray)
_HANDED_ON = (str, bytes, bool, int, float, complex, type(None))


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
        if _type(value) not in _PRINTED and not _isinstance(value, _Tensor):
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
    """`sum(items, start)`, as it is before CPython 3.12."""
    if _isinstance(start, _TEXTS):
        return _sum((), start)  # Raises.
    total = start
    for item in items:
        total = total + item
    return total


def largest(items: Iterable[Any], /, **named: Any) -> Any:
    """`max(items, **named)`."""
    if not named.keys() <= {"key", "default"}:
        return _max((), **named)  # Raises.
    key = named.get("key")
    found, best, most = False, None, None
    for item in items:
        value = item if key is None else key(item)
        if not found or value > most:
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
        if not found or value < least:
            found, best, least = True, item, value
    return best if found else _min((), **named)


def as_list(tensor: torch.Tensor, /) -> Any:
    """`tensor.tolist()`, number by number."""
    return _listed(_tensor.detach(tensor))


def _listed(tensor: torch.Tensor) -> Any:
    if _tensor.dim(tensor) == 0:
        return _tensor.item(tensor)
    return [_listed(row) for row in _tensor.unbind(tensor)]


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
    return x if _type(x) in _HANDED_ON else _deepcopy(x, memo)


# What copy.deepcopy() does itself.
_deepcopy = types.FunctionType(
    copy.deepcopy.__code__,
    copy.deepcopy.__globals__,
    "deepcopy",
    copy.deepcopy.__defaults__,
)
_mica.call_in_place(copy.deepcopy, deepcopy)

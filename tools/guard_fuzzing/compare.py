"""Compares two worlds that should be twins: everything that is reachable.

Values, types, order, which objects are one, which tensors share memory, and
whether small ints are the objects that CPython has for them.
"""

from __future__ import annotations

import math
import types
from typing import Any

import numpy
import torch

from guard_fuzzing.kinds import (
    CHECKS,
    CONSTANTS,
    DYNAMIC,
    check_of,
    same_constant,
    show,
)
from mica import _mica

_SINGLE = (torch.dtype, torch.device, type, types.BuiltinFunctionType)


_PARTS = frozenset((*CONSTANTS, *_SINGLE))
# Whose objects may all be told apart; others are looked at by _is_plain().
_TOLD_APART = frozenset(CHECKS) - {tuple}


def _is_plain(value: Any) -> bool:
    """Whether nobody may rely on which object it is: made of constants."""
    kind = type(value)
    if kind in (tuple, torch.Size):
        for part in value:
            if type(part) not in _PARTS and not _is_plain(part):
                return False
        return True
    return kind in (slice, range, torch.device) or issubclass(
        kind, numpy.generic
    )


class Difference(Exception):
    """Two things differ: where, and how."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path, self.text = path, text


class Twins:
    """One comparison of two worlds.

    Args:
      exact: Floats have to be equal bit for bit.
      near: What they may differ by otherwise, relative.
    """

    def __init__(self, exact: bool, near: float = 1e-4) -> None:
        self.exact = exact
        self.near = near
        self._theirs: dict[int, Any] = {}
        self._ours: dict[int, Any] = {}
        self._memory: dict[int, int] = {}
        self.has_rounded = False  # Tensors that are near, but not equal.
        self.has_lone_views = False  # In eager alone.
        self._alive: list[Any] = []

    def same(self, a: Any, b: Any, path: str) -> None:
        """Raises Difference unless the eager `a` and the compiled `b` match."""
        kind = type(a)
        check = CHECKS.get(kind)
        if type(b) is kind:
            if check is same_constant:
                same_constant(self, a, b, path)
                return
            if check is None and a is b:
                return
        elif isinstance(b, _mica.Compiled) and not isinstance(
            a, _mica.Compiled
        ):
            b = b.__wrapped__
        one, other = id(a), id(b)
        ours, theirs = self._ours, self._theirs
        if kind not in _TOLD_APART and _is_plain(a):
            pass  # Nobody may rely on which object it is.
        elif one in theirs or other in ours:
            if theirs.get(one) is not b or ours.get(other) is not a:
                self.fail(path, "is another object, or one with another", a, b)
            return
        theirs[one], ours[other] = b, a
        if type(b) is not kind:
            self._same_kind(a, b, path)
        if check is None:
            check = check_of(kind)
        check(self, a, b, path)

    def fail(self, path: str, what: str, a: Any, b: Any) -> None:
        """Raises Difference."""
        raise Difference(path, f"{what}: eager {show(a)}, mica {show(b)}")

    def _same_kind(self, a: Any, b: Any, path: str) -> None:
        one, other = type(a), type(b)
        if (
            getattr(one, "__module__", "") not in DYNAMIC
            or one.__qualname__ != other.__qualname__
        ):
            self.fail(path, "is of another type", a, b)
        self.same(one, other, path + ".__class__")

    def same_floats(self, a: float, b: float, path: str) -> None:
        """Compares two numbers."""
        if a == b and math.copysign(1, a) == math.copysign(1, b):
            return
        if a != a and b != b:
            return
        if self.exact or not math.isclose(
            a, b, rel_tol=self.near, abs_tol=self.near / 10
        ):
            self.fail(path, "differs", a, b)

    def same_memory(self, a: torch.Tensor, b: torch.Tensor, path: str) -> None:
        """Compares which memory tensors share."""
        try:
            one, other = a.untyped_storage(), b.untyped_storage()
            ours, theirs = one.data_ptr(), other.data_ptr()
        except (RuntimeError, NotImplementedError):
            return
        if ours == 0 or theirs == 0:
            return
        self._alive += [one, other]
        if a._is_view() is not b._is_view():
            if not a._is_view():
                self.fail(f"{path}._is_view()", "differs", a, b)
            self.has_lone_views = True  # See docs/capture.md.
        if self._memory.setdefault(ours, theirs) != theirs:
            self.fail(path, "shares memory with others", a, b)
        if self._memory.setdefault(-theirs, ours) != ours:
            self.fail(path, "shares memory with others", a, b)

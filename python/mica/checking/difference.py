"""The first difference between two pictures of one program's objects."""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

import torch

from mica.checking.scene import ABSENT, CONSTANTS, Node, Scene, same_bits

_TOLERANCES = {
    torch.float64: 1e-8,
    torch.complex128: 1e-8,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
}
_USUAL_TOLERANCE = 1e-4
# What is far below one is roundoff of larger numbers, to so many tolerances.
_FLOOR = 1e-2


def first_difference(
    hit: Scene, eager: Scene, before: Scene, rtol: float | None
) -> str:
    """Compares what two runs from one start left.

    Args:
      hit: After the record served the call.
      eager: After the eager run, from the same roots.
      before: The start of both: objects of it are the same in both runs.
      rtol: How far floats may differ, relative to the largest of their tensor;
        None for a number that their dtype suggests.
    Returns:
      A line that names the place and both values; "" if there is none.
    """
    return _Comparison(hit, eager, before, rtol).run()


class _Comparison:
    def __init__(
        self, hit: Scene, eager: Scene, before: Scene, rtol: float | None
    ) -> None:
        self._hit = hit
        self._eager = eager
        self._before = before
        self._rtol = rtol
        # New objects of one run by those of the other.
        self._pairs: dict[int, int] = {}
        self._memory: dict[int, int] = {}

    def run(self) -> str:
        pairs = [
            (path, mine, other)
            for (path, mine), (_, other) in zip(
                self._hit.roots, self._eager.roots, strict=True
            )
        ]
        while pairs:
            path, mine, other = pairs.pop()
            found, more = self._compare(path, mine, other)
            if found:
                return found
            pairs += reversed(more)
        return ""

    def _compare(
        self, path: str, mine: Any, other: Any
    ) -> tuple[str, list[tuple[str, Any, Any]]]:
        """A difference, or the parts that are still to be compared."""
        if mine is ABSENT or other is ABSENT:
            return _told(path, _text(mine), _text(other), mine is other), []
        if isinstance(mine, CONSTANTS) and isinstance(other, CONSTANTS):
            is_same = self._is_same_constant(mine, other)
            return _told(path, _text(mine), _text(other), is_same), []
        is_known = id(mine) in self._pairs
        if (mine in self._before) != (other in self._before) or (
            mine in self._before and mine is not other
        ):
            return _told(path, self._name(mine), self._name(other)), []
        if is_known and self._pairs[id(mine)] != id(other):
            return f"{path}: one object in the hit, two in eager", []
        if is_known:
            return "", []
        self._pairs[id(mine)] = id(other)
        return self._compare_nodes(
            path, self._hit.nodes[id(mine)], self._eager.nodes[id(other)]
        )

    def _name(self, value: Any) -> str:
        if value in self._before:
            return self._before.nodes[id(value)].path
        return f"a new {type(value).__name__}"

    def _is_same_constant(self, mine: Any, other: Any) -> bool:
        if type(mine) is not type(other):
            return False
        if isinstance(mine, float):
            rtol = self._rtol or _USUAL_TOLERANCE
            return mine == other or (
                math.isclose(mine, other, rel_tol=rtol, abs_tol=rtol * _FLOOR)
                or (math.isnan(mine) and math.isnan(other))
            )
        return bool(mine == other)

    def _compare_nodes(
        self, path: str, mine: Node, other: Node
    ) -> tuple[str, list[tuple[str, Any, Any]]]:
        kinds = type(mine.object), type(other.object)
        if kinds[0] is not kinds[1]:
            return _told(path, kinds[0].__name__, kinds[1].__name__), []
        if isinstance(mine.object, FunctionType):
            is_same = mine.object.__code__ is other.object.__code__
            if not is_same:
                return f"{path}: another function", []
        found = ""
        if isinstance(mine.object, torch.Tensor):
            found = self._compare_tensors(path, mine, other)
        elif mine.data is not None and other.data is not None:
            found = self._compare_arrays(path, mine, other)
        if found:
            return found, []
        mine_parts, other_parts = list(mine.parts()), list(other.parts())
        suffixes = [s for s, _ in mine_parts]
        if suffixes != [s for s, _ in other_parts]:
            return _parts_differ(path, mine_parts, other_parts), []
        return "", [
            (path + suffix, a, b)
            for (suffix, a), (_, b) in zip(mine_parts, other_parts, strict=True)
        ]

    def _compare_tensors(self, path: str, mine: Node, other: Node) -> str:
        if mine.meta != other.meta:
            return _told(path, _shown(mine.meta), _shown(other.meta))
        if mine.data is None or other.data is None:
            return ""
        a, b = (node.object.untyped_storage()._cdata for node in (mine, other))
        if mine.data.numel() and self._memory.setdefault(a, b) != b:
            return f"{path}: shares memory with another tensor than in eager"
        return self._compare_elements(path, mine.data, other.data)

    def _compare_arrays(self, path: str, mine: Node, other: Node) -> str:
        if mine.meta != other.meta:
            return _told(path, _shown(mine.meta), _shown(other.meta))
        assert mine.data is not None
        assert other.data is not None
        return self._compare_elements(path, mine.data, other.data)

    def _compare_elements(
        self, path: str, mine: torch.Tensor, other: torch.Tensor
    ) -> str:
        if same_bits(mine, other):
            return ""
        if not (mine.is_floating_point() or mine.is_complex()):
            far = mine != other
        else:
            rtol = self._rtol or _TOLERANCES.get(mine.dtype, _USUAL_TOLERANCE)
            kind = torch.complex128 if mine.is_complex() else torch.float64
            a, b = mine.to(kind), other.to(kind)
            finite = b[b.isfinite()].abs()
            largest = float(finite.max()) if finite.numel() else 0.0
            largest = max(largest, _FLOOR)
            near = (a - b).abs() <= rtol * largest
            far = ~(near | (a == b) | (a.isnan() & b.isnan()))
        if not bool(far.any()):
            return ""
        index = tuple(far.nonzero()[0].tolist())
        at = f"{path}[{', '.join(map(str, index))}]" if index else path
        return _told(
            at, repr(mine[index].item()), repr(other[index].item())
        ) + (f" ({int(far.sum())} of {far.numel()} elements differ)")


def _told(path: str, mine: str, other: str, is_same: bool = False) -> str:
    return "" if is_same else f"{path}: the record has {mine}, eager {other}"


def _text(value: Any) -> str:
    return "nothing" if value is ABSENT else repr(value)


def _shown(meta: tuple[Any, ...]) -> str:
    dtype, shape, device, requires_grad, *strides = meta
    text = f"{dtype} {list(shape)}"
    if strides:
        text += f" of strides {list(strides[0])}"
    if device != "cpu":
        text += f" on {device}"
    return text + (" that requires grad" if requires_grad else "")


def _parts_differ(
    path: str, mine: list[tuple[str, Any]], other: list[tuple[str, Any]]
) -> str:
    names = [s for s, _ in mine], [s for s, _ in other]
    for suffix in names[0]:
        if suffix not in names[1]:
            return f"{path + suffix}: only the record leaves it"
    for suffix in names[1]:
        if suffix not in names[0]:
            return f"{path + suffix}: only eager leaves it"
    return f"{path}: its parts are in another order"

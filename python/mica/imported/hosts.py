"""Shapes that a graph computes, as Python's numbers and tuples of them.

What Python holds, capture follows as sizes: no tensor is made of them and read
back. A value here is a number (of rank 0) or a tuple (of rank 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Number = int | float | bool
Host = Number | tuple[Number, ...]

DTYPES = (torch.int64, torch.int32, torch.bool, torch.float32, torch.float64)
# Rounds to float32's 24 bits: Veltkamp's splitting of a double.
_SPLIT = 2.0**29 + 1.0


def shape(x: torch.Tensor, *, start: int = 0, end: int | None = None) -> Host:
    """The sizes of a tensor."""
    if start == 0 and end is None:
        return tuple(x.shape)
    return tuple(x.shape)[start:end]


def size(x: torch.Tensor) -> Host:
    """The number of a tensor's elements."""
    return x.numel()


def tensor_of(value: Host, dtype: torch.dtype) -> torch.Tensor:
    """The tensor of what Python holds."""
    return torch.tensor(value, dtype=dtype)


def to_python(value: torch.Tensor | None) -> Any:
    """What a tensor holds, as a number or nested tuples; a host read."""
    if value is None:
        return None
    return _tuples(value.tolist())


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_tuples(item) for item in value])
    return value


def rounded(value: Number) -> Number:
    """A double as float32 has it; ints as they are."""
    if isinstance(value, float):
        high = value * _SPLIT
        return high - (high - value)
    return value


def truncated_quotient(a: Number, b: Number) -> Number:
    """The quotient; of ints without its fraction."""
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    if (a >= 0) == (b > 0):
        return a // b
    return -(-a // b)


def _smaller(a: Number, b: Number) -> Number:
    return a if a <= b else b


def _larger(a: Number, b: Number) -> Number:
    return a if a >= b else b


def _floor(a: Number) -> Number:
    whole = int(a)
    return float(whole - 1 if whole > a else whole)


def _ceil(a: Number) -> Number:
    whole = int(a)
    return float(whole + 1 if whole < a else whole)


def _root(a: float) -> Number:
    root: float = a**0.5
    return root


def _elements(f: Callable[..., Number]) -> Callable[..., Host]:
    """Makes `f` work on tuples, with a number beside them broadcast."""

    def apply(*values: Host) -> Host:
        length = None
        for value in values:
            if isinstance(value, tuple) and (length is None or length == 1):
                length = len(value)
        if length is None:
            return rounded(f(*values))
        return tuple(
            [rounded(f(*[_at(v, i) for v in values])) for i in range(length)]
        )

    return apply


def _at(value: Host, place: int) -> Number:
    if isinstance(value, tuple):
        return value[place] if len(value) > 1 else value[0]
    return value


def _fold(f: Callable[[Number, Number], Number]) -> Callable[..., Host]:
    """Makes `f` take any number of values."""
    pair = _elements(f)

    def apply(*values: Host) -> Host:
        result = values[0]
        for value in values[1:]:
            result = pair(result, value)
        return result

    return apply


# In Python: capture doesn't follow sizes through the functions of `operator`.
ELEMENTWISE: dict[str, Callable[..., Host]] = {
    "Abs": _elements(lambda a: a if a >= 0 else -a),
    "Add": _elements(lambda a, b: a + b),
    "And": _elements(lambda a, b: a and b),
    "Ceil": _elements(_ceil),
    "Div": _elements(truncated_quotient),
    "Equal": _elements(lambda a, b: a == b),
    "Floor": _elements(_floor),
    "Greater": _elements(lambda a, b: a > b),
    "GreaterOrEqual": _elements(lambda a, b: a >= b),
    "Identity": _elements(lambda a: a),
    "Less": _elements(lambda a, b: a < b),
    "LessOrEqual": _elements(lambda a, b: a <= b),
    "Max": _fold(_larger),
    "Min": _fold(_smaller),
    "Mul": _elements(lambda a, b: a * b),
    "Neg": _elements(lambda a: -a),
    "Not": _elements(lambda a: not a),
    "Or": _elements(lambda a, b: a or b),
    "Reciprocal": _elements(lambda a: 1.0 / a),
    "Sqrt": _elements(_root),
    "Sub": _elements(lambda a, b: a - b),
    "Where": _elements(lambda c, a, b: a if c else b),
}
COMPARISONS = {
    "And",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Not",
    "Or",
}


def cast(value: Host, kind: type[Number]) -> Host:
    """The same numbers of another type."""
    if isinstance(value, tuple):
        return tuple([kind(item) for item in value])
    return kind(value)


def gather(data: tuple[Number, ...], places: int | tuple[int, ...]) -> Host:
    """Some elements of a tuple, or one."""
    if isinstance(places, tuple):
        return tuple([data[i] for i in places])
    return data[places]


def concat(*values: tuple[Number, ...]) -> Host:
    """Tuples one after the other."""
    result: tuple[Number, ...] = ()
    for value in values:  # Capture doesn't follow sizes through sum().
        result = result + value
    return result


def part(
    data: tuple[Number, ...],
    starts: tuple[int],
    ends: tuple[int],
    axes: tuple[int] = (0,),
    steps: tuple[int] = (1,),
) -> Host:
    """A slice of a tuple."""
    del axes
    return data[starts[0] : ends[0] : steps[0]]


def listed(value: Host) -> Host:
    """One number as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def single(value: Host) -> Host:
    """A tuple's only number."""
    return value[0] if isinstance(value, tuple) else value


def product(value: Host) -> Host:
    """The product of all."""
    result: Number = 1
    for factor in value if isinstance(value, tuple) else (value,):
        result = result * factor
    return rounded(result)

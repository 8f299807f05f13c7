"""Unsigned ints, with which torch computes little, as wider ints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
_LEAST = -(2**63)


def widened(f: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `f` take uint16 to uint64: it computes with int64 then.

    Results that are int64 become the inputs' dtype again. Right for what wraps
    around; `ordered` and `unsigned_quotient` are for the rest of uint64.
    """

    @functools.wraps(f)
    def apply(*values: Any, **attributes: Any) -> Any:
        dtype = _unsigned(values)
        if dtype is None:
            return f(*values, **attributes)
        wide = [_wide(value) for value in values]
        result = f(*wide, **attributes)
        return result.to(dtype) if result.dtype == torch.int64 else result

    return apply


def ordered(f: Callable[..., Any]) -> Callable[..., Any]:
    """As `widened`; uint64 keeps its order, by int64's moved one."""

    @functools.wraps(f)
    def apply(*values: Any, **attributes: Any) -> Any:
        dtype = _unsigned(values)
        if dtype is None:
            return f(*values, **attributes)
        moves = dtype == torch.uint64
        wide = [_wide(value) for value in values]
        if moves:
            wide = [
                value if value is None else value ^ _LEAST for value in wide
            ]
        result = f(*wide, **attributes)
        if result.dtype != torch.int64:
            return result
        return (result ^ _LEAST if moves else result).to(dtype)

    return apply


def unsigned_quotient(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The quotient of int64 tensors that hold the bits of uint64."""
    half = (a >> 1) & (2**63 - 1)
    guess = torch.div(half, b.clamp(min=1), rounding_mode="floor") << 1
    rest = a - guess * b
    guess = guess + ((rest ^ _LEAST) >= (b ^ _LEAST)).to(torch.int64)
    is_large = ((a ^ _LEAST) >= (b ^ _LEAST)).to(torch.int64)
    return torch.where(b < 0, is_large, guess)


def _is_unsigned(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in UNSIGNED


def _unsigned(values: Sequence[Any]) -> torch.dtype | None:
    """The dtype of the last of them that is unsigned."""
    found = [value.dtype for value in values if _is_unsigned(value)]
    return found[-1] if found else None


def _wide(value: Any) -> Any:
    return value.to(torch.int64) if _is_unsigned(value) else value

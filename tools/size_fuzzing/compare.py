"""Compares what eager and Mica gave."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import torch
from torch import nn

_DEPTH = 6


class Difference(Exception):
    """Two things differ: where, and how."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path, self.text = path, text


def _show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        head = value.detach().flatten()[:8].tolist()
        return f"{value.dtype}{list(value.shape)} {head}"
    return repr(value)[:200]


def _fail(path: str, what: str, a: Any, b: Any) -> None:
    raise Difference(path, f"{what}: eager {_show(a)}, mica {_show(b)}")


def same_tensors(
    a: torch.Tensor, b: torch.Tensor, path: str, near: float
) -> None:
    """Raises Difference unless they are alike, but for strides.

    Args:
      a: Eager's.
      b: Mica's.
      path: Where.
      near: What floats may differ by, relative to the largest; 0 for none.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        _fail(path, "is of another type", a, b)
    if a.requires_grad != b.requires_grad:
        _fail(path, "requires_grad", a.requires_grad, b.requires_grad)
    x, y = a.detach(), b.detach()
    if not x.is_floating_point() or near == 0:
        same = (x == y) | (x.isnan() & y.isnan()) if x.numel() else x == y
        if not bool(same.all()):
            _fail(path, "other values", a, b)
        return
    if not x.numel():
        return
    x, y = x.double(), y.double()
    finite = x.isfinite()
    odd = torch.where(finite, 0.0, x), torch.where(finite, 0.0, y)
    if not torch.equal(odd[0].nan_to_num(7.5), odd[1].nan_to_num(7.5)):
        _fail(path, "other values", a, b)
    x, y = torch.where(finite, x, 0.0), torch.where(finite, y, 0.0)
    bound = near * max(float(x.abs().max()), 0.1)
    if not bool(((x - y).abs() <= bound).all()):
        gap = float((x - y).abs().max())
        _fail(path, f"other values (by {gap:.3g})", a, b)


def same(a: Any, b: Any, path: str, near: float, depth: int = 0) -> None:
    """Raises Difference unless eager's `a` and Mica's `b` are alike."""
    if depth > _DEPTH:
        return
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        same_tensors(a, b, path, near)
        return
    if type(b).__name__ == "Compiled":
        b = b.__wrapped__
    if type(a).__qualname__ != type(b).__qualname__:
        _fail(path, "is of another type", a, b)
    if isinstance(a, nn.Module):
        same(vars(a), vars(b), path, near, depth + 1)
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            _fail(path, "length", a, b)
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            same(one, other, f"{path}[{i}]", near, depth + 1)
    elif isinstance(a, dict):
        ours, theirs = list(a), list(b)
        if [str(one) for one in ours] != [str(one) for one in theirs]:
            _fail(path, "keys", ours, theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(a[one], b[other], f"{path}[{one!r}]", near, depth + 1)
    elif isinstance(a, (int, float, str, bool, type(None), range)):
        if a != b and not (a != a and b != b):
            _fail(path, "differs", a, b)
    elif isinstance(a, (type, types.FunctionType, torch.dtype)):
        return
    elif dataclasses.is_dataclass(a) or hasattr(a, "__dict__"):
        same(vars(a), vars(b), path, near, depth + 1)


def tensors_of(value: Any, depth: int = 0) -> list[torch.Tensor]:
    """The tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    items: list[Any] = []
    if isinstance(value, (list, tuple)):
        items = list(value)
    elif isinstance(value, dict):
        items = list(value.values())
    if depth > _DEPTH:
        return []
    return [one for item in items for one in tensors_of(item, depth + 1)]


def shared_with(value: Any, args: list[Any]) -> list[tuple[int, int]]:
    """Which tensors of a result show memory of which arguments."""
    places = [
        (i, one.untyped_storage().data_ptr())
        for i, arg in enumerate(args)
        for one in tensors_of(arg)
        if one.numel()
    ]
    return [
        (k, i)
        for k, one in enumerate(tensors_of(value))
        if one.numel()
        for i, place in places
        if one.untyped_storage().data_ptr() == place
    ]

"""Sizes that are expected to vary: `mica.mark_dynamic`."""

from __future__ import annotations

import operator
import weakref

import torch

from mica import _mica


def mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """Says that a size of this argument will vary from call to call.

    It changes nothing in what a record is: each holds for one size, exactly,
    and a call with another one makes a further record, whose plan takes over
    what doesn't depend on sizes. But records of one callable that differ in
    such sizes alone count as one against the bound of 16, up to 64 sizes, and
    never make Mica stop recording. The mark is seen when a call with this
    tensor, as an argument or in one, is recorded; from then on it holds for the
    same argument of that callable, marked or not, until `mica.reset`.

    Args:
      tensor: An argument of calls to come.
      dim: Which of its sizes; negative ones count from the last.
    Raises:
      IndexError: The tensor has no such dim.
      TypeError: `tensor` isn't one.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"mica.mark_dynamic: wants a tensor, got {tensor!r}")
    index = operator.index(dim)
    if not -tensor.dim() <= index < tensor.dim():
        raise IndexError(
            f"mica.mark_dynamic: dim {index} of a tensor of {tensor.dim()}"
        )
    _mica.mark_dynamic(tensor, index % tensor.dim())
    # Another tensor may be at the address of a dead one.
    end = weakref.finalize(tensor, _mica.drop_dynamic, id(tensor))
    end.atexit = False

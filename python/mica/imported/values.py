"""What is known of a value while a graph becomes Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mica.imported import hosts
from mica.imported.tensors import DTYPES

# Constants of more elements are never Python's.
_MAX_NUMBERS = 64


@dataclass(frozen=True)
class Value:
    """A value of the graph, as the Python that is written knows it.

    Attributes:
      code: A variable, attribute or literal; "" of a constant, which has
        none until it is used.
      dtype: Of what Python holds, and of constants.
      rank: Of what Python holds: 0 a number, 1 a tuple.
      constant: The tensor, where it is known beforehand.
      is_host: Python holds it, as numbers.
    """

    code: str
    dtype: torch.dtype | None = None
    rank: int | None = None
    constant: torch.Tensor | None = None
    is_host: bool = False

    @property
    def may_be_host(self) -> bool:
        """True if Python can hold it."""
        return self.is_host or (
            self.constant is not None
            and self.constant.dim() <= 1
            and self.constant.numel() <= _MAX_NUMBERS
            and self.constant.dtype in hosts.DTYPES
        )


NONE = Value("None")


def constant(tensor: torch.Tensor) -> Value:
    """The value of a tensor that is known beforehand."""
    return Value("", tensor.dtype, tensor.dim(), tensor)


@dataclass(frozen=True)
class HostCall:
    """An operator on what Python holds.

    Attributes:
      call: A function of `hosts`.
      dtype: Of its result.
      rank: Of its result.
      arguments: The inputs that it takes.
      extra: Further arguments, as code.
    """

    call: Callable[..., Any]
    dtype: torch.dtype
    rank: int
    arguments: Sequence[Value]
    extra: str = ""


def host_call(
    op: str, values: Sequence[Value], attributes: dict[str, Any]
) -> HostCall | None:
    """How Python computes an operator of small numbers; None if it can't."""
    given = [value for value in values if value is not NONE]
    if not given or not all(value.may_be_host for value in given):
        return None
    first = given[0]
    ranks = [value.rank or 0 for value in given]
    if first.dtype is None:
        return None
    if op in hosts.ELEMENTWISE:
        return _elementwise(op, given, max(ranks))
    if op == "Cast":
        to = DTYPES.get(attributes["to"])
        if to not in hosts.DTYPES:
            return None
        kind = "int"
        if to.is_floating_point or to == torch.bool:
            kind = "float" if to.is_floating_point else "bool"
        return HostCall(hosts.cast, to, ranks[0], given, kind)
    return _moves(op, given, ranks, attributes)


def _elementwise(op: str, given: Sequence[Value], rank: int) -> HostCall | None:
    if rank == 1:
        lengths = [v.constant.numel() for v in given if v.constant is not None]
        if 0 in lengths:
            return None
    dtype = given[1 if op == "Where" else 0].dtype
    if op in hosts.COMPARISONS:
        dtype = torch.bool
    if dtype is None or dtype == torch.float64:
        return None  # Results are rounded to float32.
    return HostCall(hosts.ELEMENTWISE[op], dtype, rank, given)


def _moves(
    op: str,
    given: Sequence[Value],
    ranks: Sequence[int],
    attributes: dict[str, Any],
) -> HostCall | None:
    """Operators that compute nothing."""
    data = given[0]
    assert data.dtype is not None
    axis = attributes.get("axis", 0)
    if op == "Gather" and ranks[0] == 1 and axis in (0, -1):
        return HostCall(hosts.gather, data.dtype, ranks[1], given)
    if op == "Concat" and set(ranks) == {1}:
        return HostCall(hosts.concat, data.dtype, 1, given)
    if op == "Slice" and len(given) >= 3 and ranks[0] == 1:
        return HostCall(hosts.part, data.dtype, 1, given)
    if op == "Unsqueeze" and ranks[0] == 0:
        return HostCall(hosts.listed, data.dtype, 1, given[:1])
    if op == "Squeeze":
        return HostCall(hosts.single, data.dtype, 0, given[:1])
    if op == "Reshape" and len(given) == 2:
        target = given[1].constant
        if target is not None and target.numel() <= 1:
            call = hosts.listed if target.numel() == 1 else hosts.single
            return HostCall(call, data.dtype, target.numel(), given[:1])
    if op == "ReduceProd" and len(given) == 1 and ranks[0] == 1:
        keeps = attributes.get("keepdims", 1)
        if not keeps and data.dtype != torch.float64:
            return HostCall(hosts.product, data.dtype, 0, given)
    return None

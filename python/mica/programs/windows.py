"""Windows on memory, read and written, as nodes of a torch.fx.Graph."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from mica.programs.tensor_types import parse_type

_aten = torch.ops.aten


def read(
    graph: Graph,
    self: Any,
    size: Any,
    stride: Any,
    storage_offset: Any = None,
) -> Node:
    """A view; the Program counts from a tensor's first element."""
    start = graph.call_function(_aten.sym_storage_offset.default, (self,))
    if isinstance(storage_offset, Node) or storage_offset:
        start = graph.call_function(operator.add, (start, storage_offset))
    return graph.call_function(
        _aten.as_strided.default, (self, size, stride, start)
    )


def write(
    graph: Graph,
    kind: str,
    base: Any,
    src: Any,
    size: list[int],
    stride: list[int],
    storage_offset: Any,
) -> Node:
    """The base, of the type `kind`, with other elements in a window."""
    _, sizes, strides = parse_type(kind)
    whole = graph.call_function(
        _aten.new_empty_strided.default, (base, sizes, strides)
    )
    whole = graph.call_function(_aten.copy_.default, (whole, base))
    window = graph.call_function(
        _aten.as_strided.default, (whole, size, stride, storage_offset)
    )
    graph.call_function(_aten.copy_.default, (window, src))
    return whole


def moved(
    graph: Graph,
    kind: str,
    *,
    base: Any,
    size: list[int],
    stride: list[int],
    storage_offset: Any,
    src: Any = None,
) -> Node:
    """One whose place is a number of the run's: written, or a copy of it."""
    offset = graph.call_function(int, (storage_offset,))
    if src is not None:
        return write(graph, kind, base, src, size, stride, offset)
    return graph.call_function(
        _aten.clone.default,
        (read(graph, base, size, stride, offset),),
        {"memory_format": torch.contiguous_format},
    )

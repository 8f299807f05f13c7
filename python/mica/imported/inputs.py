"""Checks of what a module from elsewhere is called with."""

from __future__ import annotations

from typing import Any

import torch

from mica.imported.emit import Emitter
from mica.imported.graph import Graph
from mica.imported.tensors import dtype_of

InputType = tuple[torch.dtype, tuple[int | str, ...]]


def check_input(
    x: Any, name: str, dtype: torch.dtype, sizes: tuple[int | str, ...] | None
) -> None:
    """Raises unless an argument is what the file declares.

    Args:
      x: The argument.
      name: What the file calls it.
      dtype: The dtype that it declares.
      sizes: The sizes: those that are open by name; None if it declares none.
    Raises:
      TypeError: It is no tensor, or of another dtype.
      ValueError: It has other sizes.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"{name}: wants a tensor {words(dtype, sizes)}, got "
            f"{type(x).__name__}"
        )
    if x.dtype != dtype:
        raise TypeError(
            f"{name}: wants {words(dtype, sizes)}, got "
            f"{words(x.dtype, tuple(x.shape))}"
        )
    if sizes is None:
        return
    fits = x.dim() == len(sizes)
    for place, size in enumerate(sizes):
        if fits and isinstance(size, int) and x.shape[place] != size:
            fits = False
    if not fits:
        raise ValueError(
            f"{name}: wants {words(dtype, sizes)}, got "
            f"{words(x.dtype, tuple(x.shape))}"
        )


def words(dtype: torch.dtype, sizes: tuple[int | str, ...] | None) -> str:
    """Such as "float32[batch, 3, 224, 224]"."""
    name = str(dtype).removeprefix("torch.")
    if sizes is None:
        return name
    return f"{name}[{', '.join(map(str, sizes))}]"


def checks_of(
    emitter: Emitter, graph: Graph, arguments: list[str]
) -> list[InputType | None]:
    """Writes the checks of a graph's inputs.

    Returns:
      The inputs' types; None of what is no tensor.
    """
    types: list[InputType | None] = []
    for (name, kind), code in zip(graph.inputs, arguments, strict=True):
        if kind.WhichOneof("value") != "tensor_type":
            types.append(None)
            continue
        tensor = kind.tensor_type
        dtype = dtype_of(tensor.elem_type, f"input '{name}'")
        sizes = None
        if tensor.HasField("shape"):
            sizes = tuple(
                _size(dim, f"{name}_{place}")
                for place, dim in enumerate(tensor.shape.dim)
            )
        check = emitter.function(check_input)
        emitter.line(f"{check}({code}, {name!r}, {dtype}, {sizes})")
        types.append(None if sizes is None else (dtype, sizes))
    return types


def _size(dim: Any, otherwise: str) -> int | str:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or otherwise

"""Arguments for a module from elsewhere, made of what its file declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mica.imported.exported import ExportedModule
from mica.imported.model import OnnxModule

# Sizes that are open get different ones of these, so that none are equal by
# chance.
_FIRST_SIZE = 5
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def example_of(
    module: OnnxModule | ExportedModule, sizes: Mapping[str, int]
) -> tuple[Arguments, dict[str, Any]]:
    """Makes arguments: floats at random, ints zero, bools true.

    Args:
      module: What `mica.from_onnx` or `mica.from_exported` gave.
      sizes: Sizes by the names that the file has for them.
    Returns:
      Positional and keyword arguments, and the sizes that stay open, as
      `mica.export` takes them: those that `sizes` doesn't name.
    Raises:
      ValueError: The file declares no sizes of an input, or has no such name.
    """
    if isinstance(module, OnnxModule):
        return _of_onnx(module, sizes)
    return _of_exported(module, sizes)


def _of_onnx(
    module: OnnxModule, sizes: Mapping[str, int]
) -> tuple[Arguments, dict[str, Any]]:
    given: dict[str, int] = dict(sizes)
    known: set[str] = set()
    made = []
    for name, kind in zip(module.input_names, module.input_types, strict=True):
        if kind is None:
            raise ValueError(
                f"input '{name}' is no tensor, or declares no sizes: write a "
                "program that calls mica.export with arguments of your own"
            )
        dtype, declared = kind
        shape = []
        for size in declared:
            if isinstance(size, str):
                known.add(size)
                given.setdefault(size, _FIRST_SIZE + len(given))
                size = given[size]
            shape.append(size)
        made.append(_tensor(dtype, shape))
    _check_names(sizes, known)
    return (tuple(made), {}), _without(module.dynamic_shapes, sizes)


def _of_exported(
    module: ExportedModule, sizes: Mapping[str, int]
) -> tuple[Arguments, dict[str, Any]]:
    if module.example is None:
        raise ValueError("the archive holds no example inputs")
    named = _names_in(module.dynamic_shapes)
    _check_names(sizes, named)
    args, kwargs = module.example
    everything: Any = dict(zip(module.arguments, args, strict=False)) | kwargs
    for name, shape in module.dynamic_shapes.items():
        everything[name] = _resized(everything[name], shape, sizes)
    places = module.arguments[: len(args)]
    return (
        (
            tuple([everything[name] for name in places]),
            {name: everything[name] for name in kwargs},
        ),
        _without(module.dynamic_shapes, sizes),
    )


def _resized(value: Any, shape: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, torch.Tensor):
        for dim, size in shape.items():
            if _name(size) in sizes:
                places = torch.arange(sizes[_name(size)]) % value.shape[dim]
                value = value.index_select(dim, places)
        return value
    parts = dict(value) if isinstance(value, dict) else list(value)
    for key, inner in shape.items():
        parts[key] = _resized(value[key], inner, sizes)
    return parts if isinstance(value, dict) else type(value)(parts)


def _name(size: Any) -> str:
    return size if isinstance(size, str) else str(size.__name__)


def _names_in(shapes: Any) -> set[str]:
    if isinstance(shapes, dict):
        return {name for part in shapes.values() for name in _names_in(part)}
    return {_name(shapes)}


def _without(shapes: Any, sizes: Mapping[str, int]) -> Any:
    """The dims that are still open."""
    if not isinstance(shapes, dict):
        return None if _name(shapes) in sizes else shapes
    left = {key: _without(part, sizes) for key, part in shapes.items()}
    return {key: part for key, part in left.items() if part} or {}


def _check_names(sizes: Mapping[str, int], known: set[str]) -> None:
    for name in sizes:
        if name not in known:
            raise ValueError(
                f"no size is called {name}; there are "
                f"{', '.join(sorted(known)) or 'none that are open'}"
            )


def _tensor(dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    return torch.zeros(shape, dtype=dtype)

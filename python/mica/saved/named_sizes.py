"""Sizes of arguments that an exported program leaves open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

_UNBOUNDED = 2**63 - 1


@dataclass
class NamedSize:
    """A size that goes by a name.

    Attributes:
      name: What the Program calls it.
      least: The smallest one that it is for.
      greatest: The largest one.
      size: In the example arguments.
      places: The tensors that have it, with the dim.
    """

    name: str
    least: int
    greatest: int
    size: int
    places: list[tuple[torch.Tensor, int]] = field(default_factory=list)


def find_named_sizes(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    shapes: Mapping[str, Any] | Sequence[Any],
) -> list[NamedSize]:
    """Reads `dynamic_shapes` of `mica.export`.

    Args:
      fn: What is exported.
      args: The example's positional arguments.
      kwargs: Its arguments by keyword.
      shapes: By argument, dims with the names of their sizes.
    Returns:
      The sizes, in the order in which they are named.
    Raises:
      TypeError: What is named isn't a tensor's dim, or no name.
      ValueError: A size of the example is none of those that it stands for.
    """
    sizes: dict[str, NamedSize] = {}
    for path, value, shape in _arguments(fn, args, kwargs, shapes):
        for tensor_path, tensor, dims in _tensors(path, value, shape):
            for dim, named in _dims(tensor_path, tensor, dims):
                _add(sizes, tensor_path, tensor, dim, named)
    return list(sizes.values())


def resized(
    value: Any, sizes: Mapping[str, int], named: Sequence[NamedSize]
) -> Any:
    """The same arguments at other sizes.

    Args:
      value: Arguments: tensors, and containers of them.
      sizes: The sizes by name.
      named: What `find_named_sizes` gave.
    Returns:
      Arguments of the same structure. A tensor's elements are the example's,
      again from the first on where there are more.
    """
    made: dict[int, torch.Tensor] = {}
    for one in named:
        for tensor, dim in one.places:
            now = made.get(id(tensor), tensor)
            index = torch.arange(sizes[one.name]) % one.size
            made[id(tensor)] = now.detach().index_select(dim, index)
    for one in named:
        for tensor, _ in one.places:
            made[id(tensor)].requires_grad_(tensor.requires_grad)
    return _replaced(value, made)


def _replaced(value: Any, made: Mapping[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return made.get(id(value), value)
    if isinstance(value, dict):
        return {key: _replaced(item, made) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replaced(item, made) for item in value)
    return value


def _arguments(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    shapes: Mapping[str, Any] | Sequence[Any],
) -> Iterator[tuple[str, Any, Any]]:
    """Arguments with what is said of their sizes."""
    if not isinstance(shapes, Mapping):
        if len(shapes) > len(args):
            raise TypeError(
                f"mica.export: dynamic_shapes has {len(shapes)} entries for "
                f"{len(args)} positional arguments"
            )
        for i, shape in enumerate(shapes):
            yield f"args[{i}]", args[i], shape
        return
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        bound = inspect.signature(called).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = dict(kwargs)
    for name, shape in shapes.items():
        if name not in bound:
            raise TypeError(
                f"mica.export: dynamic_shapes names '{name}', which is no "
                f"argument; there are {', '.join(bound) or 'none'}"
            )
        yield name, bound[name], shape


def _tensors(
    path: str, value: Any, shape: Any
) -> Iterator[tuple[str, torch.Tensor, Any]]:
    """Tensors in an argument with what is said of their dims."""
    if shape is None:
        return
    if isinstance(value, torch.Tensor):
        yield path, value, shape
        return
    keys: Any = range(len(shape)) if isinstance(shape, (list, tuple)) else shape
    if not isinstance(value, (list, tuple, dict)) or isinstance(keys, str):
        raise TypeError(
            f"mica.export: dynamic_shapes of {path}: wants a tensor, or a "
            f"container of such, got {type(value).__name__}"
        )
    for key in keys:
        try:
            item = value[key]
        except (LookupError, TypeError):
            raise TypeError(
                f"mica.export: dynamic_shapes names {path}[{key!r}], which is "
                "no argument"
            ) from None
        yield from _tensors(f"{path}[{key!r}]", item, shape[key])


def _dims(
    path: str, tensor: torch.Tensor, shape: Any
) -> Iterator[tuple[int, Any]]:
    """Dims of a tensor with their names."""
    if isinstance(shape, Mapping):
        named = list(shape.items())
    elif isinstance(shape, (list, tuple)):
        named = list(enumerate(shape))
    else:
        raise TypeError(
            f"mica.export: dynamic_shapes of {path}: wants a dict of dims, or "
            f"an entry for each, got {shape!r}"
        )
    for dim, name in named:
        if not isinstance(dim, int) or not -tensor.dim() <= dim < tensor.dim():
            raise TypeError(
                f"mica.export: dynamic_shapes of {path}: there is no dim "
                f"{dim!r} of {list(tensor.shape)}"
            )
        if name is not None:
            yield dim % tensor.dim(), name


def _add(
    sizes: dict[str, NamedSize],
    path: str,
    tensor: torch.Tensor,
    dim: int,
    named: Any,
) -> None:
    size = tensor.shape[dim]
    name = named if isinstance(named, str) else getattr(named, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(
            f"mica.export: dynamic_shapes of {path}, dim {dim}: wants a name "
            f"or a torch.export.Dim, got {named!r}"
        )
    least, greatest = _range(named)
    one = sizes.setdefault(name, NamedSize(name, least, greatest, size))
    if one.size != size:
        raise ValueError(
            f"mica.export: {name} is {one.size}, but {path} has {size} in dim "
            f"{dim}"
        )
    if not least <= size <= greatest:
        raise ValueError(
            f"mica.export: {name} is {size} in {path}: wants an example of "
            f"{least} or more"
            + ("" if greatest == _UNBOUNDED else f", {greatest} at most")
            + "; 0 and 1 are programs of their own"
        )
    one.places.append((tensor, dim))


def _range(named: Any) -> tuple[int, int]:
    """The sizes that a torch.export.Dim stands for."""

    def bound(value: Any, otherwise: int) -> int:
        try:  # sympy's infinity raises what its rounding meets.
            return int(value)
        except (TypeError, ValueError, OverflowError, AttributeError):
            return otherwise

    least = bound(getattr(named, "min", None), 2)
    greatest = bound(getattr(named, "max", None), _UNBOUNDED)
    return max(least, 2), min(greatest, _UNBOUNDED)

"""Nested arguments and results of torch.export's programs, as Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils import _pytree as pytree

_PLAIN = (tuple, list, dict)


def check_container(
    x: Any, name: str, kind: Any, keys: tuple[Any, ...]
) -> None:
    """Raises unless an argument is a container of some keys."""
    if not isinstance(x, kind):
        raise TypeError(
            f"{name}: wants a {kind.__name__} of {len(keys)}, got "
            f"{type(x).__name__}"
        )
    if len(x) != len(keys):
        raise ValueError(
            f"{name}: wants a {kind.__name__} of {len(keys)}, got {len(x)}"
        )
    for key in keys:
        if kind is dict and key not in x:
            raise ValueError(f"{name}: lacks {key!r}")


class Trees:
    """Writes how arguments are taken apart and results put together.

    Attributes:
      parameters: The arguments' names, as `forward` has them.
      leaves: The variables that hold the leaves.
      titles: What the leaves are called in errors.
      names: What the written code refers to.
    """

    def __init__(self, ins: Any, outs: Any, names: Sequence[str]) -> None:
        positional, keywords = ins.children()
        self._specs = [*positional.children(), *keywords.children()]
        self.parameters = list(names)
        self._outs = outs
        self.leaves: list[str] = []
        self.titles: list[str] = []
        self.names: dict[str, Any] = {"check_container": check_container}
        self._paths: list[tuple[Any, ...]] = []

    def unpacking(self) -> list[str]:
        """The lines that make variables of the leaves."""
        lines: list[str] = []
        for name, spec in zip(self.parameters, self._specs, strict=True):
            self._unpack(spec, name, (name,), lines)
        return lines

    def _unpack(
        self, spec: Any, code: str, path: tuple[Any, ...], lines: list[str]
    ) -> None:
        if spec.is_leaf():
            leaf = f"leaf_{len(self.leaves)}"
            lines.append(f"{leaf} = {code}")
            self.leaves.append(leaf)
            self.titles.append(_title(path))
            self._paths.append(path)
            return
        children = spec.children()
        if spec.type not in _PLAIN:
            self._flatten(spec, code, path, lines)
            return
        keys = tuple(range(len(children)))
        if spec.type is dict:
            keys = tuple(spec.context)
        lines.append(
            f"check_container({code}, {_title(path)!r}, "
            f"{spec.type.__name__}, {keys!r})"
        )
        for key, child in zip(keys, children, strict=True):
            self._unpack(child, f"{code}[{key!r}]", (*path, key), lines)

    def _flatten(
        self, spec: Any, code: str, path: tuple[Any, ...], lines: list[str]
    ) -> None:
        """Of a class that pytree knows."""
        self.names["tree_leaves"] = pytree.tree_leaves
        first = len(self.leaves)
        for number in range(spec.num_leaves):
            self.leaves.append(f"leaf_{first + number}")
            self.titles.append(f"{_title(path)}, part {number}")
            self._paths.append((*path, number))
        lines.append(f"{', '.join(self.leaves[first:])}, = tree_leaves({code})")

    def packing(self, results: str) -> str:
        """The code of what is returned, of a tuple of its leaves."""
        leaves = iter(range(self._outs.num_leaves))
        return self._pack(self._outs, results, leaves)

    def _pack(self, spec: Any, results: str, leaves: Any) -> str:
        if spec.is_leaf():
            return f"{results}[{next(leaves)}]"
        if spec.type not in _PLAIN:
            name = f"spec_{len(self.names)}"
            self.names[name] = spec
            self.names["tree_unflatten"] = pytree.tree_unflatten
            parts = [
                f"{results}[{next(leaves)}]" for _ in range(spec.num_leaves)
            ]
            return f"tree_unflatten([{', '.join(parts)}], {name})"
        parts = [
            self._pack(child, results, leaves) for child in spec.children()
        ]
        if spec.type is dict:
            pairs = zip(spec.context, parts, strict=True)
            return "{" + ", ".join(f"{k!r}: {p}" for k, p in pairs) + "}"
        if spec.type is list:
            return f"[{', '.join(parts)}]"
        return f"({', '.join(parts)},)" if parts else "()"

    def nested(self, values: Sequence[Any]) -> dict[str, Any]:
        """Values of the leaves, nested as the arguments are, by name.

        Arguments all of whose leaves are None are left out.
        """
        made: dict[str, Any] = {}
        for path, value in zip(self._paths, values, strict=True):
            if value is None:
                continue
            at: Any = made
            for key in path[:-1]:
                at = at.setdefault(key, {})
            at[path[-1]] = value
        return made


def _title(path: tuple[Any, ...]) -> str:
    return str(path[0]) + "".join(f"[{key!r}]" for key in path[1:])

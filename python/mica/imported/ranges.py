"""The sizes that a program of torch.export is for, as checks in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mica.imported.inputs import words


def size_of(x: torch.Tensor, dim: int) -> int:
    """A size, from where capture follows it."""
    return x.shape[dim]


def check_that(holds: Any, message: str) -> None:
    """Raises a RuntimeError unless `holds`."""
    if not holds:
        raise RuntimeError(message)


def check_const(x: Any, name: str, wanted: Any) -> None:
    """Raises a ValueError unless an argument is what it was in the export."""
    if type(x) is not type(wanted) or x != wanted:
        raise ValueError(
            f"{name}: the program was exported for {wanted!r}, got {x!r}"
        )


def check_tensor(x: Any, name: str, dtype: torch.dtype, rank: int) -> None:
    """Raises unless an argument is a tensor of a dtype and rank."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"{name}: wants a tensor of {dtype}, got {type(x).__name__}"
        )
    if x.dtype != dtype:
        raise TypeError(
            f"{name}: wants {dtype}, got {words(x.dtype, tuple(x.shape))}"
        )
    if x.dim() != rank:
        raise ValueError(
            f"{name}: wants {rank} dims, got {words(x.dtype, tuple(x.shape))}"
        )


def check_size(got: int, name: str, dim: int, wanted: int, why: str) -> None:
    """Raises unless a size is what it has to be."""
    if got != wanted:
        raise ValueError(f"{name}: wants {wanted}{why} in dim {dim}, got {got}")


def check_range(got: int, name: str, least: int, greatest: int | None) -> None:
    """Raises unless a size lies in a range."""
    if got < least or (greatest is not None and got > greatest):
        most = "" if greatest is None else f", {greatest} at most"
        raise ValueError(f"{name}: wants {least} or more{most}, got {got}")


class Ranges:
    """Writes the checks of a program's arguments.

    Attributes:
      names: The functions that the checks call.
    """

    def __init__(self, constraints: Mapping[Any, Any]) -> None:
        self.constraints = {str(key): r for key, r in constraints.items()}
        self.names = {
            f.__name__: f
            for f in (check_tensor, check_size, check_range, check_const)
        }
        self._found: dict[str, tuple[str, str]] = {}
        self._derived: set[str] = set()

    def checks(self, value: Any, code: str, title: str) -> list[str]:
        """The checks of an argument.

        Args:
          value: What the export made up for it: a tensor without data, a size
            or a constant.
          code: The variable that holds it.
          title: What to call it in errors.
        """
        if isinstance(value, torch.SymInt):
            return self._size(value, code, title, 0)
        if not isinstance(value, torch.Tensor):
            return [f"check_const({code}, {title!r}, {value!r})"]
        lines = [
            f"check_tensor({code}, {title!r}, {value.dtype}, {value.dim()})"
        ]
        for dim, size in enumerate(value.shape):
            lines += self._size(size, f"{code}.shape[{dim}]", title, dim)
        return lines

    def _size(self, size: Any, code: str, title: str, dim: int) -> list[str]:
        symbols = _symbols(size)
        if not symbols:
            return [f"check_size({code}, {title!r}, {dim}, {int(size)}, '')"]
        text = str(size.node.expr)
        if text in symbols and text not in self._found:
            self._found[text] = (code, f"{title}, dim {dim}")
            return []
        if not all(symbol in self._found for symbol in symbols):
            return []  # The graph's own assertions hold it.
        if text not in symbols:
            self._derived |= symbols
        for symbol in sorted(symbols, key=len, reverse=True):
            text = text.replace(symbol, self._found[symbol][0])
        why = f" ({size.node.expr})" if str(size.node.expr) != text else ""
        first = sorted(symbols)[0]
        why = f", as {self._found[first][1]}" if len(symbols) == 1 else why
        return [f"check_size({code}, {title!r}, {dim}, {text}, {why!r})"]

    def range_checks(self) -> list[str]:
        """The checks that sizes lie in their ranges."""
        lines = []
        for symbol, (code, title) in self._found.items():
            least, greatest = self._range(symbol)
            lines.append(f"check_range({code}, {title!r}, {least}, {greatest})")
        return lines

    def open_sizes(self, values: Sequence[Any]) -> list[dict[int, Any] | None]:
        """For each argument the dims that are open, with their ranges.

        Sizes that others are computed from stay as they are in an example.
        """
        made: list[dict[int, Any] | None] = []
        dims: dict[str, Any] = {}
        for value in values:
            shape = value.shape if isinstance(value, torch.Tensor) else ()
            found = {}
            for dim, size in enumerate(shape):
                text = str(size)
                if text not in self._found or text in self._derived:
                    continue
                if text not in dims:
                    least, greatest = self._range(text)
                    dims[text] = torch.export.Dim(text, min=least, max=greatest)
                found[dim] = dims[text]
            made.append(found or None)
        return made

    def _range(self, symbol: str) -> tuple[int, int | None]:
        bounds = self.constraints.get(symbol)
        if bounds is None:
            return 0, None
        least, greatest = (
            int(value) if isinstance(value, int) or value.is_Integer else None
            for value in (bounds.lower, bounds.upper)
        )
        return least or 0, greatest


def _symbols(size: Any) -> set[str]:
    if not isinstance(size, torch.SymInt):
        return set()
    return {str(symbol) for symbol in size.node.expr.free_symbols}

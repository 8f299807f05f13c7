"""The Program of a callable for all sizes of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mica import _mica
from mica.captured import settled_record
from mica.programs.described import program_of
from mica.saved.named_sizes import NamedSize, find_named_sizes, resized

_WHO = "mica.export"
# Sizes that are watched beside the example's.
_MAX_OTHERS = 3


def symbolic_program(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: Mapping[str, Any] | Sequence[Any],
    reset: Callable[[], object],
) -> tuple[dict[str, Any], _mica.Program]:
    """Watches a callable at several sizes.

    Args:
      fn: What is exported.
      args: The example's positional arguments.
      kwargs: Its arguments by keyword.
      shapes: As `dynamic_shapes` of `mica.export`.
      reset: Called before each call, and at the end.
    Returns:
      The record of the example as `_mica_describe` gives it, and the Program
      with symbols, which returns the record's results as they are.
    Raises:
      NotImplementedError: A size can't be left open; says why.
    """
    inner = fn.__wrapped__ if isinstance(fn, _mica.Compiled) else fn
    named = find_named_sizes(inner, args, kwargs, shapes)
    compiled, record = settled_record(fn, args, kwargs, _WHO, reset)
    for turn in range(1, _MAX_OTHERS + 1):
        reset()
        moved = resized((args, kwargs), _others(named, turn), named)
        compiled(*moved[0], **moved[1])
        reset()
        record = compiled._mica_describe(*args, **kwargs) or record
        try:
            return record, _generalised(compiled, record, args, kwargs, named)
        except NotImplementedError as error:
            if turn < _MAX_OTHERS:
                continue
            why = compiled._mica_report()["fixed_sizes"] or error
            raise NotImplementedError(
                f"{_WHO}: {', '.join(one.name for one in named)} can't vary: "
                f"{why}"
            ) from None
    raise AssertionError("unreachable")


def _others(named: Sequence[NamedSize], turn: int) -> dict[str, int]:
    """Other sizes, each changed by another amount."""
    others = {}
    for number, one in enumerate(named):
        change = turn * (number + 1) + number
        size = one.size + change
        if size > one.greatest:
            size = one.size - change
        others[one.name] = min(max(size, one.least), one.greatest)
    return others


def _generalised(
    compiled: Any,
    record: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    named: Sequence[NamedSize],
) -> _mica.Program:
    """The Program with symbols; `record` then says what it returns."""
    numbers = {
        id(tensor): number for number, tensor in _inputs(record, args, kwargs)
    }
    sizes = tuple(
        (
            one.name,
            tuple((numbers[id(tensor)], dim) for tensor, dim in one.places),
            one.least,
            one.greatest,
        )
        for one in named
    )
    program_of(dict(record), _WHO)  # What it refuses is refused here.
    used = sorted(
        {node[2] for node in record["results"] if node[0] == "tensor"}
    )
    count = len(record["number_outputs"])
    text = compiled._mica_symbolic(sizes, (tuple(used), count), *args, **kwargs)
    windows = list(record["windows"])
    for position, index in enumerate(used):
        windows[index] = ("output", position, None, None, None, "", "")
    record["windows"] = windows
    record["number_outputs"] = [len(used) + i for i in range(count)]
    return _mica.Program.parse(text)


def _inputs(
    record: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[int, Any]]:
    """The tensors among the arguments with their numbers as inputs."""
    nodes = record["inputs"]
    values = [*args, *(kwargs[name] for name in record["keywords"] or ())]
    found: list[tuple[int, Any]] = []

    def visit(number: int, value: Any) -> None:
        kind, _, index, keys, _, children, _ = nodes[number]
        if kind == "tensor":
            found.append((index, value))
        for key, child in zip(
            keys or range(len(children)), children, strict=False
        ):
            if kind in ("tuple", "list", "dict"):
                visit(child, value[key])

    for root, value in zip(record["roots"], values, strict=False):
        visit(root, value)
    return found

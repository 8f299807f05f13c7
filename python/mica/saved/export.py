"""Writes a captured program to a folder that runs without Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mica import _mica
from mica.captured import (
    in_either_way,
    modules_of,
    record_of,
    settled_record,
)
from mica.programs.described import constants, new_names, program_of
from mica.saved import signature
from mica.saved.load import Loaded
from mica.saved.symbolic import symbolic_program

_WHO = "mica.export"


def export(
    fn: Callable[..., Any],
    args: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    modules: Mapping[str, Any] | None = None,
    reset: Callable[[], object] | None = None,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
) -> None:
    """Writes the program that `fn` runs for `args` to a folder.

    The folder holds the Program's text, `program.mica`; its state's tensors as
    they are now, `weights.safetensors`; and how arguments and results are
    nested, `signature.json`. `mica.load`, `mica_run`, `mica_bench` and
    `mica_train` take it. A folder that an earlier export wrote is replaced.

    If `fn` is compiled and has a record that fits `args` and depends on no
    values, that is exported and nothing runs. Else `fn` is called with `args`,
    several times if it changes its state so that a record doesn't fit the next
    call: for a training step these are real steps. If no Program comes of that,
    `torch.compiler.is_exporting()` is true in further ones.

    What the program read of Python's state (flags, numbers, `training`) is
    part of what is exported; only tensors vary, and numbers that did so
    before: a learning rate that differed between two calls is an input.

    Args:
      fn: A function, a method, a module, what `mica.compile` made of one, or
        what `mica.load` gave.
      args: The positional arguments of the call to export: tensors, numbers,
        texts and tuples, lists and dicts of them.
      path: The folder to write.
      kwargs: The arguments by keyword.
      modules: Modules and optimizers by what their tensors' names begin with,
        such as {"model": model}; "" gives a module's `state_dict` names. By
        default those in `fn`'s closure and globals, by their names there. Other
        tensors are called by the way on which the program reaches them.
      reset: Puts the state back to where the exported program is to begin, as
        an empty cache: called before each call and before the state is
        written.
      dynamic_shapes: Sizes to leave open, as in torch.export: for each
        argument a dict or list of dims, with names or `torch.export.Dim`s.
        `fn` is called at two to four sizes, and results are no views then.
    Raises:
      CaptureError: The call can't be captured as one graph; says why.
      NotImplementedError: An op runs through ATen, named with the user's
        line; the program's way depends on tensors' values; an argument or
        result has no form outside Python; or a size can't be left open.
      TypeError: `dynamic_shapes` names no dim of a tensor, or has no name.
      ValueError: The folder holds something else than an exported program,
        or the tensors share memory in a way that files can't.
    """
    if isinstance(fn, Loaded):
        fn.export(path)
        return
    given = dict(kwargs or {})
    reset = reset or (lambda: None)
    record, program = _program_of(fn, tuple(args), given, dynamic_shapes, reset)
    _write(record, program, fn, args, os.fspath(path), given, modules)


def _program_of(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: Mapping[str, Any] | Sequence[Any] | None,
    reset: Callable[[], object],
) -> tuple[dict[str, Any], _mica.Program]:
    """The record to export, and its Program."""
    if shapes is None and isinstance(fn, _mica.Compiled):
        record = record_of(fn, args, kwargs, _WHO, reset)
        if not record["host_reads"] and not record["slots"]:
            return record, program_of(record, _WHO)

    def make() -> tuple[dict[str, Any], _mica.Program]:
        if shapes is not None:
            return symbolic_program(fn, args, kwargs, shapes, reset)
        record = settled_record(fn, args, kwargs, _WHO, reset)[1]
        return record, program_of(record, _WHO)

    return in_either_way(make)


def _write(
    record: dict[str, Any],
    program: _mica.Program,
    fn: Callable[..., Any],
    args: Sequence[Any],
    path: str,
    kwargs: Mapping[str, Any],
    modules: Mapping[str, Any] | None,
) -> None:
    names = new_names(
        program,
        record["states"],
        modules_of(fn) if modules is None else modules,
        _WHO,
    )
    program = program.rename_variables(names)
    states: list[torch.Tensor] = record["states"]
    _check_memory(program, states, record, args, kwargs)
    by_id = {
        id(tensor): name
        for tensor, (name, _) in zip(states, program.variables, strict=False)
    }
    _mica.write_saved(
        path,
        program,
        [state.detach() for state in states] + constants(program, record),
        signature.make(record, by_id, [name for name, _ in program.inputs]),
    )


def _check_memory(
    program: _mica.Program,
    states: Sequence[torch.Tensor],
    record: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Refuses tensors that share memory which the program writes."""
    updated = set(program.updated_variables)
    tensors = [
        (name, name in updated, state)
        for state, (name, _) in zip(states, program.variables, strict=False)
    ]
    inputs = _tensors_in((*args, *kwargs.values()))
    for tensor in inputs:
        tensors.append(("an argument", True, tensor))
    owners: dict[int, tuple[str, bool, torch.Tensor]] = {}
    for name, is_written, tensor in tensors:
        if tensor.numel() == 0:
            continue
        storage = tensor.untyped_storage().data_ptr()
        other = owners.setdefault(storage, (name, is_written, tensor))
        if other[2] is not tensor and (is_written or other[1]):
            raise ValueError(
                f"mica.export: {other[0]} and {name} share memory, which the "
                "exported program would hold twice"
            )


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors_in(item)]
    return []

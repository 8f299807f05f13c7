"""Writes a captured program to a folder that runs without Python."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mica import _mica, signature
from mica.compile import compile as _compile
from mica.errors import CaptureError
from mica.load import Loaded

# A training step's second call may differ from its first, which made the
# optimizer's state, and its third from its second.
_MAX_CALLS = 4


def export(
    fn: Callable[..., Any],
    args: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    modules: Mapping[str, Any] | None = None,
) -> None:
    """Writes the program that `fn` runs for `args` to a folder.

    The folder holds the Program's text, `program.mica`; its state's tensors as
    they are now, `weights.safetensors`; and how arguments and results are
    nested, `signature.json`. `mica.load`, `mica_run`, `mica_bench` and
    `mica_train` take it. A folder that an earlier export wrote is replaced.

    If `fn` is compiled and has a record that fits `args`, that is exported and
    nothing runs. Else `fn` is called with `args`, several times if it changes
    its state so that a record doesn't fit the next call: for a training step
    these are real steps.

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
      modules: Modules and optimizers by the name that their tensors' names
        are to begin with, such as {"model": model, "optimizer": optimizer};
        "" for a module gives its `state_dict` names. By default those that
        `fn` has in its closure or its globals, by their names there. Other
        tensors are called by the way on which the program reaches them.
    Raises:
      CaptureError: The call can't be captured as one graph; says why.
      NotImplementedError: An op runs through ATen, named with the user's
        line; the program's way depends on tensors' values; or an argument or
        result has no form outside Python.
      ValueError: The folder holds something else than an exported program,
        or the tensors share memory in a way that files can't.
    """
    if isinstance(fn, Loaded):
        fn.export(path)
        return
    record = _record_of(fn, tuple(args), dict(kwargs or {}))
    if record["host_reads"]:
        raise NotImplementedError(
            "mica.export: what the program does depends on the value of a "
            f"tensor, read at {', '.join(record['host_reads'])}"
        )
    program = _keep_results(_mica.Program.parse(record["program"]), record)
    _check_effects(record)
    _check_gradients(program, record)
    names = _new_names(
        program,
        record["states"],
        _modules_of(fn) if modules is None else modules,
    )
    program = program.rename_variables(names)
    states: list[torch.Tensor] = record["states"]
    _check_memory(program, states, record, args, kwargs or {})
    by_id = {
        id(tensor): name
        for tensor, (name, _) in zip(states, program.variables, strict=False)
    }
    _mica.write_saved(
        os.fspath(path),
        program,
        [state.detach() for state in states] + _constants(program, record),
        signature.make(record, by_id, [name for name, _ in program.inputs]),
    )


def _record_of(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The record that fits a call, made by calling if there is none."""
    compiled: Any = fn if isinstance(fn, _mica.Compiled) else _compile(fn)
    for _ in range(_MAX_CALLS):
        record: dict[str, Any] | None = compiled._mica_describe(*args, **kwargs)
        if record is not None:
            return record
        compiled(*args, **kwargs)
    report = compiled._mica_report()
    reasons = [reason[0] for reason in report["refusals"]]
    reasons += [reason[0] for reason in report["misses"]]
    raise CaptureError(
        f"mica.export: {report['name']} is not one graph: "
        + ("; ".join(reasons) or "no record fits the call")
    )


def _keep_results(
    program: _mica.Program, record: dict[str, Any]
) -> _mica.Program:
    """The Program without outputs that are no part of the call's result.

    Those are gradients that the program leaves behind. The record's windows
    count the outputs that are left.
    """
    used = {node[2] for node in record["results"] if node[0] == "tensor"}
    windows = record["windows"]
    kept = {
        windows[index][1] for index in used if windows[index][0] == "output"
    }
    outputs = sorted(kept | set(record["number_outputs"]))
    record["number_outputs"] = [
        outputs.index(index) for index in record["number_outputs"]
    ]
    record["windows"] = [
        (source, outputs.index(index), *rest)
        if source == "output" and index in outputs
        else (source, index, *rest)
        for source, index, *rest in windows
    ]
    return program.keep_outputs(outputs)


def _check_effects(record: Mapping[str, Any]) -> None:
    """Refuses a program that leaves something in Python's state."""
    for effect in record["effects"]:
        raise NotImplementedError(
            f"mica.export: the program {effect}; return the value instead"
        )


def _check_gradients(program: _mica.Program, record: Mapping[str, Any]) -> None:
    """Refuses a program that reads a gradient and leaves another tensor."""
    lost = set(record["lost_gradients"]) - set(program.unused_variables())
    for name, _ in program.variables:
        if name in lost:
            raise NotImplementedError(
                f"mica.export: the program reads {name} and puts a new tensor "
                "in its place; begin it with zero_grad(), or fill gradients "
                "in place"
            )


def _modules_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The modules and optimizers that a callable has at hand, by name."""
    fn = getattr(fn, "__wrapped__", fn)
    if isinstance(fn, torch.nn.Module):
        return {"": fn}
    function = inspect.unwrap(getattr(fn, "__func__", fn))
    if not inspect.isfunction(function):
        return {}
    names = inspect.getclosurevars(function)
    return {
        name: value
        for name, value in {**names.globals, **names.nonlocals}.items()
        if isinstance(value, (torch.nn.Module, torch.optim.Optimizer))
    }


def _new_names(
    program: _mica.Program,
    states: Sequence[torch.Tensor],
    modules: Mapping[str, Any],
) -> dict[str, str]:
    """New names of variables by old ones, for tensors of the modules."""
    known: dict[int, str] = {}
    for prefix, module in modules.items():
        if isinstance(module, torch.nn.Module):
            _name_module(prefix, module, known)
    for prefix, module in modules.items():
        if isinstance(module, torch.optim.Optimizer):
            _name_optimizer(prefix, module, known)
        elif not isinstance(module, torch.nn.Module):
            raise TypeError(
                f"mica.export: modules['{prefix}'] is a "
                f"{type(module).__name__}: wants a module or an optimizer"
            )
    return {
        old: known[id(tensor)]
        for tensor, (old, _) in zip(states, program.variables, strict=False)
        if id(tensor) in known
    }


def _name_module(
    prefix: str, module: torch.nn.Module, known: dict[int, str]
) -> None:
    dot = f"{prefix}." if prefix else ""
    for name, parameter in module.named_parameters():
        known.setdefault(id(parameter), dot + name)
        if parameter.grad is not None:
            known.setdefault(id(parameter.grad), f"{dot}{name}.grad")
    for name, buffer in module.named_buffers():
        known.setdefault(id(buffer), dot + name)


def _name_optimizer(
    prefix: str, optimizer: torch.optim.Optimizer, known: dict[int, str]
) -> None:
    number = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = known.get(id(parameter), str(number))
            number += 1
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    known.setdefault(id(value), f"{prefix}.{name}.{key}")


def _constants(
    program: _mica.Program, record: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Tensors for the variables that were constants too large for the text."""
    tensors = []
    types = [text for _, text in program.variables[len(record["states"]) :]]
    for data, text in zip(record["constants"], types, strict=True):
        dtype, _, dims = text.partition("{")[0].rstrip("]").partition("[")
        shape = [int(dim) for dim in dims.split(",") if dim]
        flat = torch.frombuffer(bytearray(data), dtype=_DTYPES[dtype])
        tensors.append(flat.reshape(shape))
    return tensors


_DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}


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

"""The Program of a record that `_mica_describe` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mica import _mica
from mica.programs.tensor_types import parse_type


def program_of(record: dict[str, Any], who: str) -> _mica.Program:
    """A record's Program, without outputs that are no part of the result."""
    if record["host_reads"]:
        raise NotImplementedError(
            f"{who}: what the program does depends on the value of a "
            f"tensor, read at {', '.join(record['host_reads'])}"
        )
    check_inputs(record, who)
    if any(dtype or lazy for *_, dtype, lazy in record["windows"]):
        raise NotImplementedError(
            f"{who}: the result has a lazy view of complex numbers, or one "
            "of their parts; a clone of it would do"
        )
    program = _keep_results(_mica.Program.parse(record["program"]), record)
    _check_effects(record, who)
    _check_gradients(program, record, who)
    return program


def check_inputs(record: Mapping[str, Any], who: str) -> None:
    """Refuses tensors whose memory doesn't hold what they say.

    Args:
      record: What `_mica_describe` gives.
      who: Whose error it is.
    Raises:
      NotImplementedError: An input or a state is lazily conjugated or negated.
    """
    if record["lazy"]:
        raise NotImplementedError(
            f"{who}: {', '.join(record['lazy'])}: a lazily conjugated or "
            "negated tensor; take resolve_conj() or resolve_neg() of it"
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


def _check_effects(record: Mapping[str, Any], who: str) -> None:
    """Refuses a program that leaves something in Python's state."""
    for effect in record["effects"]:
        raise NotImplementedError(
            f"{who}: the program {effect}; return the value instead"
        )


def _check_gradients(
    program: _mica.Program, record: Mapping[str, Any], who: str
) -> None:
    """Refuses a program that reads a gradient and leaves another tensor."""
    lost = set(record["lost_gradients"]) - set(program.unused_variables())
    for name, _ in program.variables:
        if name in lost:
            raise NotImplementedError(
                f"{who}: the program reads {name} and puts a new tensor "
                "in its place; begin it with zero_grad(), or fill gradients "
                "in place"
            )


def new_names(
    program: _mica.Program,
    states: Sequence[torch.Tensor],
    modules: Mapping[str, Any],
    who: str,
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
                f"{who}: modules['{prefix}'] is a "
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


def constants(
    program: _mica.Program, record: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Tensors for the variables that were constants too large for the text."""
    tensors = []
    types = [text for _, text in program.variables[len(record["states"]) :]]
    for data, text in zip(record["constants"], types, strict=True):
        dtype, shape, _ = parse_type(text)
        flat = torch.frombuffer(bytearray(data), dtype=dtype)
        tensors.append(flat.reshape(shape or []))
    return tensors

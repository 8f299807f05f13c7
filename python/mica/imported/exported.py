"""Archives of torch.export as modules."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from mica.imported.archives import is_archive
from mica.imported.ranges import Ranges, check_that, size_of
from mica.imported.trees import Trees
from mica.imported.written import class_of

WHO = "mica.from_exported"

# Functions whose sizes capture follows, by operators with hidden ones.
_IN_PYTHON: dict[Any, Any] = {
    torch.ops.aten.sym_size.int: size_of,
    torch.ops.aten.sym_numel.default: torch.numel,
    torch.ops.aten.diff.default: torch.diff,
    torch.ops.aten._assert_scalar.default: check_that,
}
# Nodes that only assert, which the checks of arguments do here.
_ASSERTS = (
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
    torch.ops.aten.sym_constrain_range.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
)


class ExportedModule(nn.Module):
    """A program that torch.export wrote.

    Attributes:
      code: The Python of `forward`.
      dynamic_shapes: The sizes that it leaves open, by argument, as
        `mica.export` takes them.
      graph: What runs: a GraphModule of tensors and numbers.
      arguments: The names of `forward`'s arguments.
      example: Positional and keyword arguments, as it was exported with.
    """

    code: str
    dynamic_shapes: dict[str, Any]
    arguments: tuple[str, ...]
    example: tuple[tuple[Any, ...], dict[str, Any]] | None

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph = graph


def from_exported(
    program: str | os.PathLike[str] | Any,
) -> ExportedModule:
    """Makes a module of a program that torch.export wrote.

    As `torch.export.load(path).module()`, with its checks of arguments in
    plain Python, which capture follows.

    Args:
      program: A .pt2 file, or a torch.export.ExportedProgram.
    Returns:
      The module. `dynamic_shapes` tells the sizes that are open.
    Raises:
      OSError: The file can't be read.
      ValueError: It is no such archive, or damaged; names it.
      TypeError: It is neither a path nor a program.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        program = _load(program)
    inner = program.module(check_guards=False)
    names = _argument_names(inner)
    graph = inner.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    values = [node.meta.get("val") for node in inputs]
    for node in list(graph.nodes):
        _plain(node)
    graph.set_codegen(torch.fx.graph.CodeGen())
    _without_checks(graph, inner)
    # A new one, without the hooks that check arguments in ways of their own.
    body = torch.fx.GraphModule(inner, graph)
    trees = Trees(inner._in_spec, inner._out_spec, names)
    ranges = Ranges(program.range_constraints)
    lines = trees.unpacking()
    for place, value in enumerate(values):
        lines += ranges.checks(value, trees.leaves[place], trees.titles[place])
    lines += ranges.range_checks()
    leaves = ", ".join(trees.leaves)
    lines.append(f"results = self.graph({leaves})")
    lines.append(f"return {trees.packing('results')}")
    head = f"def forward({', '.join(['self', *trees.parameters])}):"
    code = "\n".join([head, *[f"    {line}" for line in lines]]) + "\n"
    known: dict[str, Any] = {"torch": torch} | trees.names | ranges.names
    module = class_of(ExportedModule, code, known, "exported")(body)
    module.code = code
    module.dynamic_shapes = trees.nested(ranges.open_sizes(values))
    module.arguments = tuple(trees.parameters)
    module.example = program.example_inputs
    return module


def _load(path: Any) -> Any:
    try:
        file = os.fspath(path)
    except TypeError:
        raise TypeError(
            f"{WHO}: wants a path or a torch.export.ExportedProgram, got "
            f"{type(path).__name__}"
        ) from None
    if not is_archive(file):
        raise ValueError(f"{WHO}: {file} is no archive of torch.export")
    try:
        return torch.export.load(file)
    except Exception as error:  # torch raises whatever it meets.
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{WHO}: {file} is no archive of torch.export, or damaged: {first}"
        ) from error


def _argument_names(inner: Any) -> list[str]:
    """The names of the arguments, positional ones first."""
    names = list(inner.graph._codegen.pytree_info.orig_args)
    return [name for name in names if name != "self"]


def _plain(node: Any) -> None:
    """Makes a node whose sizes capture can't follow one of Python."""
    node.target = _IN_PYTHON.get(node.target, node.target)


def _without_checks(graph: Any, inner: Any) -> None:
    """Takes out what the checks of arguments do here."""
    for node in list(graph.nodes):
        is_guards = node.op == "call_module" and node.target == "_guards_fn"
        if is_guards or (node.target in _ASSERTS and not node.users):
            graph.erase_node(node)
    if hasattr(inner, "_guards_fn"):
        del inner._guards_fn
    output = next(node for node in graph.nodes if node.op == "output")
    with graph.inserting_before(output):
        output.args = (_as_tuple(output.args[0]),)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)

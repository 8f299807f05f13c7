"""ONNX files as modules."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from torch import nn

from mica.imported import families  # noqa: F401
from mica.imported.bodies import check_all
from mica.imported.control_flow import CONTROL
from mica.imported.emit import Emitter
from mica.imported.errors import WHO, package
from mica.imported.graph import Graph, Reader
from mica.imported.inputs import InputType, checks_of
from mica.imported.patterns import simplify
from mica.imported.values import Value
from mica.imported.written import class_of


class OnnxModule(nn.Module):
    """A graph of an ONNX file.

    It takes the graph's inputs in their order, or by name, and returns its
    output; a tuple of several. Sequences are lists; an optional value that is
    empty is None. Initializers are parameters and buffers; parameters want no
    gradients until `requires_grad_()` says so.

    Attributes:
      code: The Python of `forward`.
      input_names: What the file calls the inputs.
      output_names: What the file calls the outputs.
      input_types: The inputs' dtypes and sizes, an open one by its name; None
        of what is no tensor, or of any sizes.
      dynamic_shapes: The sizes that the file leaves open, by argument, as
        `mica.export` takes them.
    """

    code: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_types: tuple[InputType | None, ...]
    dynamic_shapes: dict[str, dict[int, str]]


def from_onnx(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    folder: str | os.PathLike[str] | None = None,
) -> OnnxModule:
    """Makes a module of an ONNX model.

    What `mica.compile`, `mica.capture` and `mica.export` take of it is what
    they take of any module. Sizes of inputs that the file leaves open may be
    any; shapes that the graph computes are computed in Python.

    Args:
      model: A file, its contents, or an onnx.ModelProto.
      folder: Where to look for tensors that lie outside of `model`; by default
        the folder of the file.
    Returns:
      The module, in eval mode.
    Raises:
      RuntimeError: The package onnx isn't installed.
      FileNotFoundError: There is no such file.
      ValueError: The file is damaged, or a tensor lies outside of the folder;
        names the file, the node or the tensor.
      NotImplementedError: Nothing here runs some nodes; names all of them.
    """
    proto, path = _read(model)
    if folder is None and path is not None:
        folder = os.path.dirname(os.path.abspath(path))
    reader = Reader(
        None if folder is None else os.fspath(folder),
        {
            "" if o.domain == "ai.onnx" else o.domain: o.version
            for o in proto.opset_import
        },
        {(f.domain, f.name): f for f in proto.functions},
    )
    try:
        graph = reader.read_graph(proto.graph)
    except ValueError as error:
        if path is None:
            raise
        raise ValueError(f"{error}, in {path}") from None
    check_all(reader, graph, frozenset(CONTROL))
    simplify(graph)
    emitter = Emitter(reader, CONTROL, _types_of(proto))
    return _build(emitter, graph)


def _read(model: Any) -> tuple[Any, str | None]:
    """The model, and the file that it is from."""
    onnx = package()
    from google.protobuf.message import (  # type: ignore[import-untyped]
        DecodeError,
    )

    path = None
    if not isinstance(model, (bytes, bytearray, onnx.ModelProto)):
        try:
            path = os.fspath(model)
        except TypeError:
            raise TypeError(
                f"{WHO}: wants a path, bytes or an onnx.ModelProto, got "
                f"{type(model).__name__}"
            ) from None
        with open(path, "rb") as file:
            model = file.read()
    what = path or "the model"
    if isinstance(model, (bytes, bytearray)):
        try:
            model = onnx.ModelProto.FromString(bytes(model))
        except DecodeError as error:
            raise ValueError(
                f"{WHO}: {what} is no ONNX file, or damaged ({error})"
            ) from None
    if not model.HasField("graph") or not model.opset_import:
        raise ValueError(
            f"{WHO}: {what} is no ONNX file: it lacks a graph, or the opsets "
            "that it was made for"
        )
    return model, path


def _types_of(proto: Any) -> Callable[[str], Any]:
    """Gives values' types, inferred when one is asked for."""
    found: dict[str, Any] = {}

    def infer() -> None:
        onnx = package()
        graph = onnx.shape_inference.infer_shapes(proto).graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            found[value.name] = value.type
        for tensor in graph.initializer:
            found[tensor.name] = onnx.helper.make_tensor_type_proto(
                tensor.data_type, tensor.dims
            )

    def find(name: str) -> Any:
        if not found:
            infer()
        return found.get(name)

    return find


def _build(emitter: Emitter, graph: Graph) -> OnnxModule:
    arguments = [emitter.fresh(name) for name, _ in graph.inputs]
    scope = {
        name: Value(code)
        for (name, _), code in zip(graph.inputs, arguments, strict=True)
    }
    types = checks_of(emitter, graph, arguments)
    results = emitter.graph(graph, scope)
    codes = [emitter.tensor(value) for value in results]
    emitter.line(f"return {', '.join(codes)}")
    head = f"def forward({', '.join(['self', *arguments])}):"
    code = "\n".join([head, *emitter.lines]) + "\n"
    title = f"onnx {graph.name}"
    module = class_of(OnnxModule, code, emitter.names, title)()
    module.code = code
    module.input_names = tuple(name for name, _ in graph.inputs)
    module.output_names = tuple(name for name, _ in graph.outputs)
    module.input_types = tuple(types)
    module.dynamic_shapes = _open_sizes(arguments, types)
    for name, tensor in emitter.tensors.items():
        if name in emitter.parameters:
            module.register_parameter(name, nn.Parameter(tensor, False))
        else:
            module.register_buffer(name, tensor)
    return module.eval()


def _open_sizes(
    arguments: list[str], types: list[InputType | None]
) -> dict[str, dict[int, str]]:
    """Dims that have a name, by argument; a name's dims are equal."""
    found = {}
    for argument, kind in zip(arguments, types, strict=True):
        sizes = () if kind is None else kind[1]
        named = {
            dim: size
            for dim, size in enumerate(sizes)
            if isinstance(size, str) and size.isidentifier()
        }
        if named:
            found[argument] = named
    return found

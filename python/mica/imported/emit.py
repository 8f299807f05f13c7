"""Writes a graph as the Python of a module's forward."""

from __future__ import annotations

import keyword
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

import torch

from mica.imported import bodies, hosts
from mica.imported.errors import WHO
from mica.imported.graph import Graph, Node, Reader
from mica.imported.registry import Operator, find
from mica.imported.values import NONE, HostCall, Value, constant, host_call

Scope = MutableMapping[str, Value]
_Written = TypeVar("_Written")
# Constants are computed beforehand up to so many elements.
_MAX_FOLDED = 1 << 16


class Emitter:
    """Writes Python, line by line, and keeps what the lines refer to.

    Attributes:
      lines: What is written.
      names: Functions and the like that the lines use, by name.
      tensors: What becomes parameters and buffers, by name.
      parameters: The names of those that are parameters.
      control: How nodes with bodies are written, by operator.
    """

    def __init__(
        self,
        reader: Reader,
        control: Mapping[str, Callable[[Emitter, Node, Scope], None]],
        types: Callable[[str], Any],
    ) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "torch": torch,
            "inf": float("inf"),
            "nan": float("nan"),
        }
        self.tensors: dict[str, torch.Tensor] = {}
        self.parameters: set[str] = set()
        self.control = control
        self.reader = reader
        self.types = types
        self._indent = 1
        self._used: set[str] = {"self", *self.names}
        self._kept: dict[int, str] = {}

    def line(self, text: str) -> None:
        """Writes a line."""
        self.lines.append("    " * self._indent + text)

    def block(
        self, write: Callable[[], _Written]
    ) -> tuple[list[str], _Written]:
        """Returns the lines that `write` writes, a level deeper, unwritten."""
        before, self.lines = self.lines, []
        self._indent += 1
        try:
            result = write()
        finally:
            self._indent -= 1
            lines, self.lines = self.lines, before
        return lines, result

    def fresh(self, name: str) -> str:
        """Returns an identifier that isn't used yet, like `name`."""
        base = re.sub(r"\W", "_", name) or "value"
        if not re.match(r"[A-Za-z_]", base) or keyword.iskeyword(base):
            base = f"_{base}"
        base = re.sub("^__+", "_", base)
        name, number = base, 0
        while name in self._used or hasattr(torch.nn.Module, name):
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        return name

    def function(self, call: Callable[..., Any]) -> str:
        """The name of a function in the lines."""
        key = id(call)
        if key not in self._kept:
            name = getattr(call, "__name__", "function").strip("_<>")
            self._kept[key] = self.fresh(name)
            self.names[self._kept[key]] = call
        return self._kept[key]

    def keep(self, tensor: torch.Tensor, name: str = "constant") -> str:
        """The code of a tensor, which becomes the module's."""
        key = id(tensor)
        if key not in self._kept:
            self._kept[key] = self.fresh(name)
            self.tensors[self._kept[key]] = tensor
        return f"self.{self._kept[key]}"

    def tensor(self, value: Value) -> str:
        """The code of a value as a tensor."""
        if value.is_host:
            make = self.function(hosts.tensor_of)
            return f"{make}({value.code}, {value.dtype})"
        if value.constant is not None:
            return self.keep(value.constant)
        return value.code

    def sizes(self, value: Value) -> str:
        """The code of a value as Python's numbers."""
        if value.is_host or value is NONE:
            return value.code
        if value.constant is not None:
            return repr(hosts.to_python(value.constant))
        return f"{self.function(hosts.to_python)}({value.code})"

    def graph(self, graph: Graph, scope: Scope) -> list[Value]:
        """Writes a graph whose inputs are in `scope`; gives its outputs."""
        for name, tensor in graph.initializers.items():
            scope[name] = self.initializer(name, tensor)
        for node in graph.nodes:
            self.node(node, scope)
        return [
            self.value(name, scope, f"output '{name}'")
            for name, _ in graph.outputs
        ]

    def initializer(self, name: str, tensor: torch.Tensor) -> Value:
        """A tensor of the file: floats are parameters, the rest constants."""
        if tensor.is_floating_point() and tensor.numel() > 1:
            code = self.keep(tensor, name)
            self.parameters.add(code.removeprefix("self."))
            return Value(code)
        if tensor.dim() > 0:
            self.keep(tensor, name)
        return constant(tensor)

    def value(self, name: str, scope: Scope, who: str) -> Value:
        """The value of a name."""
        if not name:
            return NONE
        if name not in scope:
            raise ValueError(f"{WHO}: {who} reads '{name}', which nothing made")
        return scope[name]

    def node(self, node: Node, scope: Scope) -> None:
        """Writes a node; its outputs are in `scope` then."""
        if node.op in self.control and node.domain == "":
            self.control[node.op](self, node, scope)
            return
        values = [self.value(name, scope, str(node)) for name in node.inputs]
        entry = find(node.domain, node.op, node.opset)
        if entry is None:
            self._body(node, values, scope)
            return
        if node.domain == "" and self._without_tensors(node, values, scope):
            return
        if self._fold(entry, node, values, scope):
            return
        call = self._call(entry, node, values)
        made = [self.fresh(name) if name else "_" for name in node.outputs] or [
            "_"
        ]
        self.line(f"{', '.join(made)} = {call}{_remark(node)}")
        for name, code in zip(node.outputs, made, strict=False):
            if name:
                scope[name] = Value(code)

    def assign(self, target: str, value: Value, is_host: bool = False) -> None:
        """Writes that a variable is a value, held by Python if `is_host`."""
        code = self.sizes(value) if is_host else self.tensor(value)
        if code != target:
            self.line(f"{target} = {code}")

    def assign_all(self, parts: Sequence[tuple[str, Value, bool]]) -> None:
        """Writes `assign` for each; the values are all read before."""
        if not parts:
            return
        codes = [
            self.sizes(value) if is_host else self.tensor(value)
            for _, value, is_host in parts
        ]
        targets = [target for target, _, _ in parts]
        if codes != targets:
            self.line(f"{', '.join(targets)} = {', '.join(codes)}")

    def block_of(self, parts: Sequence[tuple[str, Value, bool]]) -> None:
        """Writes `assign_all` a level deeper; nothing as `pass`."""
        lines, _ = self.block(lambda: self.assign_all(parts))
        self.lines += lines or ["    " * (self._indent + 1) + "pass"]

    def _without_tensors(
        self, node: Node, values: Sequence[Value], scope: Scope
    ) -> bool:
        """Writes a node on sizes, if it is one."""
        call: HostCall | None = None
        if node.op in ("Shape", "Size") and values[0].constant is None:
            x = Value(self.tensor(values[0]))
            extra = ", ".join(f"{k}={v!r}" for k, v in node.attributes.items())
            is_shape = node.op == "Shape"
            f: Callable[..., Any] = hosts.shape if is_shape else hosts.size
            call = HostCall(f, torch.int64, int(is_shape), [x], extra)
        elif any(value.is_host for value in values):
            call = host_call(node.op, values, node.attributes)
        if call is None:
            return False
        codes = [
            v.code if v.constant is None else self.sizes(v)
            for v in call.arguments
        ]
        if call.extra:
            codes.append(call.extra)
        made = self.fresh(node.outputs[0])
        code = f"{self.function(call.call)}({', '.join(codes)})"
        self.line(f"{made} = {code}{_remark(node)}")
        scope[node.outputs[0]] = Value(
            made, call.dtype, call.rank, is_host=True
        )
        return True

    def _fold(
        self,
        entry: Operator,
        node: Node,
        values: Sequence[Value],
        scope: Scope,
    ) -> bool:
        """Computes a node of constants beforehand, if it is one."""
        given = [value for value in values if value is not NONE]
        tensors = [value.constant for value in given]
        if entry.is_random or any(tensor is None for tensor in tensors):
            return False
        if given and node.op == "ConstantOfShape":
            count = 1
            for size in tensors[0].tolist():  # type: ignore[union-attr]
                count *= size
            if count > _MAX_FOLDED:
                return False
        if sum(t.numel() for t in tensors if t is not None) > _MAX_FOLDED:
            return False
        arguments: list[Any] = []
        for place, value in enumerate(values):
            as_numbers = place in entry.sizes
            arguments.append(
                hosts.to_python(value.constant)
                if as_numbers
                else value.constant
            )
        extra = self._attributes(entry, node)
        if entry.wants_dtype:
            extra["dtype_of_sizes"] = None
        try:
            with torch.no_grad():
                made = entry.call(*arguments, **extra)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise ValueError(f"{WHO}: {node}: {error}") from error
        results = made if isinstance(made, tuple) else (made,)
        if not all(isinstance(result, torch.Tensor) for result in results):
            return False
        if any(r.numel() > _MAX_FOLDED for r in results) and given:
            return False
        for name, result in zip(node.outputs, results, strict=False):
            scope[name] = constant(result)
        return True

    def _attributes(self, entry: Operator, node: Node) -> dict[str, Any]:
        extra = dict(node.attributes)
        if entry.wants_outputs:
            extra["outputs"] = len(node.outputs)
        return extra

    def _call(
        self, entry: Operator, node: Node, values: Sequence[Value]
    ) -> str:
        codes = []
        numbers = [
            place in entry.numbers and _is_number(value)
            for place, value in enumerate(values)
        ]
        if len(entry.numbers) > 1 and all(
            number
            for place, number in enumerate(numbers)
            if place in entry.numbers
        ):
            numbers = [False] * len(values)  # One has to tell the dtype.
        for place, value in enumerate(values):
            if value is NONE:
                codes.append("None")
            elif (
                place in entry.sizes
                or numbers[place]
                or entry.wants_dtype
                and value.may_be_host
            ):
                codes.append(self.sizes(value))
            else:
                codes.append(self.tensor(value))
        while codes and codes[-1] == "None":
            codes.pop()
        for name, value in self._attributes(entry, node).items():
            is_tensor = isinstance(value, torch.Tensor)
            code = self.keep(value) if is_tensor else repr(value)
            codes.append(f"{name}={code}")
        if entry.wants_dtype:
            dtypes = [value.dtype for value in values if value.may_be_host]
            codes.append(f"dtype_of_sizes={dtypes[0] if dtypes else None}")
        return f"{self.function(entry.call)}({', '.join(codes)})"

    def _body(self, node: Node, values: Sequence[Value], scope: Scope) -> None:
        """Writes the function that defines a node."""
        types = [self.types(name) for name in node.inputs]
        body = bodies.find_body(self.reader, node, types)
        if body is None:  # In what defines another operator.
            raise NotImplementedError(
                f"{WHO}: nothing here runs {node} of "
                f"{node.domain or 'ai.onnx'} {node.opset}"
            )
        inner: Scope = ChainMap({})
        for number, name in enumerate(body.inputs):
            inner[name] = values[number] if number < len(values) else NONE
        for part in body.nodes:
            self.node(part, inner)
        for name, made in zip(node.outputs, body.outputs, strict=False):
            if name:
                scope[name] = self.value(made, inner, str(node))


def _is_number(value: Value) -> bool:
    """True for what may stand beside tensors as a Python number."""
    if value.is_host:
        return value.rank == 0
    tensor = value.constant
    if tensor is None or tensor.dim() > 0:
        return False
    return tensor.dtype != torch.uint64


def _remark(node: Node) -> str:
    name = re.sub(r"[^\x20-\x7e]", "?", node.name)
    return f"  # {node.op} {name}".rstrip()

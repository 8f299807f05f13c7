"""Graphs of ONNX files, read into plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from mica.imported.errors import WHO
from mica.imported.tensors import read_tensor

# Two names of one domain.
_MAIN = ("", "ai.onnx")


@dataclass
class Node:
    """One operation.

    Attributes:
      op: The operator's name.
      domain: Where the operator is defined; "" is ONNX's own.
      opset: The version of the domain.
      name: What the file calls the node.
      inputs: Names of values, "" for what is left out.
      outputs: Names of values.
      attributes: Python's values, tensors, and Graphs.
      proto: The file's node.
    """

    op: str
    domain: str
    opset: int
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    proto: Any = field(repr=False)

    def __str__(self) -> str:
        return f"{self.op} '{self.name or ', '.join(self.outputs)}'"


@dataclass
class Graph:
    """Nodes in order, with what comes in and goes out.

    Attributes:
      name: What the file calls it.
      inputs: Names and types (ValueInfoProtos).
      outputs: Names of values and their types.
      initializers: Tensors by name.
      nodes: Each after those that make its inputs.
    """

    name: str
    inputs: list[tuple[str, Any]]
    outputs: list[tuple[str, Any]]
    initializers: dict[str, torch.Tensor]
    nodes: list[Node]


@dataclass
class Reader:
    """Reads the graphs of one model.

    Attributes:
      folder: Where data outside of the file lies; None without.
      opsets: Versions by domain.
      functions: The model's own functions by domain and name.
    """

    folder: str | None
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], Any]

    def read_graph(self, proto: Any) -> Graph:
        """Reads a GraphProto.

        Raises:
          ValueError: It is damaged; names the tensor or node.
        """
        tensors = {
            tensor.name: read_tensor(
                tensor, self.folder, f"initializer '{tensor.name}'"
            )
            for tensor in proto.initializer
        }
        for sparse in proto.sparse_initializer:
            tensors[sparse.values.name] = self._read_sparse(sparse)
        return Graph(
            proto.name,
            [(v.name, v.type) for v in proto.input if v.name not in tensors],
            [(v.name, v.type) for v in proto.output],
            tensors,
            self.read_nodes(proto.node, {}),
        )

    def read_nodes(
        self, protos: Iterable[Any], given: Mapping[str, Any]
    ) -> list[Node]:
        """Reads nodes.

        Args:
          protos: NodeProtos.
          given: The attributes of the function that they are the body of.
        """
        return [self._read_node(proto, given) for proto in protos]

    def _read_node(self, proto: Any, given: Mapping[str, Any]) -> Node:
        domain = "" if proto.domain in _MAIN else proto.domain
        attributes = {}
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name not in given:
                    continue  # The operator's default holds.
                value = given[attribute.ref_attr_name]
            else:
                value = self._read_attribute(attribute, proto, given)
            attributes[attribute.name] = value
        return Node(
            proto.op_type,
            domain,
            self.opsets.get(domain, 1),
            proto.name,
            list(proto.input),
            list(proto.output),
            attributes,
            proto,
        )

    def _read_attribute(
        self, attribute: Any, node: Any, given: Mapping[str, Any]
    ) -> Any:
        import onnx

        kinds = onnx.AttributeProto
        what = f"{node.op_type} '{node.name}', attribute '{attribute.name}'"
        if attribute.type == kinds.TENSOR:
            return read_tensor(attribute.t, self.folder, what)
        if attribute.type == kinds.GRAPH:
            return self._read_body(attribute.g, given)
        if attribute.type == kinds.SPARSE_TENSOR:
            return self._read_sparse(attribute.sparse_tensor)
        try:
            value = onnx.helper.get_attribute_value(attribute)
        except ValueError as error:
            raise ValueError(f"{WHO}: {what}: {error}") from None
        if attribute.type == kinds.TYPE_PROTO:
            return None
        if attribute.type == kinds.STRING:
            return value.decode("utf-8", "replace")
        if attribute.type == kinds.STRINGS:
            return tuple(text.decode("utf-8", "replace") for text in value)
        if attribute.type in (kinds.INTS, kinds.FLOATS):
            return tuple(value)
        return value

    def _read_body(self, proto: Any, given: Mapping[str, Any]) -> Graph:
        graph = self.read_graph(proto)
        if given:
            graph.nodes = self.read_nodes(proto.node, given)
        return graph

    def _read_sparse(self, proto: Any) -> torch.Tensor:
        what = f"initializer '{proto.values.name}'"
        values = read_tensor(proto.values, self.folder, what)
        places = read_tensor(proto.indices, self.folder, what)
        dense = torch.zeros(tuple(proto.dims), dtype=values.dtype)
        if places.dim() == 1:
            dense.view(-1)[places] = values
        else:
            dense[tuple(places.T)] = values
        return dense

"""Functions that define operators: the model's own, and the package onnx's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mica.imported.errors import WHO
from mica.imported.graph import Graph, Node, Reader
from mica.imported.registry import NEWEST_OPSET, find


@dataclass(frozen=True)
class Body:
    """The nodes that define an operator.

    Attributes:
      inputs: Names of values.
      outputs: Names of values.
      nodes: In order.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    nodes: Sequence[Node]


def find_body(
    reader: Reader, node: Node, types: Sequence[Any] | None
) -> Body | None:
    """Returns what defines a node.

    Args:
      reader: Of the model.
      node: The node.
      types: The types of its inputs, as TypeProtos or None where they aren't
        known; None if they aren't asked for.
    Returns:
      The body, or None if the operator has none.
    Raises:
      NotImplementedError: The body depends on types that aren't known.
    """
    own = reader.functions.get((node.domain, node.op))
    if own is not None:
        return _read(reader, own, node.attributes)
    import onnx

    try:
        schema: Any = onnx.defs.get_schema(node.op, node.opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    attributes = {
        name: onnx.helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    attributes |= node.attributes
    if schema.has_function:
        return _read(reader, schema.function_body, attributes)
    if not schema.has_context_dependent_function:
        return None
    if types is None:
        return Body((), (), ())
    if any(
        name and kind is None
        for name, kind in zip(node.inputs, types, strict=True)
    ):
        raise NotImplementedError(
            f"{WHO}: {node}: its definition depends on its inputs' types, "
            "which onnx's shape inference doesn't find"
        )
    text = schema.get_context_dependent_function(
        node.proto.SerializeToString(),
        [
            onnx.TypeProto().SerializeToString()
            if kind is None
            else kind.SerializeToString()
            for kind in types
        ],
    )
    function = onnx.FunctionProto.FromString(text)
    return _read(reader, function, attributes)


def _read(
    reader: Reader,
    function: Any,
    attributes: Mapping[str, Any],
) -> Body:
    own = {o.domain: o.version for o in function.opset_import}
    opsets = {**reader.opsets, **own}
    inner = Reader(reader.folder, opsets, reader.functions)
    given = {
        attribute.name: inner._read_attribute(attribute, function, {})
        for attribute in function.attribute_proto
    }
    given |= attributes
    nodes = inner.read_nodes(function.node, given)
    return Body(list(function.input), list(function.output), nodes)


def check_all(reader: Reader, graph: Graph, control: frozenset[str]) -> None:
    """Raises if any node can't run, naming all of them.

    Raises:
      NotImplementedError: An operator, a version of it, or an attribute isn't
        known; gives each with its number of nodes and a node's name.
    """
    counts: Counter[tuple[str, str, int, str]] = Counter()
    names: dict[tuple[str, str, int, str], str] = {}
    for node in _missing(reader, graph.nodes, control, ()):
        why = _reason(node)
        key = (node.op, node.domain or "ai.onnx", node.opset, why)
        counts[key] += 1
        names.setdefault(key, node.name or ", ".join(node.outputs))
    if counts:
        lines = [
            f"  {op} of {domain} {opset}, {count} "
            f"{'node' if count == 1 else 'nodes'} such as '{names[key]}'{why}"
            for key, count in sorted(counts.items())
            for op, domain, opset, why in [key]
        ]
        raise NotImplementedError(
            f"{WHO}: the graph has nodes that nothing here runs:\n"
            + "\n".join(lines)
        )


def _reason(node: Node) -> str:
    entry = find(node.domain, node.op, node.opset)
    if entry is None:
        return ""
    unknown = sorted(set(node.attributes) - entry.attributes)
    if not unknown:
        return f": opset {NEWEST_OPSET} is the newest that is known"
    return f", with attributes {', '.join(unknown)}"


def _missing(
    reader: Reader,
    nodes: Sequence[Node],
    control: frozenset[str],
    under_way: tuple[tuple[str, str], ...],
) -> Iterator[Node]:
    for node in nodes:
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _missing(reader, value.nodes, control, under_way)
        key = (node.domain, node.op)
        if node.domain == "" and node.opset > NEWEST_OPSET:
            yield node
            continue
        if node.domain == "" and node.op in control:
            continue
        entry = find(*key, node.opset)
        if entry is not None:
            if not set(node.attributes) <= entry.attributes:
                yield node
            continue
        body = None if key in under_way else find_body(reader, node, None)
        if body is None:
            yield node
            continue
        yield from _missing(reader, body.nodes, control, (*under_way, key))

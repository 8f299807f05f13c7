"""Calls of an exported program: arguments taken apart, results rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mica.saved.signature import Node


def flatten(
    signature: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[list[Any], list[Any]]:
    """Takes the arguments of a call apart.

    Args:
      signature: What `parse` gave.
      args: The arguments by position.
      kwargs: Those by name.
    Returns:
      The tensors, in the order of the Program's inputs, and the object at
      each node.
    Raises:
      TypeError: An argument is missing, extra or nested differently.
      ValueError: A constant is another one than was recorded.
    """
    objects: list[Any] = [None] * len(signature["arguments"])
    tensors: dict[int, Any] = {}
    for node, name, value in _bind(signature, args, kwargs):
        _match(signature["arguments"], node, value, name, objects, tensors)
    return [tensors[index] for index in range(len(tensors))], objects


def rebuild(
    signature: Mapping[str, Any],
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[Any],
    variables: Mapping[str, torch.Tensor],
    objects: Sequence[Any],
) -> Any:
    """Makes the result of a call.

    Args:
      signature: What `parse` gave.
      outputs: What the Program returned.
      inputs: The call's tensors, as `flatten` gave them.
      variables: The program's state, by name.
      objects: The call's objects by node, as `flatten` gave them.
    Returns:
      The result, nested as the recorded one.
    """
    made = _Rebuilt(signature["results"], outputs, inputs, variables, objects)
    return made.build(signature["result"])


class _Rebuilt:
    """The parts of a result, an inner one before what holds it."""

    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[Any],
        variables: Mapping[str, torch.Tensor],
        objects: Sequence[Any],
    ) -> None:
        self._nodes = nodes
        self._outputs = outputs
        self._inputs = inputs
        self._variables = variables
        self._objects = objects
        self._made: dict[int, Any] = {}

    def build(self, index: int) -> Any:
        node = self._nodes[index]
        if node["kind"] == "same":
            return self._made[node["index"]]
        value = self._leaf(node)
        if "children" in node:
            value = self._container(node)
        self._made[index] = value
        return value

    def _leaf(self, node: Node) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "tensor": lambda: self._tensor(node),
            "number": lambda: (int if "int" in node else float)(
                self._outputs[node["index"]].item()
            ),
            "variable": lambda: self._variables[node["name"]],
            "argument": lambda: self._objects[node["index"]],
            "constant": lambda: node["value"],
            "dtype": lambda: getattr(
                torch, node["value"].removeprefix("torch.")
            ),
            "device": lambda: torch.device(node["value"]),
        }
        maker = makers.get(node["kind"])
        return None if maker is None else maker()

    def _container(self, node: Node) -> Any:
        children = [self.build(child) for child in node["children"]]
        if node["kind"] == "tuple":
            return tuple(children)
        if node["kind"] == "list":
            return children
        if node["kind"] == "set":
            return set(children)
        return dict(zip(node["keys"], children, strict=True))

    def _tensor(self, node: Node) -> torch.Tensor:
        base: torch.Tensor
        if node["source"] == "output":
            base = self._outputs[node["index"]]
        elif node["source"] == "input":
            base = self._inputs[node["index"]]
        else:
            base = self._variables[node["name"]]
        if "window" not in node:  # It is all of that, of whatever sizes.
            return base
        sizes, strides, offset = node["window"]
        if (
            node["source"] == "output"
            and offset == 0
            and list(base.shape) == sizes
            and list(base.stride()) == strides
        ):
            return base
        return base.detach().as_strided(
            sizes, strides, base.storage_offset() + offset
        )


def _bind(
    signature: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> list[tuple[int, str, Any]]:
    positional = signature["positional"]
    keywords = signature["keywords"]
    if len(args) > len(positional):
        raise TypeError(
            f"wants {len(positional)} positional arguments, got {len(args)}"
        )
    bound = [
        (wanted["node"], wanted["name"], value)
        for wanted, value in zip(positional, args, strict=False)
    ]
    rest = dict(kwargs)
    for wanted in positional[len(args) :]:
        if wanted["name"] not in rest:
            raise TypeError(f"wants an argument '{wanted['name']}'")
        bound.append((wanted["node"], wanted["name"], rest.pop(wanted["name"])))
    for name, node in keywords.items():
        if name not in rest:
            raise TypeError(f"wants an argument '{name}'")
        bound.append((node, name, rest.pop(name)))
    if rest:
        raise TypeError(f"got an unknown argument '{next(iter(rest))}'")
    return bound


def _match(
    nodes: Sequence[Node],
    index: int,
    value: Any,
    path: str,
    objects: list[Any],
    tensors: dict[int, Any],
) -> None:
    """Notes an argument's parts, or raises if it isn't of the node's kind."""
    node = nodes[index]
    kind = node["kind"]
    objects[index] = value
    if kind == "tensor":
        if not isinstance(value, torch.Tensor):
            raise _wrong(path, "a tensor", value)
        tensors[node["index"]] = value
    elif kind == "same":
        if value is not objects[node["index"]]:
            raise ValueError(
                f"argument {path}: wants the same object as an earlier one"
            )
    elif kind == "number":
        if type(value) is not float:
            raise _wrong(path, "a float", value)
    elif kind == "constant":
        _match_constant(node, value, path)
    else:
        for key, child in _parts(node, value, path):
            _match(
                nodes, child, value[key], f"{path}[{key!r}]", objects, tensors
            )


def _match_constant(node: Node, value: Any, path: str) -> None:
    wanted = node["value"]
    is_nan = value != value and wanted != wanted
    if type(value).__name__ != node["type"] or not (value == wanted or is_nan):
        raise ValueError(
            f"argument {path}: the program was exported for {wanted!r}, got "
            f"{value!r}"
        )


def _parts(node: Node, value: Any, path: str) -> list[tuple[Any, int]]:
    """What to take out of a container, and the node that is for."""
    children = node["children"]
    if node["kind"] == "dict":
        if not isinstance(value, dict) or set(value) != set(node["keys"]):
            raise TypeError(
                f"argument {path}: wants a dict with keys {node['keys']}, got "
                f"{list(value) if isinstance(value, dict) else type(value)}"
            )
        return list(zip(node["keys"], children, strict=True))
    wanted = tuple if node["kind"] == "tuple" else list
    if not isinstance(value, wanted):
        raise _wrong(path, f"a {node['kind']} of {len(children)}", value)
    if len(value) != len(children):
        raise TypeError(
            f"argument {path}: wants a {node['kind']} of {len(children)}, got "
            f"one of {len(value)}"
        )
    return list(enumerate(children))


def _wrong(path: str, wanted: str, value: Any) -> TypeError:
    return TypeError(
        f"argument {path}: wants {wanted}, got {type(value).__name__}"
    )

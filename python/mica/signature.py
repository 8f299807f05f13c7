"""How the arguments and results of an exported program are nested.

A signature is a JSON object:

    arguments    nodes of all arguments, an outer one before its parts
    positional   the nodes of the arguments, in order, with their names
    keywords     the nodes of those given by keyword, by name
    numbers      inputs behind the tensors: name, value, and the argument's node
    results      nodes of the result
    result       the outermost one

A node is an object with `kind` and what belongs to it: `index` of a tensor,
`value` of a constant, `keys` of a dict, `children` of a container; `window` of
a result that isn't the whole of what the Program returns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mica.tensor_types import Window

FORMAT = "mica export 1"

Node = dict[str, Any]

_CONSTANTS = (type(None), bool, int, float, str)


def make(
    record: Mapping[str, Any],
    variables: Mapping[int, str],
    inputs: Sequence[str],
) -> str:
    """Writes down how a record's arguments and results are nested.

    Args:
      record: What `_mica_describe` gives.
      variables: The names of the program's state tensors, by `id`.
      inputs: The names of the Program's inputs.
    Returns:
      The signature's text.
    Raises:
      NotImplementedError: An argument or a part of the result has no form
        outside Python; names it.
    """
    paths = [node[6] for node in record["inputs"]]
    keywords = record["keywords"] or ()
    roots = record["roots"]
    num_positional = len(roots) - len(keywords)
    arguments = [_argument(*node) for node in record["inputs"]]
    results = [
        _result(node, record["windows"], record["number_outputs"], variables)
        for node in record["results"]
    ]
    # Numbers are the last inputs.
    first = len(inputs) - len(record["numbers"])
    numbers = [
        {"name": inputs[first + number], "path": path, "value": value}
        | ({"node": node} if node >= 0 else {})
        for number, (node, path, value) in enumerate(record["numbers"])
    ]
    return json.dumps(
        {
            "format": FORMAT,
            "positional": [
                {"name": paths[root], "node": root}
                for root in roots[:num_positional]
            ],
            "keywords": dict(
                zip(keywords, roots[num_positional:], strict=True)
            ),
            "arguments": arguments,
            "numbers": numbers,
            "results": results,
            "result": record["result_root"],
        },
        indent=1,
    )


def parse(text: str, path: str) -> dict[str, Any]:
    """Reads a signature.

    Args:
      text: What `make` gave.
      path: The file, for errors.
    Returns:
      The signature as an object.
    Raises:
      ValueError: It is none; names the file.
    """
    try:
        signature = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(signature, dict) or signature.get("format") != FORMAT:
        raise ValueError(f"{path}: wants a signature of format '{FORMAT}'")
    try:
        _check(signature)
    except (LookupError, TypeError, RuntimeError, AssertionError) as error:
        raise ValueError(f"{path}: a damaged signature ({error})") from None
    return signature


def with_numbers(text: str, numbers: Mapping[str, float]) -> str:
    """Puts in other values.

    Args:
      text: What `make` gave.
      numbers: Values by the names of the Program's inputs.
    Returns:
      The signature's text with them in `numbers`.
    """
    signature = json.loads(text)
    for item in signature["numbers"]:
        item["value"] = numbers.get(item["name"], item["value"])
    return json.dumps(signature, indent=1)


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
    nodes = signature["results"]
    made: dict[int, Any] = {}

    def tensor(node: Node) -> torch.Tensor:
        base: torch.Tensor
        if node["source"] == "output":
            base = outputs[node["index"]]
        elif node["source"] == "input":
            base = inputs[node["index"]]
        else:
            base = variables[node["name"]]
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

    def build(index: int) -> Any:
        node = nodes[index]
        kind = node["kind"]
        if kind == "same":
            return made[node["index"]]
        made[index] = value = _build(node, kind)
        return value

    def _build(node: Node, kind: str) -> Any:
        if kind == "tensor":
            return tensor(node)
        if kind == "number":
            return outputs[node["index"]].item()
        if kind == "variable":
            return variables[node["name"]]
        if kind == "argument":
            return objects[node["index"]]
        if kind == "constant":
            return node["value"]
        if kind == "dtype":
            return getattr(torch, node["value"].removeprefix("torch."))
        if kind == "device":
            return torch.device(node["value"])
        children = [build(child) for child in node["children"]]
        if kind == "tuple":
            return tuple(children)
        if kind == "list":
            return children
        if kind == "set":
            return set(children)
        return dict(zip(node["keys"], children, strict=True))

    return build(signature["result"])


def _argument(
    kind: str,
    what: Any,
    index: int,
    keys: list[Any],
    names: list[Any],
    children: list[int],
    path: str,
) -> Node:
    if kind in ("tensor", "same"):
        return {"kind": kind, "index": index}
    if kind == "number":
        return {"kind": kind}
    if kind == "constant":
        return {
            "kind": kind,
            "value": _constant(what, f"argument {path}"),
            "type": type(what).__name__,
        }
    if kind in ("tuple", "list"):
        return {"kind": kind, "children": children}
    if kind == "dict":
        keys = [_constant(key, f"a key of argument {path}") for key in keys]
        return {"kind": kind, "keys": keys, "children": children}
    title = what.__name__ if isinstance(what, type) else type(what).__name__
    raise NotImplementedError(
        f"mica.export: argument {path} is a {title}: wants tensors, numbers, "
        "texts and plain containers of them; what else the program needs "
        "belongs into its closure"
    )


def _result(
    described: tuple[Any, ...],
    windows: Sequence[Window],
    number_outputs: Sequence[int],
    variables: Mapping[int, str],
) -> Node:
    kind, what, index, keys, names, children = described
    if kind == "tensor":
        source, place, sizes, strides, offset, _, _ = windows[index]
        node: Node = {"kind": kind, "source": source, "index": place}
        if source == "variable":
            node["name"] = list(variables.values())[place]
        node["window"] = [sizes, strides, offset]
        return node
    if kind in ("same", "argument"):
        return {"kind": kind, "index": index}
    if kind == "number":
        return {"kind": kind, "index": number_outputs[index]}
    if kind == "object":
        if id(what) in variables:
            return {"kind": "variable", "name": variables[id(what)]}
        if isinstance(what, (torch.dtype, torch.device)):
            return {"kind": type(what).__name__, "value": str(what)}
        return {"kind": "constant", "value": _constant(what, "the result")}
    if kind in ("tuple", "list", "set"):
        return {"kind": kind, "children": children}
    # An instance of a class becomes a dict of its items or attributes; a model
    # output has both, and they are the same.
    keys = keys or names
    keys = [_constant(key, "a key of the result") for key in keys]
    return {"kind": "dict", "keys": keys, "children": children[: len(keys)]}


def _constant(value: Any, what: str) -> Any:
    if type(value) in _CONSTANTS:
        return value
    raise NotImplementedError(
        f"mica.export: {what} is a {type(value).__name__}, which has no form "
        "outside Python"
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
    node = nodes[index]
    kind = node["kind"]
    objects[index] = value
    if kind == "tensor":
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"argument {path}: wants a tensor, got {type(value).__name__}"
            )
        tensors[node["index"]] = value
        return
    if kind == "same":
        if value is not objects[node["index"]]:
            raise ValueError(
                f"argument {path}: wants the same object as an earlier one"
            )
        return
    if kind == "number":
        if type(value) is not float:
            raise TypeError(
                f"argument {path}: wants a float, got {type(value).__name__}"
            )
        return
    if kind == "constant":
        same = type(value).__name__ == node["type"] and (
            value == node["value"]
            or (value != value and node["value"] != node["value"])
        )
        if not same:
            raise ValueError(
                f"argument {path}: the program was exported for "
                f"{node['value']!r}, got {value!r}"
            )
        return
    if kind == "dict":
        if not isinstance(value, dict) or set(value) != set(node["keys"]):
            raise TypeError(
                f"argument {path}: wants a dict with keys {node['keys']}, got "
                f"{list(value) if isinstance(value, dict) else type(value)}"
            )
        for key, child in zip(node["keys"], node["children"], strict=True):
            _match(
                nodes, child, value[key], f"{path}[{key!r}]", objects, tensors
            )
        return
    wanted = tuple if kind == "tuple" else list
    if not isinstance(value, wanted) or len(value) != len(node["children"]):
        raise TypeError(
            f"argument {path}: wants a {kind} of {len(node['children'])}, got "
            + (
                f"one of {len(value)}"
                if isinstance(value, wanted)
                else type(value).__name__
            )
        )
    for number, child in enumerate(node["children"]):
        _match(
            nodes, child, value[number], f"{path}[{number}]", objects, tensors
        )


def _check(signature: Mapping[str, Any]) -> None:
    """Raises unless every number names a node and every node has its parts."""
    fields = {
        "tensor": ("index",),
        "same": ("index",),
        "number": (),
        "argument": ("index",),
        "constant": ("value",),
        "variable": ("name",),
        "dtype": ("value",),
        "device": ("value",),
        "tuple": ("children",),
        "list": ("children",),
        "set": ("children",),
        "dict": ("keys", "children"),
    }
    sizes = {}
    for part in ("arguments", "results"):
        nodes = signature[part]
        sizes[part] = len(nodes)
        for number, node in enumerate(nodes):
            for field in fields[node["kind"]]:
                assert field in node, f"a node lacks '{field}'"
            if node["kind"] == "dtype":
                name = node["value"].removeprefix("torch.")
                dtype = getattr(torch, name, None)
                assert isinstance(dtype, torch.dtype), "a dtype is unknown"
            if node["kind"] == "device":
                torch.device(node["value"])
            for child in node.get("children", ()):
                # Parts come after what holds them: no cycles.
                assert number < child < len(nodes), "a part is misplaced"
    for item in signature["numbers"]:
        assert "name" in item and "value" in item, "a number lacks a part"
        assert -1 < item.get("node", 0) < max(1, sizes["arguments"])
    roots = [item["node"] for item in signature["positional"]]
    roots += signature["keywords"].values()
    for root in roots:
        assert 0 <= root < sizes["arguments"], "an argument is misplaced"
    assert 0 <= signature["result"] < sizes["results"], "no result"

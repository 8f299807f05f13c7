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

from mica.programs.tensor_types import Window

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
        _result(
            node,
            record["windows"],
            record["number_outputs"],
            record["number_ints"],
            variables,
        )
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
    number_ints: Sequence[bool],
    variables: Mapping[int, str],
) -> Node:
    kind, what, index, keys, names, children = described
    if kind == "tensor":
        source, place, sizes, strides, offset, _, _ = windows[index]
        node: Node = {"kind": kind, "source": source, "index": place}
        if source == "variable":
            node["name"] = list(variables.values())[place]
        if sizes is not None:
            node["window"] = [sizes, strides, offset]
        return node
    if kind in ("same", "argument"):
        return {"kind": kind, "index": index}
    if kind == "number":
        is_int = number_ints[index]
        return {
            "kind": kind,
            "index": number_outputs[index],
            **({"int": True} if is_int else {}),
        }
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

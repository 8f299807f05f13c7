"""Branches and loops, written as Python's own."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mica.imported import hosts
from mica.imported.emit import Emitter, Scope
from mica.imported.errors import WHO
from mica.imported.graph import Graph, Node
from mica.imported.tensors import DTYPES
from mica.imported.values import NONE, Value, constant

_TRUE = torch.tensor(True)


def stacked(
    items: list[torch.Tensor],
    is_empty: bool,
    axis: int,
    dtype: torch.dtype,
    sizes: tuple[int, ...],
) -> torch.Tensor:
    """One tensor of what the rounds of a loop gave; of none, an empty one."""
    if is_empty:
        return torch.empty((0, *sizes), dtype=dtype)
    return torch.stack(items, axis)


def write_if(emitter: Emitter, node: Node, scope: Scope) -> None:
    """A branch; one whose condition is known is written without it."""
    condition = emitter.value(node.inputs[0], scope, str(node))
    ways = node.attributes["then_branch"], node.attributes["else_branch"]

    def writer(way: Graph) -> Callable[[], list[Value]]:
        return lambda: emitter.graph(way, ChainMap({}, scope))

    if condition.constant is not None:
        chosen = ways[0] if bool(condition.constant) else ways[1]
        for name, value in zip(node.outputs, writer(chosen)(), strict=False):
            scope[name] = value
        return
    blocks = [emitter.block(writer(way)) for way in ways]
    made = [emitter.fresh(name) for name in node.outputs]
    pairs = list(zip(*(values for _, values in blocks), strict=True))
    for name, code, (a, b) in zip(node.outputs, made, pairs, strict=False):
        scope[name] = _like(code, a) if _alike(a, b) else Value(code)
    for head, (lines, values) in zip(
        (f"if {_truth(emitter, condition)}:", "else:"), blocks, strict=True
    ):
        emitter.line(head)
        emitter.lines += lines
        emitter.block_of(
            [
                (code, value, scope[name].is_host)
                for name, code, value in zip(
                    node.outputs, made, values, strict=False
                )
            ]
        )


def _truth(emitter: Emitter, condition: Value) -> str:
    if condition.is_host:
        return condition.code
    return f"bool({emitter.tensor(condition)})"


def _alike(a: Value, b: Value) -> bool:
    """True if Python may hold both."""
    return a.is_host and b.is_host and a.dtype == b.dtype and a.rank == b.rank


def _like(code: str, value: Value) -> Value:
    """What a variable is that has been made of `value`."""
    return Value(code, value.dtype, value.rank, is_host=value.is_host)


def write_loop(emitter: Emitter, node: Node, scope: Scope) -> None:
    """A loop: by `for`, with a `break` where the body has a condition."""
    values = [emitter.value(name, scope, str(node)) for name in node.inputs]
    values += [NONE] * (2 - len(values))
    # What each round begins with: at first as few tensors as may be.
    for hosted in (True, False):
        for steady in (True, False):
            if _try_loop(emitter, node, scope, values, hosted, steady):
                return
    raise ValueError(f"{WHO}: {node}: its body has not the outputs it wants")


def _try_loop(
    emitter: Emitter,
    node: Node,
    scope: Scope,
    values: Sequence[Value],
    hosted: bool,
    steady: bool,
) -> bool:
    """Writes a loop under two assumptions; False if they don't hold.

    Args:
      emitter: Where it is written.
      node: The loop.
      scope: Of the values around it.
      values: The node's inputs.
      hosted: That numbers which Python holds stay such.
      steady: That the condition is never false.
    """
    trips, condition, *first = values
    condition = constant(_TRUE) if condition is NONE else condition
    if steady and not _is_true(condition):
        return False
    body: Graph = node.attributes["body"]
    states = [_state(emitter, value, hosted) for value in first]
    go = Value(emitter.fresh("goes_on"))
    count = emitter.fresh("i")
    begin = [
        Value(count, torch.int64, 0, is_host=True),
        constant(_TRUE) if steady else go,
        *states,
    ]
    inner = _begun(scope, body, begin)
    length = emitter.fresh("length")
    lines, made = emitter.block(lambda: emitter.graph(body, inner))
    now, ends = made[0], made[1 : 1 + len(states)]
    if steady and not _is_true(now) or not _stay(states, ends):
        return False
    rounds = made[1 + len(states) :]
    lists = [emitter.fresh("rounds") for _ in rounds]
    starts, steps = _sets(states, first), _sets(states, ends)
    if not steady:
        starts.append((go.code, condition, False))
        steps.append((go.code, now, False))
    emitter.assign_all(starts)
    for name in lists:
        emitter.line(f"{name} = []")
    emitter.line(f"{length} = {_rounds(emitter, trips)}")
    emitter.line(f"for {count} in range({length}):")
    if not steady:
        emitter.line(f"    if not {go.code}:")
        emitter.line("        break")
    emitter.lines += lines
    _append(emitter, lists, rounds)
    emitter.block_of(steps)
    # How long a list has grown isn't followed; how often a loop goes is.
    is_empty = f"{length} <= 0" if steady else "not {}"
    rows = _lists(emitter, lists, is_empty, body, 1 + len(states), ())
    scope.update(zip(node.outputs, [*states, *rows], strict=False))
    return True


def _begun(scope: Scope, body: Graph, values: Sequence[Value]) -> Scope:
    """The scope of a body, whose inputs are `values`."""
    names = [name for name, _ in body.inputs]
    return ChainMap(dict(zip(names, values, strict=False)), scope)


def _sets(
    states: Sequence[Value], values: Sequence[Value]
) -> list[tuple[str, Value, bool]]:
    """What makes the variables of states hold values."""
    pairs = zip(states, values, strict=True)
    return [(state.code, value, state.is_host) for state, value in pairs]


def _is_true(value: Value) -> bool:
    return value.constant is not None and bool(value.constant)


def _stay(states: Sequence[Value], ends: Sequence[Value]) -> bool:
    """True if Python can hold at a round's end what it held before."""
    return all(
        not old.is_host or (new.may_be_host and new.dtype == old.dtype)
        for old, new in zip(states, ends, strict=True)
    )


def _rounds(emitter: Emitter, trips: Value) -> str:
    if trips is NONE:
        return str(2**63 - 1)
    one = emitter.function(hosts.single)
    return f"{one}({emitter.sizes(trips)})"


def _state(emitter: Emitter, first: Value, hosted: bool) -> Value:
    """The variable of what a loop carries from round to round."""
    code = emitter.fresh("state")
    if hosted and (
        first.is_host or (first.may_be_host and first.dtype == torch.int64)
    ):
        return Value(code, first.dtype, first.rank, is_host=True)
    return Value(code)


def _append(
    emitter: Emitter, lists: Sequence[str], values: Sequence[Value]
) -> None:
    for name, value in zip(lists, values, strict=True):
        emitter.line(f"    {name}.append({emitter.tensor(value)})")


def _lists(
    emitter: Emitter,
    lists: Sequence[str],
    is_empty: str,
    body: Graph,
    first: int,
    axes: Sequence[int],
    reverse: Sequence[int] = (),
) -> list[Value]:
    """The tensors of what the rounds of a loop gave."""
    results = []
    for number, name in enumerate(lists):
        kind = body.outputs[first + number][1].tensor_type
        dtype = DTYPES.get(kind.elem_type, torch.float32)
        sizes = tuple(dim.dim_value for dim in kind.shape.dim)
        axis = axes[number] if axes else 0
        if reverse and reverse[number]:
            name = f"{name}[::-1]"
        made = emitter.fresh("stacked")
        call = emitter.function(stacked)
        rest = f"{is_empty.format(name)}, {axis}, {dtype}, {sizes}"
        emitter.line(f"{made} = {call}({name}, {rest})")
        results.append(Value(made))
    return results


def write_scan(emitter: Emitter, node: Node, scope: Scope) -> None:
    """A loop over the rows of tensors."""
    values = [emitter.value(name, scope, str(node)) for name in node.inputs]
    if node.opset >= 9:
        for name, value in zip(
            node.outputs, _scan(emitter, node, scope, values), strict=False
        ):
            scope[name] = value
        return
    lengths, *values = values
    if lengths is not NONE:
        raise NotImplementedError(
            f"{WHO}: {node}: a Scan of opset 8 with sequence_lens"
        )
    inputs = [emitter.tensor(value) for value in values]
    item = emitter.fresh("item")
    lists = [emitter.fresh("items") for _ in node.outputs]
    for name in lists:
        emitter.line(f"{name} = []")
    emitter.line(f"for {item} in range({inputs[0]}.shape[0]):")
    rows = [Value(f"{code}[{item}]") for code in inputs]
    lines, made = emitter.block(lambda: _scan(emitter, node, scope, rows))
    emitter.lines += lines
    _append(emitter, lists, made)
    for name, items in zip(node.outputs, lists, strict=True):
        code = emitter.fresh(name)
        emitter.line(f"{code} = torch.stack({items})")
        scope[name] = Value(code)


def _scan(
    emitter: Emitter, node: Node, scope: Scope, values: Sequence[Value]
) -> list[Value]:
    given = node.attributes
    body: Graph = given["body"]
    num_scanned = given["num_scan_inputs"]
    num_states = len(values) - num_scanned
    num_lists = len(body.outputs) - num_states
    axes = given.get("scan_input_axes", (0,) * num_scanned)
    back = given.get(
        "scan_input_directions", given.get("directions", (0,) * num_scanned)
    )
    states = [Value(emitter.fresh("state")) for _ in range(num_states)]
    for state, value in zip(states, values, strict=False):
        emitter.assign(state.code, Value(emitter.tensor(value)))
    rows = [emitter.tensor(value) for value in values[num_states:]]
    i, length = emitter.fresh("i"), emitter.fresh("length")
    lists = [emitter.fresh("rounds") for _ in range(num_lists)]
    for name in lists:
        emitter.line(f"{name} = []")
    emitter.line(f"{length} = {rows[0]}.shape[{axes[0]}]")
    emitter.line(f"for {i} in range({length}):")
    at = (f"{length} - 1 - {i}" if is_back else i for is_back in back)
    begin = [
        *states,
        *(
            Value(f"{row}.select({axis}, {place})")
            for row, axis, place in zip(rows, axes, at, strict=True)
        ),
    ]
    inner = _begun(scope, body, begin)
    lines, made = emitter.block(lambda: emitter.graph(body, inner))
    emitter.lines += lines
    _append(emitter, lists, made[num_states:])
    emitter.block_of(
        [(s.code, v, False) for s, v in zip(states, made, strict=False)]
    )
    out_axes = given.get("scan_output_axes", (0,) * num_lists)
    out_back = given.get("scan_output_directions", (0,) * num_lists)
    return [
        *states,
        *_lists(
            emitter,
            lists,
            f"{length} <= 0",
            body,
            num_states,
            out_axes,
            out_back,
        ),
    ]


def write_sequence_map(emitter: Emitter, node: Node, scope: Scope) -> None:
    """A body for each item of sequences."""
    values = [emitter.value(name, scope, str(node)) for name in node.inputs]
    body: Graph = node.attributes["body"]
    codes = [emitter.tensor(value) for value in values]
    i = emitter.fresh("i")
    lists = [emitter.fresh("items") for _ in node.outputs]
    for name in lists:
        emitter.line(f"{name} = []")
    emitter.line(f"for {i} in range(len({codes[0]})):")
    inner: Scope = ChainMap({}, scope)
    sequences = [0, *_sequences(node, emitter)]
    for number, ((name, _), code) in enumerate(
        zip(body.inputs, codes, strict=True)
    ):
        is_sequence = number in sequences
        inner[name] = Value(f"{code}[{i}]" if is_sequence else code)
    lines, made = emitter.block(lambda: emitter.graph(body, inner))
    emitter.lines += lines
    _append(emitter, lists, made)
    for name, items in zip(node.outputs, lists, strict=True):
        scope[name] = Value(items)


def _sequences(node: Node, emitter: Emitter) -> list[int]:
    """The inputs of a SequenceMap that are sequences."""
    kinds = [emitter.types(name) for name in node.inputs]
    return [
        number
        for number, kind in enumerate(kinds)
        if kind is not None and kind.WhichOneof("value") == "sequence_type"
    ]


CONTROL: dict[str, Callable[[Emitter, Node, Any], None]] = {
    "If": write_if,
    "Loop": write_loop,
    "Scan": write_scan,
    "SequenceMap": write_sequence_map,
}

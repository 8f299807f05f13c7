"""Turns what was spelled out in small operators into torch's one.

A pattern is looked for from its last node backwards; what lies between may be
used nowhere else. The last node then becomes the one operator, and nodes whose
results nobody reads go.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import torch

from mica.imported.graph import Graph, Node

# How near a constant of a file has to be to the number that it stands for.
_NEAR = 1e-5


class Finder:
    """Tells what makes a value, and who reads it."""

    def __init__(self, graph: Graph) -> None:
        self._tensors = dict(graph.initializers)
        self._makers: dict[str, Node] = {}
        self.reads = Counter(_reads(graph))
        for node in graph.nodes:
            for name in node.outputs:
                self._makers[name] = node
            value = node.attributes.get("value")
            if node.op == "Constant" and isinstance(value, torch.Tensor):
                self._tensors[node.outputs[0]] = value

    def maker(self, name: str, *ops: str, reads: int = 1) -> Node | None:
        """The node of ONNX that makes a value.

        Args:
          name: The value's.
          *ops: One of these operators.
          reads: How often the value is read, at most.
        """
        node = self._makers.get(name)
        if node is None or node.domain or node.op not in ops:
            return None
        return node if self.reads[name] <= reads else None

    def number(self, name: str) -> float | None:
        """The number that a value is known to be."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.numel() != 1 or tensor.dim() > 1:
            return None
        return float(tensor.reshape(()).item())

    def is_number(self, name: str, wanted: float) -> bool:
        """True if a value is known to be about a number."""
        number = self.number(name)
        return number is not None and abs(number - wanted) <= _NEAR * wanted

    def dims(self, name: str) -> int | None:
        """The rank of a tensor of the file."""
        tensor = self._tensors.get(name)
        return None if tensor is None else tensor.dim()


def simplify(graph: Graph) -> None:
    """Replaces nodes of a graph by fewer ones that give the same.

    Attention in matmul and softmax, of which NaNs are made zero or which has
    no mask; GELU by erf; layer normalisation over the last dim.
    """
    finder = Finder(graph)
    found = False
    for place, node in enumerate(graph.nodes):
        for pattern in (_attention, _gelu, _layer_norm):
            made = pattern(finder, node)
            if made is not None:
                graph.nodes[place] = made
                found = True
                break
    if found:
        _drop_unread(graph)


def _reads(graph: Graph) -> Iterator[str]:
    """The names that are read, those in bodies of nodes too."""
    for name, _ in graph.outputs:
        yield name
    for node in graph.nodes:
        yield from node.inputs
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _reads(value)


def _drop_unread(graph: Graph) -> None:
    read = {name for name, _ in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not read & set(node.outputs):
            continue
        kept.append(node)
        read |= set(node.inputs)
        for value in node.attributes.values():
            if isinstance(value, Graph):
                read |= set(_reads(value))
    graph.nodes = kept[::-1]


def _instead(
    node: Node,
    domain: str,
    op: str,
    inputs: Sequence[str],
    attributes: dict[str, object],
    opset: int = 1,
) -> Node:
    """A node that makes what `node` made."""
    name, outputs, proto = node.name, node.outputs, node.proto
    return Node(
        op, domain, opset, name, list(inputs), outputs, attributes, proto
    )


def _attention(finder: Finder, node: Node) -> Node | None:
    if node.op != "MatMul" or node.domain:
        return None
    shares, v = node.inputs
    is_safe = False
    chosen = finder.maker(shares, "Where")
    if chosen is not None:
        bad, zero, shares = chosen.inputs
        is_nan = finder.maker(bad, "IsNaN")
        is_safe = True
        if is_nan is None or is_nan.inputs[0] != shares:
            return None
        if finder.number(zero) != 0.0:
            return None
    softmax = finder.maker(shares, "Softmax", reads=2 if is_safe else 1)
    if softmax is None or softmax.opset < 13:
        return None
    if softmax.attributes.get("axis", -1) != -1:
        return None
    mask, scores = "", finder.maker(softmax.inputs[0], "MatMul")
    added = finder.maker(softmax.inputs[0], "Add")
    if added is not None and is_safe:
        for ours, other in (added.inputs, added.inputs[::-1]):
            if scores is None:
                scores, mask = finder.maker(ours, "MatMul"), other
    if scores is None:
        return None
    q, q_scale = _scaled(finder, scores.inputs[0])
    turned, k_scale = _scaled(finder, scores.inputs[1])
    k = _turned(finder, turned)
    if k is None:
        return None
    scale = q_scale * k_scale
    attributes: dict[str, object] = {
        "scale": scale,
        "is_safe": int(is_safe),
        "head_size": _usual_size(scale),
    }
    return _instead(
        node, "mica", "Attention", [q, k[0], v, mask, *k[1:]], attributes
    )


def _usual_size(scale: float) -> int:
    """The size of heads for which 1 / √size is a scale; 0 if there is none."""
    size = 1 / (scale * scale) if scale else 0.0
    return round(size) if abs(size - round(size)) <= _NEAR * size else 0


def _scaled(finder: Finder, name: str) -> tuple[str, float]:
    """What is multiplied by a number, and the number."""
    mul = finder.maker(name, "Mul")
    if mul is not None:
        for x, factor in (mul.inputs, mul.inputs[::-1]):
            number = finder.number(factor)
            if number is not None:
                return x, number
    return name, 1.0


def _turned(finder: Finder, name: str) -> list[str] | None:
    """What has its last two dims swapped, and the sizes between and after.

    Either at once, or with the dims before them merged and split again.
    """
    swap = finder.maker(name, "Transpose")
    if swap is not None:
        is_swap = swap.attributes.get("perm") == (0, 1, 3, 2)
        return [swap.inputs[0]] if is_swap else None
    after = finder.maker(name, "Reshape")
    swap = after and finder.maker(after.inputs[0], "Transpose")
    if after is None or not swap or swap.attributes.get("perm") != (0, 2, 1):
        return None
    before = finder.maker(swap.inputs[0], "Reshape")
    if before is None:
        return None
    return [before.inputs[0], before.inputs[1], after.inputs[1]]


def _factors(finder: Finder, name: str, reads: int) -> list[str]:
    """The factors of a product of products."""
    mul = finder.maker(name, "Mul", reads=reads)
    if mul is None:
        return [name]
    return [f for part in mul.inputs for f in _factors(finder, part, 1)]


def _gelu(finder: Finder, node: Node) -> Node | None:
    """0.5 x (1 + erf(x / √2))."""
    if node.op != "Mul" or node.domain:
        return None
    factors = [f for part in node.inputs for f in _factors(finder, part, 1)]
    if len(factors) != 3:
        return None
    halves = [f for f in factors if finder.is_number(f, 0.5)]
    sums = [f for f in factors if finder.maker(f, "Add") is not None]
    if len(halves) != 1 or not sums:
        return None
    for one in sums:
        rest = [f for f in factors if f not in (one, halves[0])]
        added = finder.maker(one, "Add")
        if len(rest) == 1 and added is not None:
            for erf, number in (added.inputs, added.inputs[::-1]):
                made = finder.maker(erf, "Erf")
                if made is None or not finder.is_number(number, 1.0):
                    continue
                if _is_over_root(finder, made.inputs[0], rest[0]):
                    attributes: dict[str, object] = {"approximate": "none"}
                    return _instead(node, "", "Gelu", rest, attributes, 20)
    return None


def _is_over_root(finder: Finder, name: str, x: str) -> bool:
    """True of x / √2."""
    made = finder.maker(name, "Div", "Mul")
    if made is None or x not in made.inputs:
        return False
    if made.op == "Div":
        return made.inputs[0] == x and finder.is_number(
            made.inputs[1], math.sqrt(2)
        )
    other = made.inputs[1 - made.inputs.index(x)]
    return finder.is_number(other, math.sqrt(0.5))


def _layer_norm(finder: Finder, node: Node) -> Node | None:
    """D / √(mean(d²) + ε) · weight + bias, where d = x - mean(x)."""
    if node.op != "Add" or node.domain:
        return None
    for scaled, bias in (node.inputs, node.inputs[::-1]):
        mul = finder.maker(scaled, "Mul")
        if mul is None or finder.dims(bias) != 1:
            continue
        for normal, weight in (mul.inputs, mul.inputs[::-1]):
            found = _normal(finder, normal)
            if found is not None and finder.dims(weight) == 1:
                x, epsilon = found
                attributes: dict[str, object] = {"axis": -1}
                attributes["epsilon"] = epsilon
                inputs = [x, weight, bias]
                return _instead(
                    node, "", "LayerNormalization", inputs, attributes, 17
                )
    return None


def _normal(finder: Finder, name: str) -> tuple[str, float] | None:
    """What is normalised, and the number beside its variance."""
    div = finder.maker(name, "Div")
    root = div and finder.maker(div.inputs[1], "Sqrt")
    added = root and finder.maker(root.inputs[0], "Add")
    if div is None or not added:
        return None
    deviation = div.inputs[0]
    epsilon = finder.number(added.inputs[1])
    mean = finder.maker(added.inputs[0], "ReduceMean")
    less = finder.maker(deviation, "Sub", reads=3)
    if epsilon is None or mean is None or less is None:
        return None
    square = finder.maker(mean.inputs[0], "Pow", "Mul")
    if square is None or square.inputs[0] != deviation:
        return None
    if square.op == "Pow" and finder.number(square.inputs[1]) != 2.0:
        return None
    if square.op == "Mul" and square.inputs[1] != deviation:
        return None
    own = finder.maker(less.inputs[1], "ReduceMean")
    if own is None or own.inputs[0] != less.inputs[0]:
        return None
    if not (_is_last(finder, own) and _is_last(finder, mean)):
        return None
    return less.inputs[0], epsilon


def _is_last(finder: Finder, mean: Node) -> bool:
    """True of a mean over the last dim, which stays as a dim of 1."""
    if not mean.attributes.get("keepdims", 1):
        return False
    if len(mean.inputs) > 1:
        return finder.number(mean.inputs[1]) == -1
    return mean.attributes.get("axes") == (-1,)

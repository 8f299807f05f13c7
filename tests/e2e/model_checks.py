"""Holds compiled models to float64 eager."""

import copy

import torch

import mica

# Of eager's own error; roundoff of a few numbers is luck.
_FLOOR = 2e-7


def tensors(tree):
    if isinstance(tree, torch.Tensor):
        return [tree]
    if hasattr(tree, "to_tuple"):
        tree = tree.to_tuple()
    if hasattr(tree, "layers"):  # transformers' caches
        return [t for layer in tree.layers for t in (layer.keys, layer.values)]
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        return [t for item in tree for t in tensors(item)]
    return []


def error(got, exact):
    """Root mean square error over all results, each by its own size.

    A result that isn't finite has none: no bar would be above it.
    """
    got, exact = tensors(got), tensors(exact)
    assert len(got) == len(exact) > 0
    worst = 0.0
    for a, b in zip(got, exact, strict=True):
        assert a.shape == b.shape
        assert torch.isfinite(b).all(), "float64 eager isn't finite"
        assert torch.isfinite(a).all(), "a result isn't finite"
        size = b.square().mean().sqrt().clamp(min=1e-30)
        off = (a.double() - b).square().mean().sqrt() / size
        worst = max(worst, off.item())
    return worst


def in_double(model, args, kwargs):
    args = [
        a.double()
        if isinstance(a, torch.Tensor) and a.is_floating_point()
        else a
        for a in args
    ]
    return copy.deepcopy(model).double()(*args, **kwargs)


def check(model, cases, frozen, **options):
    """Runs each case twice: watched, then served, held to eager's error."""
    compiled = mica.compile(model, frozen=frozen, **options)
    with torch.no_grad():
        for args, kwargs in cases:
            compiled(*args, **kwargs)
            served = compiled(*args, **kwargs)
            eager = model(*args, **kwargs)
            exact = in_double(model, args, kwargs)
            assert error(served, exact) <= max(2 * error(eager, exact), _FLOOR)
    explanation = mica.explain(compiled)
    assert explanation.is_one_graph, str(explanation)
    assert len(explanation.graphs) == len(cases)
    assert explanation.hits == len(cases)
    for graph in explanation.graphs:
        assert not graph.opaque
        text = graph.program_text
        assert str(mica.Program.parse(text, graph.variables)) == text
    return explanation

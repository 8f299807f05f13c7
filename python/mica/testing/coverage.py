"""Tells a harness that counts captured programs what Mica did with each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mica
from mica.explaining.parts import Graph


def capture(
    module: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    """Compiles a callable; nothing runs before its first call.

    Mica's own kernels run it, as by default. `capture_exact` runs ATen's.

    Args:
      module: The program.
      args: An example of its positional arguments; not used, since the first
        real call is the one that is captured.
      kwargs: The same for those given by name.
    Returns:
      The compiled callable, and a function that tells of its latest call:
      `graphs` that served it (a call that is watched is served by none),
      `breaks` between them, whether Python ran (`fallback`), `captures` so far,
      `ops` in the graphs; of those, how many are `opaque`, which ATen runs for
      want of a kernel, and `reference` steps by slow kernels, by name; why all
      runs by ATen (`inaccuracy`), if it does; and the `reason` why one graph
      didn't serve the call.
    """
    del args, kwargs
    return _told(mica.compile(module))


def capture_exact(
    module: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    """As `capture`, by ATen's kernels, so that results are eager's bit for bit.

    What a comparison with eager finds is capture's doing then: some networks
    multiply the last bit's difference between two correct kernels a
    thousandfold.
    """
    del args, kwargs
    return _told(mica.compile(module, exact=True))


def _told(
    compiled: Callable[..., Any],
) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    seen = {"hits": 0, "captures": 0, "eager": 0, "split": 0}

    def info() -> dict[str, Any]:
        now = mica.explain(compiled)
        is_hit = now.hits > seen["hits"]
        is_eager = now.eager_calls > seen["eager"]
        is_split = now.split_calls > seen["split"]
        seen.update(
            hits=now.hits,
            captures=now.captures,
            eager=now.eager_calls,
            split=now.split_calls,
        )
        reasons = [str(r) for r in now.refusals] + [
            f"missed: {r}" for r in now.misses
        ]
        if now.given_up:
            reasons.insert(0, now.given_up)
        graphs = now.graphs[:1] if not is_split else now.graphs
        for piece in now.pieces if is_split else []:
            graphs = graphs + piece.graphs[:1]
        whole = int(is_hit and not is_eager)
        opaque, reference = Counter[str](), Counter[str]()
        for graph in graphs:
            opaque.update(graph.opaque)
            reference.update(_by_reference_kernels(graph))
        return {
            "graphs": now.last_graphs if is_split else whole,
            "breaks": len(now.graph_breaks) if is_split else 0,
            "fallback": is_split or is_eager or not is_hit,
            "captures": max(now.captures, 1),
            "ops": sum(len(graph.ops) for graph in graphs),
            "opaque": dict(opaque),
            "reference": dict(reference),
            "inaccuracy": next((g.inaccuracy for g in graphs), "") or None,
            "reason": reasons[0] if reasons and not is_hit else None,
        }

    return compiled, info


def _by_reference_kernels(graph: Graph) -> list[str]:
    """The operators of steps that slow kernels run, those of bodies too."""
    return re.findall(
        r"^\s*\d+: (.+?) by reference\b", graph.plan_text, re.MULTILINE
    )

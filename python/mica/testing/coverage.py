"""Tells a harness that counts captured programs what Mica did with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mica


def capture(
    module: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    """Compiles a callable; nothing runs before its first call.

    Operators run ATen's kernels (`exact`), so that what a comparison with eager
    finds is capture's doing: some networks multiply the last bit's difference
    between two correct kernels a thousandfold. `capture_fast` runs Mica's own.

    Args:
      module: The program.
      args: An example of its positional arguments; not used, since the first
        real call is the one that is captured.
      kwargs: The same for those given by name.
    Returns:
      The compiled callable, and a function that tells of its latest call:
      `graphs` that served it, `breaks` between them, whether Python ran
      (`fallback`), `captures` so far, `ops` in the graphs, and the `reason` why
      one graph didn't serve it.
    """
    del args, kwargs
    return _told(mica.compile(module, exact=True))


def capture_fast(
    module: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    """As `capture`, by Mica's own kernels, as mica.compile does by default."""
    del args, kwargs
    return _told(mica.compile(module))


def _told(
    compiled: Callable[..., Any],
) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    seen = {"hits": 0, "captures": 0, "eager": 0, "split": 0}

    def info() -> dict[str, Any]:
        now = mica.explain(compiled)
        is_hit = now.hits > seen["hits"]
        is_watched = now.captures > seen["captures"] and bool(now.graphs)
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
        whole = int((is_hit or is_watched) and not is_eager)
        return {
            "graphs": now.last_graphs if is_split else whole,
            "breaks": len(now.graph_breaks) if is_split else 0,
            "fallback": is_split or is_eager or not (is_hit or is_watched),
            "captures": max(now.captures, 1),
            "ops": sum(len(graph.ops) for graph in graphs),
            "reason": reasons[0] if reasons and not is_hit else None,
        }

    return compiled, info

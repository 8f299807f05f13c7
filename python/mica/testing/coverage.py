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
      `graphs` that served it, whether Python ran (`fallback`), `captures` so
      far, `ops` in the graph, and the `reason` why it wasn't served.
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
    seen = {"hits": 0, "captures": 0, "eager": 0}

    def info() -> dict[str, Any]:
        now = mica.explain(compiled)
        is_hit = now.hits > seen["hits"]
        is_watched = now.captures > seen["captures"] and bool(now.graphs)
        is_eager = now.eager_calls > seen["eager"]
        seen.update(hits=now.hits, captures=now.captures, eager=now.eager_calls)
        reasons = [str(r) for r in now.refusals] + [
            f"missed: {r}" for r in now.misses
        ]
        if now.given_up:
            reasons.insert(0, now.given_up)
        return {
            "graphs": int((is_hit or is_watched) and not is_eager),
            "fallback": is_eager or not (is_hit or is_watched),
            "captures": max(now.captures, 1),
            "ops": len(now.graphs[0].ops) if now.graphs else 0,
            "reason": reasons[0] if reasons and not is_hit else None,
        }

    return compiled, info

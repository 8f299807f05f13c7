"""Tells what capture made of a program: `mica.explain`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mica import _mica
from mica.compile import compile as _compile
from mica.explaining.explanation import Explanation
from mica.explaining.parts import (
    Graph,
    GraphBreak,
    Piece,
    Reason,
    piece_of,
    served,
)

__all__ = ["Explanation", "Graph", "GraphBreak", "Piece", "Reason", "explain"]


def explain(fn: Callable[..., Any]) -> Any:
    """Tells what capture made, or makes, of a callable.

    `explain(compiled)` is an Explanation of the calls so far.
    `explain(fn)(*args)` calls `fn` once with `args` and explains that call;
    a `fn` that isn't compiled yet is compiled for it.

    Args:
      fn: A callable, compiled or not.
    Returns:
      An Explanation for a compiled callable, which can be called too; else
      a function of `fn`'s arguments that returns an Explanation.
    """
    if isinstance(fn, _mica.Compiled):
        return _CallableExplanation.of(fn)

    def call(*args: Any, **kwargs: Any) -> Explanation:
        compiled = _compile(fn)
        compiled(*args, **kwargs)
        return _explanation(compiled)

    return call


@dataclass(frozen=True)
class _CallableExplanation(Explanation):
    compiled: Any = field(repr=False, default=None)

    @classmethod
    def of(cls, compiled: Any) -> _CallableExplanation:
        return cls(**vars(_explanation(compiled)), compiled=compiled)

    def __call__(self, *args: Any, **kwargs: Any) -> Explanation:
        self.compiled(*args, **kwargs)
        return _explanation(self.compiled)


def _explanation(compiled: Any) -> Explanation:
    report = compiled._mica_report()
    return Explanation(
        **served(report),
        given_up=report["given_up"],
        captures=report["captures"],
        eager_calls=report["eager_calls"],
        misses_by_kind=report["miss_kinds"],
        fixed_sizes=report["fixed_sizes"],
        dropped=report["dropped"],
        drops=[Reason(*drop) for drop in report["drops"]],
        pieces=[piece_of(piece) for piece in report["pieces"]],
        graph_breaks=[GraphBreak(**one) for one in report["graph_breaks"]],
        split_calls=report["split_calls"],
        last_graphs=report["last_graphs"],
        exact=report["exact"],
        frozen=report["frozen"],
    )

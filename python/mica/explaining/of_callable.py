"""The Explanation of a compiled callable, of what its report tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mica.explaining.explanation import Explanation
from mica.explaining.parts import GraphBreak, Reason, piece_of, served


@dataclass(frozen=True)
class CallableExplanation(Explanation):
    """An Explanation that can be called: as the callable, and explains that."""

    compiled: Any = field(repr=False, default=None)

    @classmethod
    def of(cls, compiled: Any) -> CallableExplanation:
        """That of a compiled callable's calls so far."""
        return cls(**vars(explanation_of(compiled)), compiled=compiled)

    def __call__(self, *args: Any, **kwargs: Any) -> Explanation:
        """Calls it, and explains all calls so far."""
        self.compiled(*args, **kwargs)
        return explanation_of(self.compiled)


def explanation_of(compiled: Any) -> Explanation:
    """Reads the report of a compiled callable."""
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
        unsplit=[GraphBreak(**one) for one in report["unsplit"]],
        split_calls=report["split_calls"],
        last_graphs=report["last_graphs"],
        exact=report["exact"],
        frozen=report["frozen"],
        precision=report["precision"],
    )

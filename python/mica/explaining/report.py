"""What is known of a callable, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from mica.explaining.parts import Graph, GraphBreak, Piece, Reason


@dataclass(frozen=True)
class Report:
    """What capture made of a callable.

    Attributes:
      name: The callable's.
      graphs: Its records, most recently hit first.
      refusals: Why calls ran eagerly.
      misses: Which guards failed, by guard.
      misses_by_kind: How often one failed that is about an "input" (an
        argument), "state", "torch state", a "host read", a "draw" or a
        "data size".
      dropped: Records that had to go,
      drops: and why, for the bound or since an object of theirs is gone.
      fixed_sizes: Why the graph that was recorded last holds for its own sizes
        alone, though an earlier one differs from it in nothing else; or empty.
      given_up: Why nothing is recorded any more; empty while it is.
      hits: Calls that a record served.
      captures: Calls that were watched.
      eager_calls: Calls that ran eagerly without a record being made.
      pieces: The parts that are captured, if it isn't one graph.
      graph_breaks: What runs eagerly between those.
      unsplit: Functions with graph breaks that run eagerly as a whole: where
        they begin, and why.
      split_calls: Calls that ran in pieces.
      last_graphs: Runs of pieces as graphs in the latest call of that kind.
      exact: Whether it was compiled with `exact`,
      frozen: and with `frozen`,
      precision: and in which precision; empty for the program's own.
    """

    name: str
    graphs: list[Graph]
    refusals: list[Reason]
    misses: list[Reason]
    given_up: str
    hits: int
    captures: int
    eager_calls: int
    misses_by_kind: dict[str, int] = field(default_factory=dict)
    fixed_sizes: str = ""
    dropped: int = 0
    drops: list[Reason] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    graph_breaks: list[GraphBreak] = field(default_factory=list)
    unsplit: list[GraphBreak] = field(default_factory=list)
    split_calls: int = 0
    last_graphs: int = 0
    exact: bool = False
    frozen: bool = False
    precision: str = ""

    @property
    def is_one_graph(self) -> bool:
        """True if every call so far was captured whole or served."""
        return bool(self.graphs) and not self.refusals

    def all_graphs(self) -> list[Graph]:
        """Its own and those of its pieces."""
        return [*self.graphs, *(g for p in self.pieces for g in p.graphs)]

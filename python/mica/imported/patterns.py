"""Turns what was spelled out in small operators into torch's one."""

from __future__ import annotations

from mica.imported.graph import Graph


def simplify(graph: Graph) -> None:
    """Replaces nodes of a graph by fewer ones that give the same."""
    del graph

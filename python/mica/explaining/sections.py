"""The sections of an explanation, in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from mica import _mica
from mica.explaining import wording
from mica.explaining.parts import Graph, Piece, Reason
from mica.explaining.report import Report


def section_of(report: Report, section: str) -> str:
    """The lines of a section; empty if there is nothing of it."""
    return "\n".join(SECTIONS[section](report))


def _of_graphs(
    lines: Callable[[Graph], Iterable[str]],
) -> Callable[[Report], list[str]]:
    """A section with a part for each graph, those of pieces included."""

    def section(report: Report) -> list[str]:
        found = []
        for title, graph in _titled_graphs(report):
            part = [f"  {line}" for line in lines(graph)]
            found += [f"{title}:", *part] if part else []
        return found

    return section


def _graphs_section(report: Report) -> list[str]:
    return [
        f"{title}: {wording.many(len(graph.ops), 'op')}, "
        f"{sum(graph.opaque.values())} of them left to ATen, "
        f"{wording.many(len(graph.guards), 'guard')}, {graph.hits} hits"
        for title, graph in _titled_graphs(report)
    ]


def _ops_of(graph: Graph) -> list[str]:
    lines = [f"ops: {wording.counts(Counter(graph.ops))}"] if graph.ops else []
    if graph.opaque:
        lines.append(f"left to ATen: {wording.counts(Counter(graph.opaque))}")
    for name, ops, calls in graph.functions:
        lines.append(f"repeated: {name}, {wording.many(ops, 'op')}, {calls}x")
    if graph.kernels:
        lines.append(f"kernels: {wording.counts(Counter(graph.kernels))}")
    if graph.packed_bytes:
        lines.append(_weights_of(graph))
    if graph.backward_ops:
        lines.append(
            f"backward pass: {len(graph.backward_ops)} ops, "
            f"{graph.num_kept} values kept for it"
        )
    return lines


def _weights_of(graph: Graph) -> str:
    line = f"weights: {wording.bytes_of(graph.packed_bytes)} packed"
    if graph.offloaded_bytes:
        line += (
            f", {wording.bytes_of(graph.offloaded_bytes)} of their own memory "
            "in files"
        )
    if graph.foreign_bytes:
        line += (
            f", {wording.bytes_of(graph.foreign_bytes)} that torch didn't "
            "allocate"
        )
    if graph.not_offloaded:
        line += f", none in files: {graph.not_offloaded}"
    return line


def _precision_of(graph: Graph) -> list[str]:
    error = graph.precision_error
    if error is None:
        return []
    return [str(error), *(f"  {product}" for product in error.products)]


def _guards_of(graph: Graph) -> list[str]:
    lines = []
    for protects in dict.fromkeys(c.protects for c in graph.claims):
        lines.append(f"{protects}:")
        lines += [
            f"  {claim}" for claim in graph.claims if claim.protects == protects
        ]
    return ["guards, by what they protect:", *lines] if lines else []


def _numbers_of(graph: Graph) -> list[str]:
    numbers = ", ".join(graph.promotions)
    return [f"promoted scalars: {numbers}"] if numbers else []


def _fusion_of(graph: Graph) -> list[str]:
    """Which ops that could be one region aren't, and why."""
    return _mica.Program.parse(graph.program_text).fusion().splitlines()


def _effects_of(graph: Graph) -> list[str]:
    effects = [f"  {effect}" for effect in graph.effects]
    return ["effects:", *effects] if effects else []


def _pieces_section(report: Report) -> list[str]:
    if not report.pieces and not report.unsplit:
        return []
    return [
        f"{report.split_calls} calls in pieces, the latest with "
        f"{report.last_graphs} graphs",
        *(f"piece: {piece}" for piece in report.pieces),
        *(f"graph break at {one}" for one in breaks_of(report)),
        *(f"runs eagerly as a whole: {one}" for one in report.unsplit),
    ]


def breaks_of(report: Report) -> list[str]:
    """One for each line and reason: a line has several instructions."""
    return list(dict.fromkeys(str(one) for one in report.graph_breaks))


def _reasons_section(
    words: str,
    reasons: Callable[[Report | Piece], list[Reason]],
    end: Callable[[Report], list[str]],
) -> Callable[[Report], list[str]]:
    """A section of reasons, told as `words`: of all of it, then of pieces."""

    def make(report: Report) -> list[str]:
        lines = [f"{words}: {reason}" for reason in reasons(report)]
        for piece in report.pieces:
            lines += [
                f"{words}, {piece.name} from {piece.begins}: {reason}"
                for reason in reasons(piece)
            ]
        return lines + end(report)

    return make


def _given_up(report: Report) -> list[str]:
    if not report.given_up:
        return []
    return [f"not tried any more: {report.given_up}"]


def _dropped(report: Report) -> list[str]:
    return [f"dropped: {reason}" for reason in report.drops]


# What `details` takes, and how each is made.
SECTIONS: dict[str, Callable[[Report], list[str]]] = {
    "graphs": _graphs_section,
    "ops": _of_graphs(_ops_of),
    "precision": _of_graphs(_precision_of),
    "guards": _of_graphs(_guards_of),
    "numbers": _of_graphs(_numbers_of),
    "effects": _of_graphs(_effects_of),
    "pieces": _pieces_section,
    "refusals": _reasons_section(
        "ran eagerly", lambda one: one.refusals, _given_up
    ),
    "misses": _reasons_section("missed", lambda one: one.misses, _dropped),
    "calls": _of_graphs(lambda graph: graph.calls),
    "fusion": _of_graphs(_fusion_of),
    "plan": _of_graphs(lambda graph: graph.plan_text.splitlines()),
    "program": _of_graphs(lambda graph: graph.program_text.splitlines()),
}
PAGE = tuple(
    n for n in SECTIONS if n not in ("calls", "fusion", "plan", "program")
)


def _titled_graphs(report: Report) -> list[tuple[str, Graph]]:
    found = [(f"graph {i}", graph) for i, graph in enumerate(report.graphs)]
    for piece in report.pieces:
        for i, graph in enumerate(piece.graphs):
            title = f"graph {i} of {piece.name} from {piece.begins}"
            found.append((title, graph))
    return found

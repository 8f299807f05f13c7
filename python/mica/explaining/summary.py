"""An explanation in ten lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from mica.explaining import wording
from mica.explaining.parts import Graph, Reason
from mica.explaining.report import Report
from mica.explaining.sections import SECTIONS, breaks_of, section_of

# Graphs of as many sizes as are nothing to worry about.
_FEW_SIZES = 4

_OTHER_TENSOR = re.compile(
    r"(\S+): recorded \w+\[([\d,]*)\], got \w+\[([\d,]*)\]"
)

# The summary: at most ten lines below the headline.


def headline(report: Report) -> str:
    """The name, and whether it is one graph."""
    if report.pieces:
        graphs = sum(len(piece.graphs) for piece in report.pieces)
        pieces = wording.many(graphs, "graph")
        how = f"in pieces, {pieces} around what runs eagerly"
    elif report.given_up:
        how = "runs eagerly"
    elif len(report.graphs) > 1:
        how = f"{len(report.graphs)} graphs, one for each way a call goes"
    elif report.graphs:
        how = "one graph"
    elif report.captures or report.eager_calls:
        how = "no graph so far"
    else:
        how = "not called yet"
    return f"{report.name}: {how}"


def summary(report: Report) -> list[str]:
    """What follows the headline: ten lines at most."""
    found = {
        "calls": _calls_line(report),
        "graph": _graph_line(report),
        "time": _time_line(report),
        "precision": _precision_line(report),
        "ATen": _aten_line(report),
        "eager": _eager_line(report),
        "missed": _missed_line(report),
        "effects": _effects_line(report),
        "would help": _help_line(report),
        "more": _more_line(report),
    }
    return [
        f"  {name:<12}{wording.one_line(text)}"
        for name, text in found.items()
        if text
    ]


def _calls_line(report: Report) -> str:
    in_pieces = (
        f", {report.split_calls} in pieces" if report.split_calls else ""
    )
    return (
        f"{wording.many(report.hits, 'hit')}, {report.captures} watched"
        f"{in_pieces}, "
        f"{report.eager_calls} eager"
    )


def _graph_line(report: Report) -> str:
    graphs = report.all_graphs()
    if not graphs:
        return ""
    ops = sum(len(graph.ops) for graph in graphs)
    guards = sum(len(graph.guards) for graph in graphs)
    backward = sum(len(graph.backward_ops) for graph in graphs)
    repeated = sum(graph.num_repeated for graph in graphs)
    of_layers = f" ({repeated} in repeated layers)" if repeated else ""
    parts = [
        wording.many(ops, "op") + of_layers,
        wording.many(guards, "guard"),
    ]
    if backward:
        parts.append(f"backward pass: {backward} ops")
    largest = max(graph.arena_bytes for graph in graphs)
    parts.append(f"{wording.bytes_of(largest)} of memory a run besides results")
    sizes = [size for graph in graphs for size in graph.sizes]
    if sizes:
        met = wording.many(sum(graph.num_sizes for graph in graphs), "size")
        parts.append(f"for any {', '.join(sizes[:3])} ({met} so far)")
    forks = sum(graph.num_forks for graph in graphs)
    if forks:
        parts.append(f"for the ways from {wording.many(forks, 'fork')}")
    return ", ".join(parts)


def _time_line(report: Report) -> str:
    if report.pieces:
        used = [max(p.graphs, key=_by_hits) for p in report.pieces if p.graphs]
        hits = sum(graph.hit_seconds for graph in used)
        if not hits:
            return ""
        return (
            f"the fastest hits of its pieces took {wording.time_of(hits)} "
            "together; what runs between them isn't timed"
        )
    timed = [graph for graph in report.graphs if graph.hit_seconds > 0]
    if not timed:
        return ""
    graph = max(timed, key=_by_hits)
    of = " of the graph most used" if len(report.graphs) > 1 else ""
    hit = wording.time_of(graph.hit_seconds)
    watched = wording.time_of(graph.watched_seconds)
    return (
        f"the fastest hit{of} took {hit}; the watched run {watched}, its "
        "watching included"
    )


def _by_hits(graph: Graph) -> int:
    return graph.hits


def _aten_line(report: Report) -> str:
    left = _left_to_aten(report.all_graphs())
    if not left:
        return ""
    ops = sum(len(graph.ops) for graph in report.all_graphs())
    why = Counter[str]()
    for graph in report.all_graphs():
        for name, count in graph.opaque.items():
            why[wording.why_aten(name, report.exact, graph.inaccuracy)] += count
    reasons = "; ".join(reason for reason, _ in why.most_common(2))
    names = wording.counts(left, most=3)
    return f"{left.total()} of {ops} ops are ATen's: {names} ({reasons})"


def _precision_line(report: Report) -> str:
    if not report.precision:
        return ""
    errors = [g.precision_error for g in report.all_graphs()]
    measured = [error for error in errors if error is not None]
    if not measured:
        return f"{report.precision}, its error isn't measured"
    worst = max(measured, key=lambda error: error.relative)
    return f"{report.precision}: {worst}"


def _eager_line(report: Report) -> str:
    if report.graph_breaks:
        breaks = breaks_of(report)
        first, more = f"graph break at {breaks[0]}", len(breaks) - 1
        return f"{first}{_and_more(more, 'pieces') if more else ''}"
    if report.given_up:
        return report.given_up
    return _reasons(report.refusals, "refusals")


def _missed_line(report: Report) -> str:
    missed = _reasons(report.misses, "misses")
    if not missed or not report.fixed_sizes:
        return missed
    return f"{missed}; sizes are fixed: {report.fixed_sizes}"


def _effects_line(report: Report) -> str:
    effects = [e for graph in report.graphs[:1] for e in graph.effects]
    if not effects:
        return ""
    more = _and_more(len(effects) - 1, "effects") if len(effects) > 1 else ""
    return f"a hit {effects[0]}{more}"


def _help_line(report: Report) -> str:
    reasons = [*report.refusals, *report.misses]
    for piece in report.pieces:
        reasons += [*piece.refusals, *piece.misses]
    reasons.sort(key=lambda reason: -reason.count)
    mends = list(dict.fromkeys(r.mend for r in reasons if r.mend))
    mends += _marks(report)
    if not mends and _would_freezing_help(report):
        mends = ["frozen=True, if the weights keep their values"]
    return "; ".join(mends[:2])


def _marks(report: Report) -> list[str]:
    """Sizes of arguments that vary so much that they should be marked."""
    if len(report.graphs) <= _FEW_SIZES and not report.dropped:
        return []
    found = (_OTHER_TENSOR.match(reason.text) for reason in report.misses)
    marks = {}
    for path, before, after in (match.groups() for match in found if match):
        sizes = list(zip(before.split(","), after.split(","), strict=False))
        if before.count(",") == after.count(","):
            dims = [i for i, (one, two) in enumerate(sizes) if one != two]
            marks.update({f"mica.mark_dynamic({path}, {d})": 0 for d in dims})
    return list(marks)


def _would_freezing_help(report: Report) -> bool:
    """Packed weights serve products by weights, where nothing trains them."""
    if report.frozen or report.exact or len(report.graphs) != 1:
        return False
    graph = report.graphs[0]
    if graph.backward_ops or graph.program.updated_variables:
        return False
    products = ("linear", "convolution", "addmm")
    return any(
        op.split(".")[1].startswith(products) for op in graph.ops if "." in op
    )


def _more_line(report: Report) -> str:
    there = [name for name in SECTIONS if section_of(report, name)]
    return f".details(section) of {', '.join(there)}" if there else ""


def _left_to_aten(graphs: Sequence[Graph]) -> Counter[str]:
    left = Counter[str]()
    for graph in graphs:
        left.update(graph.opaque)
    return left


def _reasons(reasons: Sequence[Reason], section: str) -> str:
    if not reasons:
        return ""
    first = max(reasons, key=lambda reason: reason.count)
    more = len(reasons) - 1
    text = f"{first.text} ({first.count}x)"
    return text + (_and_more(more, section) if more else "")


def _and_more(count: int, section: str) -> str:
    return f'; and {count} more, .details("{section}")'

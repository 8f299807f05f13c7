"""Tells what capture made of a program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from mica import _mica, svg
from mica.compile import compile as _compile
from mica.program import Program
from mica.records import Claim, claim, guards_of


@dataclass(frozen=True)
class Reason:
    """Why something did not happen, and how often.

    Attributes:
      text: What stands in the way, with the user's line where one is known.
      mend: What the user can do about it; may be empty.
      count: Calls that it concerns.
    """

    text: str
    mend: str
    count: int

    def __str__(self) -> str:
        text = f"{self.text} ({self.count}x)"
        return f"{text}; {self.mend}" if self.mend else text


@dataclass(frozen=True)
class Graph:
    """One record: a Program and the guards under which it is valid.

    Attributes:
      calls: What the dispatcher saw, in order: ATen overloads.
      ops: The operators that run, after fusion.
      opaque: Those that run through ATen, with how often each occurs.
      backward_ops: The operators of the backward pass that the results have
        behind them, which runs when it is asked for.
      num_kept: Values of a run that it keeps for that pass.
      guards: Readable expressions, with the user's line.
      claims: The same as data, with what each protects.
      effects: What a hit draws and leaves in Python's state, with the user's
        line.
      hits: Calls that this record served.
      program_text: The Program, in the text form.
      plan_text: Its steps: kernel and locations of each.
      arena_bytes: Memory of one run besides results.
      live_set_bytes: The largest sum of bytes that one step needs: no arena
        can be smaller.
      variables: The tensors that the program reads as its state, by name.
    """

    calls: list[str]
    ops: list[str]
    opaque: dict[str, int]
    backward_ops: list[str]
    num_kept: int
    guards: list[str]
    claims: list[Claim] = field(repr=False)
    effects: list[str]
    hits: int
    program_text: str = field(repr=False)
    plan_text: str = field(repr=False)
    arena_bytes: int
    live_set_bytes: int
    variables: dict[str, torch.Tensor] = field(repr=False)

    @property
    def program(self) -> Program:
        """The Program with its variables' tensors, for an Executor."""
        return Program.parse(self.program_text, self.variables)

    @property
    def promotions(self) -> list[str]:
        """Numbers that were constants and are inputs since they varied."""
        texts = dict.fromkeys(c.text for c in self.claims)
        found = (re.fullmatch(r"(.*) is any (?:float|int)", t) for t in texts)
        return [match[1] for match in found if match]

    def svg(self) -> str:
        """The Program as a drawing: ops by depth, and what each uses."""
        return svg.draw_program(_mica.Program.parse(self.program_text).parts())

    def state_svg(self) -> str:
        """What is known of arguments and state, and what a hit changes."""
        return svg.draw_state(self.claims, [claim(e) for e in self.effects])


@dataclass(frozen=True)
class Cut:
    """Where a callable leaves its graph.

    Attributes:
      name: The function's.
      at: The user's line: file:line.
      reason: Why.
    """

    name: str
    at: str
    reason: str

    def __str__(self) -> str:
        return f"{self.at} in {self.name}: {self.reason}"


@dataclass(frozen=True)
class Piece:
    """Part of a callable, between cuts, that is captured by itself.

    Attributes:
      name: The function's.
      begins: The line where it goes on.
      ends: The lines where it may end, but for the function's own returns.
      graphs: Its records, most recently hit first.
      refusals: Why runs of it were eager.
      misses: Which guards failed, by guard.
      left_eager: Why it isn't watched any more; empty while it is.
      hits: Runs that a record served.
    """

    name: str
    begins: str
    ends: list[str]
    graphs: list[Graph]
    refusals: list[Reason]
    misses: list[Reason]
    left_eager: str
    hits: int

    def __str__(self) -> str:
        ends = ", ".join(sorted(set(self.ends))) or "its return"
        text = f"{self.name} from {self.begins} to {ends}: "
        if self.left_eager:
            return f"{text}runs eagerly: {self.left_eager}"
        ops = [str(len(graph.ops)) for graph in self.graphs]
        return (
            f"{text}{len(ops)} graphs of {', '.join(ops)} ops, {self.hits} hits"
        )


@dataclass(frozen=True)
class Explanation:
    """What capture made of a callable; `str()` gives a page of text.

    Attributes:
      name: The callable's.
      graphs: Its records, most recently hit first.
      refusals: Why calls ran eagerly.
      misses: Which guards failed, by guard.
      misses_by_kind: How often one failed that is about an "input" (an
        argument), "state", "torch state", a "host read", a "draw".
      dropped: Records that had to go since there were too many.
      given_up: Why nothing is recorded any more; empty while it is.
      hits: Calls that a record served.
      captures: Calls that were watched.
      eager_calls: Calls that ran eagerly without a record being made.
      pieces: The parts that are captured, if it isn't one graph.
      cuts: What runs eagerly between those.
      split_calls: Calls that ran in pieces.
      last_graphs: Runs of pieces as graphs in the latest call of that kind.
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
    dropped: int = 0
    pieces: list[Piece] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    split_calls: int = 0
    last_graphs: int = 0

    @property
    def is_one_graph(self) -> bool:
        """True if every call so far was captured whole or served."""
        return bool(self.graphs) and not self.refusals

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {len(self.graphs)} graphs, {self.hits} hits, "
            f"{self.captures} captures, {self.eager_calls} eager calls"
        ]
        for index, graph in enumerate(self.graphs):
            lines.append(
                f"graph {index}: {len(graph.ops)} ops, "
                f"{sum(graph.opaque.values())} of them left to ATen, "
                f"{len(graph.guards)} guards, {graph.hits} hits"
            )
            lines.append(f"  ops: {_counts(graph.ops)}")
            if graph.opaque:
                names = [n for n, k in graph.opaque.items() for _ in range(k)]
                lines.append(f"  left to ATen: {_counts(names)}")
            if graph.backward_ops:
                lines.append(
                    f"  backward pass: {len(graph.backward_ops)} ops, "
                    f"{graph.num_kept} values kept for it"
                )
            lines.append("  guards, by what they protect:")
            for protects in dict.fromkeys(c.protects for c in graph.claims):
                lines.append(f"    {protects}:")
                lines += [
                    f"      {claim}"
                    for claim in graph.claims
                    if claim.protects == protects
                ]
            if graph.promotions:
                lines.append(
                    f"  numbers that vary: {', '.join(graph.promotions)}"
                )
            if graph.effects:
                lines.append("  effects:")
                lines += [f"    {effect}" for effect in graph.effects]
        if self.pieces:
            lines.append(
                f"{self.split_calls} calls in pieces, the latest with "
                f"{self.last_graphs} graphs"
            )
        lines += [f"piece: {piece}" for piece in self.pieces]
        lines += [f"cut at {cut}" for cut in self.cuts]
        lines += [f"ran eagerly: {reason}" for reason in self.refusals]
        lines += [f"missed: {reason}" for reason in self.misses]
        if self.dropped:
            lines.append(f"dropped for the bound: {self.dropped} graphs")
        if self.given_up:
            lines.append(f"not tried any more: {self.given_up}")
        return "\n".join(lines)


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
        **_served(report),
        given_up=report["given_up"],
        captures=report["captures"],
        eager_calls=report["eager_calls"],
        misses_by_kind=report["miss_kinds"],
        dropped=report["dropped"],
        pieces=[_piece(piece) for piece in report["pieces"]],
        cuts=[Cut(**cut) for cut in report["cuts"]],
        split_calls=report["split_calls"],
        last_graphs=report["last_graphs"],
    )


def _piece(report: dict[str, Any]) -> Piece:
    return Piece(
        **_served(report),
        begins=report["begins"],
        ends=report["ends"],
        left_eager=report["left_eager"],
    )


def _served(report: dict[str, Any]) -> dict[str, Any]:
    """What is told of a callable as of a piece: what served it, or why not."""
    return {
        "name": report["name"],
        "graphs": _graphs(report),
        "refusals": [Reason(*reason) for reason in report["refusals"]],
        "misses": [Reason(*reason) for reason in report["misses"]],
        "hits": report["hits"],
    }


def _graphs(report: dict[str, Any]) -> list[Graph]:
    return [
        Graph(
            calls=record["calls"],
            ops=record["ops"],
            opaque=record["opaque"],
            backward_ops=record["backward_ops"],
            num_kept=record["num_kept"],
            guards=record["guards"],
            claims=guards_of(record),
            effects=record["effects"],
            hits=record["hits"],
            program_text=record["program"],
            plan_text=record["plan"],
            arena_bytes=record["arena_bytes"],
            live_set_bytes=record["live_set_bytes"],
            variables=record["variables"],
        )
        for record in report["records"]
    ]


def _counts(names: list[str]) -> str:
    return ", ".join(
        f"{name} {count}" for name, count in Counter(names).most_common()
    )

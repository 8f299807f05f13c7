"""What an explanation is made of."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from mica import _mica
from mica.explaining import svg, wording
from mica.programs.program import Program
from mica.programs.records import Claim, claim, guards_of


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
class ProductError:
    """How far a product in fewer bits is from the same in float32.

    Attributes:
      at: The user's line: file:line.
      scope: The module that ran it; or empty.
      shape: (n, k) of its weight.
      precision: In which it computes.
      relative: Length of the difference to that of the product in float32, of
        all its elements as a vector, for the same operands.
      cosine: Of the angle between both.
    """

    at: str
    scope: str
    shape: tuple[int, int]
    precision: str
    relative: float
    cosine: float

    def __str__(self) -> str:
        name = f"{self.scope} at {self.at}" if self.scope else self.at
        n, k = self.shape
        return (
            f"{name}: {self.precision}, [{n}, {k}], off by "
            f"{100 * self.relative:.2g} %, cosine {self.cosine:.6f}"
        )


@dataclass(frozen=True)
class PrecisionError:
    """What a graph's precision makes of it, as measured at its first hit.

    Attributes:
      relative: The largest of its floating results, as in `ProductError`, from
        ATen's kernels on the program as written.
      cosine: The smallest of them.
      products: Those that compute in fewer bits.
      failure: Why these weren't measured; or empty.
    """

    relative: float
    cosine: float
    products: list[ProductError]
    failure: str

    def __str__(self) -> str:
        kinds = Counter(product.precision for product in self.products)
        told = wording.counts(kinds) if kinds else "no product"
        text = (
            f"{told}; results are off by {100 * self.relative:.2g} %, cosine "
            f"{self.cosine:.6f}"
        )
        return f"{text}; {self.failure}" if self.failure else text


@dataclass(frozen=True)
class Graph:
    """One record: a Program and the guards under which it is valid.

    Attributes:
      calls: What the dispatcher saw, in order: ATen overloads.
      ops: The operators that run, after fusion.
      opaque: Those that run through ATen, with how often each occurs.
      functions: Repeated layers that were decided for once: the name of each,
        its ops after fusion, and how often it is called.
      kernels: How many steps of a run are whose: "cpu", "onednn", "libxsmm" and
        others of Mica's, "aten", and "reference" for the slow ones that stand
        in where there is nothing else.
      inaccuracy: Why all that computes runs through ATen, though it wasn't
        compiled with `exact`: what the check at the first hit found.
      precision_error: What fewer bits make of it; None if it has none, or
        wasn't measured.
      backward_ops: The operators of the backward pass that the results have
        behind them, which runs when it is asked for.
      num_kept: Values of a run that it keeps for that pass.
      guards: Readable expressions, with the user's line.
      claims: The same as data, with what each protects.
      effects: What a hit draws and leaves in Python's state, with the user's
        line.
      sizes: Those of arguments that may vary from call to call, from 2 on:
        "x.shape[0]". What follows is of the sizes that were asked for last.
      num_sizes: For how many sets of sizes there is a plan by now.
      num_ways: Of how many watched runs, which went different ways, it is
        made.
      num_forks: Values read from tensors at which it knows several ways.
      num_watched: Of how many watched runs, of several sizes, it was made.
      hits: Calls that this record served.
      hit_seconds: What the fastest of them took, of those that were measured:
        the first 16 and each 64th; 0 if there was none.
      watched_seconds: What the watched run took that it was made of, with its
        watching.
      program_text: The Program, in the text form.
      plan_text: Its steps: kernel and locations of each.
      arena_bytes: Memory of one run besides results.
      live_set_bytes: The largest sum of bytes that one step needs: no arena
        can be smaller.
      packed_bytes: Packed and folded copies that it keeps of frozen weights;
        0 until the first calls are over.
      offloaded_bytes: Of those weights' own memory, what lies in a file.
      foreign_bytes: And what torch didn't allocate, as where a file is mapped
        or processes share it: that is never moved.
      not_offloaded: Why they aren't, if they should be; or empty.
      variables: The tensors that the program reads as its state, by name.
    """

    calls: list[str]
    ops: list[str]
    opaque: dict[str, int]
    functions: list[tuple[str, int, int]]
    kernels: dict[str, int]
    inaccuracy: str
    precision_error: PrecisionError | None
    backward_ops: list[str]
    num_kept: int
    guards: list[str]
    claims: list[Claim] = field(repr=False)
    effects: list[str]
    sizes: list[str]
    num_sizes: int
    num_ways: int
    num_forks: int
    num_watched: int
    hits: int
    hit_seconds: float
    watched_seconds: float
    program_text: str = field(repr=False)
    plan_text: str = field(repr=False)
    arena_bytes: int
    live_set_bytes: int
    packed_bytes: int
    offloaded_bytes: int
    foreign_bytes: int
    not_offloaded: str
    variables: dict[str, torch.Tensor] = field(repr=False)

    @property
    def program(self) -> Program:
        """The Program with its variables' tensors, for an Executor."""
        return Program.parse(self.program_text, self.variables)

    @property
    def num_repeated(self) -> int:
        """How many of `ops` are part of repeated layers."""
        return sum(ops * calls for _, ops, calls in self.functions)

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
class GraphBreak:
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
    """Part of a callable, between graph breaks, that is captured by itself.

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
        graphs = wording.many(len(self.graphs), "graph")
        ops = ", ".join(str(len(graph.ops)) for graph in self.graphs)
        return f"{text}{graphs} of {ops} ops, {self.hits} hits"


def piece_of(report: dict[str, Any]) -> Piece:
    """A piece of what `_mica_report` gives."""
    return Piece(
        **served(report),
        begins=report["begins"],
        ends=report["ends"],
        left_eager=report["left_eager"],
    )


def served(report: dict[str, Any]) -> dict[str, Any]:
    """What is told of a callable as of a piece: what served it, or why not."""
    return {
        "name": report["name"],
        "graphs": _graphs(report),
        "refusals": [Reason(*reason) for reason in report["refusals"]],
        "misses": [Reason(*reason) for reason in report["misses"]],
        "hits": report["hits"],
    }


def _error(told: tuple[Any, ...] | None) -> PrecisionError | None:
    if told is None:
        return None
    relative, cosine, failure, products = told
    return PrecisionError(
        relative,
        cosine,
        [
            ProductError(at, scope, (n, k), *rest)
            for at, scope, n, k, *rest in products
        ],
        failure,
    )


def _graphs(report: dict[str, Any]) -> list[Graph]:
    return [
        Graph(
            calls=record["calls"],
            ops=record["ops"],
            opaque=record["opaque"],
            functions=record["functions"],
            kernels=record["kernels"],
            inaccuracy=record["inaccuracy"],
            precision_error=_error(record["precision_error"]),
            backward_ops=record["backward_ops"],
            num_kept=record["num_kept"],
            guards=record["guards"],
            sizes=record["sizes"],
            num_sizes=record["num_sizes"],
            num_ways=record["num_ways"],
            num_forks=record["num_forks"],
            num_watched=record["num_watched"],
            claims=guards_of(record),
            effects=record["effects"],
            hits=record["hits"],
            hit_seconds=record["hit_ns"] / 1e9,
            watched_seconds=record["watched_ns"] / 1e9,
            program_text=record["program"],
            plan_text=record["plan"],
            arena_bytes=record["arena_bytes"],
            live_set_bytes=record["live_set_bytes"],
            packed_bytes=record["packed_bytes"],
            offloaded_bytes=record["offloaded_bytes"],
            foreign_bytes=record["foreign_bytes"],
            not_offloaded=record["not_offloaded"],
            variables=record["variables"],
        )
        for record in report["records"]
    ]

#!/usr/bin/env python3
"""Does every operator of torch give what eager gives, whatever is done with it?

    .venv/bin/python tools/operator_sweep.py --kind sizes --json
    .venv/bin/python tools/operator_sweep.py --only "linalg.lu "

Of each entry of torch's OpInfos a few samples become programs: with tensors of
ever other sizes, with gradients and without; under torch.func's transforms,
double backward, checkpoints and forward-mode differentiation; in place, on
views, and into tensors that are given. Each program is called several times in
a compiled world and in two eager ones; where these two differ, or raise, it is
left out. Results, arguments and state are compared. The last line with --json
is one JSON object: `programs`, `calls`, `hits`, `one_graph` (programs),
`wrong`, and the `finds`, each of which repeats by --only.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree
from tqdm import tqdm

import mica
from op_cases import DTYPES, op_infos
from operator_programs import ERRORS, KINDS, Program, name_of, samples_of

# What numbers may differ by, of the largest of the tensor or absolutely.
NEAR = {torch.float32: 2e-3, torch.float64: 1e-6, torch.bfloat16: 4e-2}
Outcome = tuple[Any, ...]


def _difference_of(a: torch.Tensor, b: torch.Tensor) -> str | None:
    for what in ("dtype", "shape", "requires_grad", "layout"):
        if getattr(a, what) != getattr(b, what):
            return f"{what} {getattr(b, what)}, not {getattr(a, what)}"
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    elif a.numel() > 1 and a.stride() != b.stride():
        return f"strides {b.stride()}, not {a.stride()}"
    wide = torch.complex128 if a.is_complex() else torch.float64
    x, y = a.detach().to(wide), b.detach().to(wide)
    near = NEAR.get(a.dtype, 2e-3)
    finite = x[x.isfinite()].abs()
    largest = finite.max().item() if finite.numel() > 0 else 0.0
    if torch.allclose(x, y, near, near * max(1.0, largest), equal_nan=True):
        return None
    return f"{y.flatten()[:4].tolist()}, not {x.flatten()[:4].tolist()}"


def difference(want: Any, got: Any) -> str | None:
    """Returns how two outcomes differ; None if they don't."""
    ours, form = pytree.tree_flatten(want)
    theirs, other = pytree.tree_flatten(got)
    if form != other:
        return f"form {other}, not {form}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            told = _difference_of(a, b)
            if told is not None:
                return f"part {i}: {told}"
        elif type(a) is not type(b) or a != b:
            return f"part {i}: {b!r}, not {a!r}"
    return None


def _keep(leaf: Any) -> Any:
    """Returns what a later call can't change any more."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)


class World:
    """A program with a state of its own."""

    def __init__(self, program: Program, fn: Callable[..., Any]) -> None:
        self.program = program
        self.fn = fn
        self.state = {name: t.clone() for name, t in program.state.items()}

    def call(self, number: int) -> Outcome:
        """Returns the result, the inputs and the state behind it."""
        inputs = self.program.inputs(number)
        torch.manual_seed(number)
        try:
            result = self.fn(self.state, *inputs)
        except ERRORS as error:
            result = f"{type(error).__name__}: {error}"
        kept: Outcome = pytree.tree_map(_keep, (result, inputs, self.state))
        return kept


@dataclass
class Counts:
    """Of a sweep."""

    programs: int = 0
    calls: int = 0
    hits: int = 0
    one_graph: int = 0
    finds: list[dict[str, str]] = field(default_factory=list)


def run(program: Program, counts: Counts) -> None:
    """Calls one program in its worlds, and counts."""
    numbers = range(program.num_calls)
    try:
        twins = [World(program, program.fn) for _ in range(2)]
        wanted = [twins[0].call(i) for i in numbers]
        repeated = [twins[1].call(i) for i in numbers]
    except ERRORS:
        return
    pairs = zip(wanted, repeated, strict=True)
    raised = sum(isinstance(outcome[0], str) for outcome in wanted)
    if raised > 0 or any(difference(a, b) for a, b in pairs):
        return
    compiled: Any = mica.compile(program.fn)
    world = World(program, compiled)
    counts.programs += 1
    for i in numbers:
        told = difference(wanted[i], world.call(i))
        counts.calls += 1
        if told is not None:
            find = {"program": program.name, "what": f"call {i}: {told}"}
            counts.finds.append(find)
            tqdm.write(json.dumps(find))
            break
    explained = mica.explain(compiled)
    counts.hits += explained.hits
    counts.one_graph += len(explained.graphs) == 1 and explained.hits > 0


def programs(arguments: argparse.Namespace) -> Iterator[Program]:
    """Yields those that are asked for."""
    dtype = DTYPES[arguments.dtype]
    for info in op_infos()[:: arguments.every]:
        for sample in samples_of(info, dtype):
            for kind in arguments.kind:
                for program in KINDS[kind](info, sample):
                    program.name = f"{name_of(info)} {program.name}"
                    if arguments.only in program.name:
                        yield program


def main() -> int:
    """Runs the sweep; returns 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kind", nargs="*", choices=list(KINDS), default=list(KINDS)
    )
    parser.add_argument("--dtype", choices=list(DTYPES), default="f32")
    parser.add_argument("--only", default="", help="part of programs' names")
    parser.add_argument("--every", type=int, default=1, help="n-th entries")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = Counts()
    for program in tqdm(programs(arguments), unit=" programs"):
        run(program, counts)
        mica.reset()
    wrong = len(counts.finds)
    if arguments.json:
        print(json.dumps(vars(counts) | {"wrong": wrong}))
    else:
        print(
            f"{counts.programs} programs, {counts.hits} of {counts.calls} "
            f"calls served, {counts.one_graph} one graph, {wrong} wrong"
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Which operators and layers are slower with Mica than without?

Every entry of torch's OpInfos and ModuleInfos, in several dtypes and sizes,
dense and not, the call alone or a whole step with its gradients, eager against
`mica.compile`, one thread, one process. A row is worse if Mica takes more than
1.1 times eager's time and 5 us. With each worse row stands who runs its steps,
or why none of it is a graph.

    .venv/bin/python tools/bench_ops.py --only softmax
    .venv/bin/python tools/bench_ops.py --dtypes f32 bf16 --grad --json F

With --rows, calls of ordinary operators on rows of so many elements instead
(row_cases.py).

    .venv/bin/python tools/bench_ops.py --rows 3 80 500 --dtypes f32 i64
    .venv/bin/python tools/bench_ops.py --rows --values masked spread denormal
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch.utils import _pytree as pytree
from tqdm import tqdm

import mica
import op_cases
import row_cases
from bench_common import add_json_flag, interleave, write_json

ROUNDS = 3
REPEATS = 5  # At most, of a row that seems worse; the least of all counts.
LONGEST = 0.25  # Of eager's call, in seconds: longer ones are left out.
SECONDS = 0.004  # Of calls in a row, but one at least.
WORSE, GRACE = 1.1, 5e-6
Row = dict[str, Any]


def step_of(case: op_cases.Case) -> Callable[..., Any]:
    """Returns the case's call as a whole step: its gradients, too."""
    leaves = [t for t in op_cases.tensors_of(case) if t.requires_grad]
    if isinstance(case.fn, torch.nn.Module):
        leaves += list(case.fn.parameters())
    call = case.fn

    def results_of(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        return [
            result
            for result in pytree.tree_leaves(call(*args, **kwargs))
            if isinstance(result, torch.Tensor) and result.requires_grad
        ]

    # Not their sum, nor that of their squares: of normalised numbers these are
    # constants, and all gradients rounding.
    weights = [
        torch.rand_like(result.abs(), dtype=result.abs().dtype)
        for result in results_of(*case.args, **case.kwargs)
    ]

    def step(*args: Any, **kwargs: Any) -> Any:
        loss = torch.zeros(())
        for result, weight in zip(
            results_of(*args, **kwargs), weights, strict=True
        ):
            loss = loss + (result.abs() * weight).sum()
        return loss, torch.autograd.grad(loss, leaves, allow_unused=True)

    return step


def difference(got: Any, want: Any) -> float:
    """Returns the largest difference, by the largest of the wanted values."""
    most = 0.0
    for a, b in zip(
        pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True
    ):
        if not isinstance(b, torch.Tensor) or b.layout != torch.strided:
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        if b.numel() == 0:
            continue
        wide = torch.complex128 if b.is_complex() else torch.float64
        a, b = a.detach().to(wide), b.detach().to(wide)
        if not torch.equal(a.isnan(), b.isnan()):
            return math.inf
        same = (a == b) | a.isnan()
        apart = torch.where(same, 0, a - b).abs().max().item()
        scale = b.nan_to_num(posinf=0, neginf=0).abs().max().item()
        most = max(most, apart / max(scale, 1e-6))
    return most


def describe(explained: mica.Explanation) -> str:
    """Returns who runs the steps, or why none of it is a graph."""
    kernels: Counter[str] = Counter()
    for graph in explained.graphs:
        kernels.update(graph.kernels)
    if kernels:
        return ", ".join(f"{n} {name}" for name, n in kernels.most_common())
    breaks = [str(one) for one in explained.graph_breaks]
    return (breaks or [str(explained.given_up) or "no steps"])[0][:200]


def measure(case: op_cases.Case, grad: bool) -> Row | None:
    """Returns a case's figures; none if eager refuses it or takes too long."""

    def call(fn: Callable[..., Any]) -> Any:
        return fn(*case.args, **case.kwargs)

    row: Row = {
        "name": case.name,
        "dtype": case.dtype,
        "size": case.size,
        "layout": case.layout,
        "shapes": case.shapes()[:4],
    }
    try:
        torch.manual_seed(0)
        fn = step_of(case) if grad else case.fn
        want = call(fn)
        start = time.perf_counter()
        again = call(fn)
        if time.perf_counter() - start > LONGEST:
            return None
    except op_cases.REFUSALS:
        return None
    mica.reset()
    compiled = mica.compile(fn)
    try:
        for _ in range(3):
            got = call(compiled)
        # Of what draws numbers, or leaves memory as it is, nothing is known.
        if difference(again, want) == 0:
            row["difference"] = difference(got, want)
    except Exception as error:  # noqa: BLE001  A row, whatever it is.
        return row | {"error": f"{type(error).__name__}: {error}"[:200]}
    start = time.perf_counter()
    call(fn)
    count = max(1, int(SECONDS / max(time.perf_counter() - start, 1e-7)))
    eager = own = math.inf
    for _ in range(REPEATS):  # A machine's noise may look worse, once.
        rounds = interleave(
            {"eager": lambda: call(fn), "mica": lambda: call(compiled)},
            ROUNDS,
            min(count, 500),
        )
        eager = min(eager, *rounds["eager"])
        own = min(own, *rounds["mica"])
        if own <= WORSE * eager + GRACE:
            break
    explained = mica.explain(compiled)
    return row | {
        "ratio": round(own / eager, 3),
        "eager_us": round(eager * 1e6, 1),
        "mica_us": round(own * 1e6, 1),
        "is_worse": own > WORSE * eager + GRACE,
        "graphs": len(explained.graphs),
        "captures": explained.captures,
        "steps": describe(explained),
    }


def summary(rows: list[Row]) -> dict[str, Any]:
    """Returns counts over all rows that could be timed."""
    timed = [row for row in rows if "ratio" in row]
    logs = [math.log(row["ratio"]) for row in timed]
    return {
        "rows": len(rows),
        "errors": sum("error" in row for row in rows),
        "no graph": sum(row["graphs"] == 0 for row in timed),
        "on a reference kernel": sum("reference" in r["steps"] for r in timed),
        "differ by over 1 %": sum(r.get("difference", 0) > 0.01 for r in rows),
        "worse": sum(row["is_worse"] for row in timed),
        "worse and over 1.5x": sum(
            row["is_worse"] and row["ratio"] > 1.5 for row in timed
        ),
        "geometric mean": round(math.exp(sum(logs) / max(len(logs), 1)), 3),
    }


def text_of(row: Row) -> str:
    """Returns a row as a line."""
    what = f"{row['name']} {row['dtype']} {row['size']} {row['layout']}"
    if "error" in row:
        return f"{what}: {row['error']}"
    return (
        f"{what}: {row['ratio']:.2f}x of {row['eager_us']:.1f} us, "
        f"difference {row.get('difference', 0):.1e}, {row['steps']}"
    )


def chosen_cases(arguments: argparse.Namespace) -> Iterator[op_cases.Case]:
    """Yields what the command line asks for, with a progress bar."""
    grad, only = arguments.grad, arguments.only
    if arguments.rows is not None:
        lengths = arguments.rows or list(row_cases.LENGTHS)
        for dtype, values in product(arguments.dtypes, arguments.values):
            cases = list(row_cases.cases(lengths, dtype, grad, only, values))
            yield from tqdm(cases[:: arguments.every], unit="call", desc=dtype)
        return
    entries = list(op_cases.entries(only))[:: arguments.every]
    progress = tqdm(entries, unit="entry")
    for name, info, is_module in progress:
        progress.set_postfix_str(name)
        for dtype in arguments.dtypes:
            yield from op_cases.cases_of(
                info, is_module, dtype, arguments.sizes, grad
            )


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="entries with this in them")
    parser.add_argument(
        "--dtypes", nargs="+", choices=op_cases.DTYPES, default=["f32"]
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        choices=op_cases.SCALES,
        default=list(op_cases.SCALES),
    )
    parser.add_argument(
        "--rows",
        nargs="*",
        type=int,
        metavar="LENGTH",
        help=f"calls on rows of these lengths, {row_cases.LENGTHS} if none",
    )
    parser.add_argument(
        "--values",
        nargs="+",
        choices=row_cases.VALUES,
        default=["ordinary"],
        help="of the floats in those rows",
    )
    parser.add_argument("--grad", action="store_true", help="whole steps")
    parser.add_argument("--every", type=int, default=1, help="each n-th entry")
    add_json_flag(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for case in chosen_cases(arguments):
        with torch.set_grad_enabled(arguments.grad):
            row = measure(case, arguments.grad)
        if row is not None:
            rows.append(row)
    bad = [r for r in rows if "error" in r or r.get("difference", 0) > 0.01]
    worse = [r for r in rows if r.get("is_worse")]
    for row in bad + sorted(worse, key=lambda row: -row["ratio"]):
        print(text_of(row))
    figures = summary(rows)
    for key, value in figures.items():
        print(f"{key}: {value}")
    write_json(arguments.json, {"summary": figures, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())

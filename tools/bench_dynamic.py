#!/usr/bin/env python3
"""How fast are programs whose way goes by data and sizes?

The five of dynamic_programs.py, on one thread, without gradients: each takes a
stream of inputs of its own, first until no call of a hundred was captured, then
eager and Mica take turns through the same hundred. Results are compared.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from bench_common import (
    add_json_flag,
    interleave,
    ratios,
    spread,
    write_json,
)

import mica  # isort: skip
from dynamic_programs import Program, make_programs

BLOCK = 100
MOST_BLOCKS = 8


def agree(a: Any, b: Any) -> bool:
    """Whether two results are equal, tensors by tolerance."""
    if isinstance(a, torch.Tensor):
        return torch.allclose(a, b, rtol=1e-3, atol=1e-4)
    return bool(a == b)


def measure(program: Program, rounds: int) -> dict[str, Any]:
    """Returns a program's figures."""
    compiled: Any = mica.compile(program.module)
    wrong = calls = captures = 0
    for block in range(MOST_BLOCKS):
        for arguments in program.inputs(BLOCK, seed=block):
            want = program.module(*arguments)
            wrong += not agree(compiled(*arguments), want)
        calls += BLOCK
        before, captures = captures, mica.explain(compiled).captures
        if captures == before:
            break
    stream = list(program.inputs(BLOCK, seed=MOST_BLOCKS))

    def through(function: Callable[..., Any]) -> Callable[[], None]:
        def run() -> None:
            for arguments in stream:
                function(*arguments)

        return run

    through(compiled)()
    seconds = interleave(
        {"eager": through(program.module), "mica": through(compiled)},
        rounds,
        1,
    )
    report = mica.explain(compiled)
    faster = ratios(seconds["eager"], seconds["mica"])
    return {
        "name": program.name,
        "launch_bound": program.is_launch_bound,
        "wrong": wrong,
        "calls_before": calls,
        "captures": captures,
        "captures_later": report.captures - captures,
        "graphs": len(report.graphs),
        "ways": max((graph.num_ways for graph in report.graphs), default=0),
        "eager_ms": spread(seconds["eager"], 1e3 / BLOCK),
        "mica_ms": spread(seconds["mica"], 1e3 / BLOCK),
        "times_as_fast": spread(faster),
    }


def mean_of(rows: list[dict[str, Any]], launch_bound: bool) -> float:
    """Returns the geometric mean of the medians of those rows."""
    logs = [
        math.log(row["times_as_fast"]["median"])
        for row in rows
        if row["launch_bound"] == launch_bound
    ]
    return round(math.exp(sum(logs) / len(logs)), 2)


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json_flag(parser)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", mica.MicaWarning)
    torch.set_num_threads(1)
    rows = []
    with torch.no_grad():
        for program in make_programs():
            row = measure(program, arguments.rounds)
            rows.append(row)
            print(
                f"{row['name']:24} {row['times_as_fast']['median']:6.2f} times "
                f"as fast, {row['captures']} captures, {row['captures_later']} "
                f"later, {row['graphs']} graphs, {row['wrong']} wrong"
            )
    means = {
        "launch_bound": mean_of(rows, True),
        "convolutional": mean_of(rows, False),
    }
    print(f"geometric means: {means}")
    write_json(arguments.json, {"programs": rows, "means": means})
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

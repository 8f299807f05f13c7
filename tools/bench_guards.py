#!/usr/bin/env python3
"""What does it cost to find out that a record fits a call?

BERT-base, a model of 200 modules, and the eight models of zoo_paper, once on
inputs as published and once on small ones (where a run is short and guards
weigh most), on one thread. Guards: the mean of calls in a row that match and
don't run, so with what they read in the caches; and the median of single ones,
each after a run, with whatever that left in the caches. The share is of a
served run's time, by the second figure, which has in it what any call from
Python costs then: that of a function that does nothing is given beside it.
Short runs are measured for a second: the first dozen after another model are
slower all through, guards and call of nothing alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import mica
import zoo_paper
from bench_cold import make_bert
from bench_common import add_json_flag, write_json
from zoo import Size

WARM_CALLS = 200
ROUNDS = 9
MOST_ROUNDS = 400
SECONDS = 1.0  # Of runs, unless ROUNDS or MOST_ROUNDS say otherwise.
# Of inputs, and what names say of it.
SIZES: dict[Size, str] = {"full": "", "small": ", small input"}

Case = tuple[str, nn.Module, tuple[Any, ...], dict[str, Any]]


def make_cases() -> Iterator[Case]:
    """Yields name, module in eval mode, and arguments."""
    model, inputs = make_bert(12)
    yield "BERT-base", model, (), inputs
    torch.manual_seed(0)
    layers = [
        nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU())
        for _ in range(50)
    ]
    many = nn.Sequential(*layers).eval()
    assert len(list(many.modules())) == 201
    yield "200 modules", many, (torch.randn(4, 16),), {}
    for entry in zoo_paper.ENTRIES:
        for size, suffix in SIZES.items():
            args, kwargs = entry.make_data(size)
            name = entry.name + suffix
            yield name, entry.make("full").eval(), args, kwargs


def seconds_of(call: Callable[[], object], count: int = 1) -> float:
    """Returns the seconds of one call, the mean over `count` in a row."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def measure(case: Case) -> dict[str, Any]:
    """Returns a case's figures; times in microseconds."""
    name, model, args, kwargs = case
    compiled: Any = mica.compile(model, fullgraph=True)
    for _ in range(3):
        compiled(*args, **kwargs)
    assert compiled._mica_matches(*args, **kwargs)

    def match() -> object:
        return compiled._mica_matches(*args, **kwargs)

    def nothing(*_args: object, **_kwargs: object) -> object:
        return None

    def call_nothing() -> object:
        return nothing(*args, **kwargs)

    warm = [seconds_of(match, WARM_CALLS) for _ in range(ROUNDS)]
    runs, cold, idle = [], [], []
    one = seconds_of(lambda: compiled(*args, **kwargs))
    rounds = min(max(ROUNDS, int(SECONDS / (2 * one))), MOST_ROUNDS)
    for _ in range(rounds):
        runs.append(seconds_of(lambda: compiled(*args, **kwargs)))
        cold.append(seconds_of(match))
        runs.append(seconds_of(lambda: compiled(*args, **kwargs)))
        idle.append(seconds_of(call_nothing))
    run = statistics.median(runs)
    graphs = mica.explain(compiled).graphs
    assert len(graphs) == 1
    return {
        "name": name,
        "guards": len(graphs[0].guards),
        "warm_us": round(statistics.median(warm) * 1e6, 2),
        "after_run_us": round(statistics.median(cold) * 1e6, 2),
        "call_us": round(statistics.median(idle) * 1e6, 2),
        "run_us": round(run * 1e6, 1),
        "share": round(statistics.median(cold) / run, 4),
    }


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json_flag(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with torch.no_grad():
        for case in make_cases():
            row = measure(case)
            rows.append(row)
            print(
                f"{row['name']:22} {row['guards']:5} guards: "
                f"{row['warm_us']:7.2f} us in a row, "
                f"{row['after_run_us']:7.2f} us after a run (a call of nothing "
                f"{row['call_us']:5.2f}) of {row['run_us']:9.1f} us, "
                f"{row['share']:.2%}"
            )
    eight = {
        size: [entry.name + suffix for entry in zoo_paper.ENTRIES]
        for size, suffix in SIZES.items()
    }
    write_json(arguments.json, {"cases": rows, "eight": eight})
    return 0


if __name__ == "__main__":
    sys.exit(main())

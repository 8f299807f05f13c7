#!/usr/bin/env python3
"""How much faster are branching models on two cores than on one?

Inference with frozen weights, in interleaved rounds within one process: on one
thread; with two threads that take steps, and pieces of wide ones, from a queue
(the default); and step after step, each by a team of two OpenMP threads. All
must give the same bits. Wants two cores that nobody else uses.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

import mica
from bench_common import (
    add_json_flag,
    interleave,
    ratios,
    spread,
    write_json,
)
from vision_operators import define_vision_operators

BAR = 1.6
# By name: what MICA_NUM_THREADS and MICA_QUEUE are.
WAYS = {"one": ("1", "1"), "two": ("2", "1"), "teams": ("2", "0")}


def inception() -> tuple[torch.nn.Module, int]:
    """Returns Inception-v3 and its images' side."""
    models = importlib.import_module("torchvision.models")
    return models.inception_v3(weights=None, init_weights=False), 299


def nasnet() -> tuple[torch.nn.Module, int]:
    """Returns NASNet-A (6 @ 4032), from timm, and its images' side."""
    return importlib.import_module("timm").create_model("nasnetalarge"), 331


def nasnet_mobile() -> tuple[torch.nn.Module, int]:
    """Returns a NASNet of the mobile one's width, and its images' side."""
    models = importlib.import_module("timm.models.nasnet")
    return models.NASNetALarge(stem_size=32, num_features=1056), 224


MODELS: dict[str, Callable[[], tuple[Any, int]]] = {
    "Inception-v3": inception,
    "NASNet-A large": nasnet,
    "NASNet-A mobile": nasnet_mobile,
}


def compile_in(way: str, model: torch.nn.Module) -> Callable[..., Any]:
    """Compiles for so many threads, with or without a queue."""
    names = ("MICA_NUM_THREADS", "MICA_QUEUE")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(zip(names, WAYS[way], strict=True))
    try:
        return mica.compile(model, frozen=True)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def measure(
    name: str, batch: int, ways: list[str], rounds: int
) -> dict[str, Any]:
    """Returns a model's milliseconds and its speeds to one thread's."""
    torch.manual_seed(0)
    model, side = MODELS[name]()
    model.eval()
    x = torch.randn(batch, 3, side, side)
    calls: dict[str, Callable[[], Any]] = {}
    results = {}
    for way in ways:
        compiled = compile_in(way, model)
        compiled(x)
        for _ in range(2):
            results[way] = compiled(x)
        assert mica.explain(compiled).hits == 2
        calls[way] = lambda compiled=compiled: compiled(x)  # type: ignore[misc]
    seconds = interleave(calls, rounds, calls=1)
    figures: dict[str, Any] = {"model": name, "batch": batch}
    for way in ways:
        figures[way] = {
            "ms": spread(seconds[way], 1e3),
            "speedup": spread(ratios(seconds["one"], seconds[way])),
            "best_speedup": round(min(seconds["one"]) / min(seconds[way]), 4),
            "same_bits": torch.equal(results["one"], results[way]),
        }
    return figures


def show(figures: dict[str, Any]) -> str:
    """One line of a model's figures."""
    parts = [f"{figures['model']}, batch {figures['batch']}:"]
    for way in WAYS:
        if way not in figures:
            continue
        row = figures[way]
        parts.append(f"{way} {row['ms']['median']:.1f} ms")
        if way != "one":
            speedup = row["speedup"]
            parts[-1] += (
                f", {speedup['median']:.2f}x ({speedup['min']:.2f} to "
                f"{speedup['max']:.2f}; of the best rounds "
                f"{row['best_speedup']:.2f})"
            )
            if not row["same_bits"]:
                parts[-1] += ", OTHER BITS"
        parts[-1] += ";"
    return " ".join(parts)[:-1]


def main() -> int:
    """Runs the measurement; returns 1 if the bar isn't met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--models", nargs="*", default=list(MODELS), choices=list(MODELS)
    )
    parser.add_argument("--batches", nargs="*", type=int, default=[1])
    parser.add_argument(
        "--ways", nargs="*", default=list(WAYS), choices=list(WAYS)
    )
    parser.add_argument("--rounds", type=int, default=21)
    add_json_flag(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    define_vision_operators()
    rows = []
    ways = ["one", *(way for way in arguments.ways if way != "one")]
    with torch.no_grad():
        for name in arguments.models:
            for batch in arguments.batches:
                rows.append(measure(name, batch, ways, arguments.rounds))
                print(show(rows[-1]), flush=True)
    write_json(arguments.json, {"cases": rows, "bar": BAR})
    met = all(
        row["two"]["speedup"]["median"] >= BAR for row in rows if "two" in row
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

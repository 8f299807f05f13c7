#!/usr/bin/env python3
"""What does a call from Python cost where the work itself is tiny?

An MLP of ten 64x64 layers at batch 8, compiled without frozen weights, so that
every call checks its guards and reads the weights where they are. Compared
with eager in interleaved rounds on one thread.
"""

from __future__ import annotations

import argparse
import sys

import torch

import mica
from bench_common import add_json_flag, interleave, ratios, report, spread

LAYERS = 10
WIDTH = 64
BATCH = 8


def make_mlp() -> torch.nn.Module:
    """Returns the model, with weights from a fixed seed."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).eval()


def main() -> int:
    """Runs the comparison; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=500)
    add_json_flag(parser)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    model = make_mlp()
    x = torch.randn(BATCH, WIDTH)
    compiled = mica.compile(model)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        difference = float((compiled(x) - model(x)).abs().max())
        seconds = interleave(
            {"eager": lambda: model(x), "mica": lambda: compiled(x)},
            arguments.rounds,
            arguments.calls,
        )
    figures = {
        "eager_us": spread(seconds["eager"], 1e6),
        "mica_us": spread(seconds["mica"], 1e6),
        "eager_to_mica": spread(ratios(seconds["eager"], seconds["mica"])),
        "largest_difference": difference,
        "rounds": arguments.rounds,
    }
    report(arguments.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What does Executor.run cost from Python, with one feed and one fetch?

One relu on eight floats, so that the time is that of the way there and back.
"""

from __future__ import annotations

import argparse
import sys

import torch

import mica
from bench_common import add_json_flag, interleave, report, spread

PROGRAM = """program @relu(%x: f32[8]) {
  %y = aten.relu(%x) : f32[8]
  return %y
}
"""


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=5000)
    add_json_flag(parser)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    program = mica.Program.parse(PROGRAM)
    executor = mica.Executor()
    x = torch.randn(8)

    def run() -> torch.Tensor:
        return executor.run(program, feed={"x": x}, fetch_list=["y"])[0]

    if not torch.equal(run(), x.relu()):
        raise RuntimeError("Executor.run: another result than eager's")
    seconds = interleave({"mica": run}, arguments.rounds, arguments.calls)
    figures = {
        "mica_us": spread(seconds["mica"], 1e6),
        "rounds": arguments.rounds,
    }
    report(arguments.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

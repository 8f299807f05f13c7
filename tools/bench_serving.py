#!/usr/bin/env python3
"""What do threads that share an exported model cost each other?

BERT of 12 layers and hidden size 64, exported, run by `mica_run` with frozen
weights on as many cores as there are: by 1, 2, 4 and 8 callers that share one
Executor. Runs a second, half and 99 % of them within so many microseconds, and
the arenas; each the median of five rounds, in turns.

Bars: 8 callers have no loss over 2; 99 % within 5 times the median; no more
arenas than callers.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import mica
import zoo
from bench_common import add_json_flag, write_json

ROOT = Path(__file__).resolve().parents[1]
CALLERS = (1, 2, 4, 8)
ROUNDS = 5
RUNS = 4000  # Of all callers of a round.
_TIMES = re.compile(
    r"median (?P<median>[\d.]+) us .*within (?P<most>[\d.]+) us, "
    r"(?P<rate>[\d.]+) runs/s\nmemory: (?P<arenas>\d+) arenas of "
    r"(?P<bytes>\d+)"
)


def export(folder: Path) -> list[str]:
    """Writes the model and its inputs; returns mica_run's flags for them."""
    [entry] = [one for one in zoo.ENTRIES if one.name == "BERT 12x64"]
    torch.manual_seed(0)
    model = entry.make("full")
    args, kwargs = entry.inputs("full", 1, entry.lengths[0])
    with torch.no_grad():
        mica.export(model, args, folder / "model", kwargs=kwargs)
    names = [name for name, _ in mica.load(folder / "model").program.inputs]
    tensors = [*args, *kwargs.values()]
    flags = [f"--program={folder / 'model'}"]
    for name, tensor in zip(names, tensors, strict=True):
        np.save(folder / f"{name}.npy", tensor.numpy())
        flags += ["--feed", f"{name}={folder / f'{name}.npy'}"]
    return flags


def measure(flags: list[str], callers: int) -> dict[str, float]:
    """The figures of one round, by name."""
    done = subprocess.run(
        [
            str(ROOT / "build" / "bin" / "mica_run"),
            *flags,
            "--frozen",
            f"--callers={callers}",
            f"--repeat={RUNS // callers}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    match = _TIMES.search(done.stdout)
    assert match is not None, done.stdout
    return {name: float(number) for name, number in match.groupdict().items()}


def main() -> int:
    """Runs the measurement; returns 1 if a bar isn't met."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json_flag(parser)
    arguments = parser.parse_args()
    rounds: dict[int, list[dict[str, float]]] = {n: [] for n in CALLERS}
    with tempfile.TemporaryDirectory() as folder:
        flags = export(Path(folder))
        for _ in range(ROUNDS):
            for callers in CALLERS:
                rounds[callers].append(measure(flags, callers))
    rows = {}
    for callers, figures in rounds.items():
        row = {
            name: statistics.median(one[name] for one in figures)
            for name in figures[0]
        }
        rates = [one["rate"] for one in figures]
        rows[callers] = row
        print(
            f"{callers} callers: {row['rate']:.0f} runs/s "
            f"({min(rates):.0f} to {max(rates):.0f}), half within "
            f"{row['median']:.0f} us, 99 % within {row['most']:.0f} us, "
            f"{row['arenas']:.0f} arenas of {row['bytes'] / 2**20:.2f} MiB"
        )
    gain = statistics.median(
        eight["rate"] / two["rate"]
        for eight, two in zip(rounds[8], rounds[2], strict=True)
    )
    tail = rows[8]["most"] / rows[8]["median"]
    print(f"8 callers to 2: {gain:.2f}x the runs; 99 % within {tail:.1f}x")
    write_json(arguments.json, {"callers": rows, "gain": gain, "tail": tail})
    met = gain >= 0.99 and tail <= 5 and rows[8]["arenas"] <= 8
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

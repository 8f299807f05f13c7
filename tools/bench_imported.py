#!/usr/bin/env python3
"""Do imported models run as fast as the models that they were exported from?

    taskset -c 0 .venv/bin/python tools/bench_imported.py --json figures.json

ResNet-50, BERT-base and GPT-2 are exported by torch.onnx.export and by
torch.export, imported, compiled with frozen weights, and timed in turn with the
compiled original, in rounds. `times_original` is the original's time over the
imported one's: 1 is as fast, above 1 faster.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import mica
from bench_common import add_json_flag, interleave, ratios, report, spread
from zoo import ENTRIES, Entry

MODELS = ("ResNet-50", "BERT-base", "GPT-2")
TOKENS = 128
# What an imported model's results may differ by from the original's.
NEAR = 1e-3


class Plain(torch.nn.Module):
    """A model of one tensor in and one out."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first result."""
        result: Any = self.model(x)
        return result if isinstance(result, torch.Tensor) else result[0]


def imported(
    model: torch.nn.Module, x: torch.Tensor, folder: Path
) -> dict[str, torch.nn.Module]:
    """Exports a model in both ways and imports it again."""
    file, archive = folder / "model.onnx", folder / "model.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
        assert program is not None
        program.save(file, external_data=True)
        torch.export.save(torch.export.export(model, (x,)), archive)
    return {
        "onnx": mica.from_onnx(file),
        "exported": mica.from_exported(archive),
    }


def measure(entry: Entry, rounds: int, calls: int) -> dict[str, Any]:
    """Times one model in its ways."""
    model = Plain(entry.make()).eval()
    (made,), _ = entry.inputs("full", 1, TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        ways = imported(model, made.clone(), Path(folder))
    x = made.clone()
    systems: dict[str, Callable[[], object]] = {}
    figures: dict[str, Any] = {}
    with torch.no_grad():
        wanted = model(x)
        for name, module in {"original": model, **ways}.items():
            compiled: Any = mica.compile(module, frozen=True, fullgraph=True)
            start = time.perf_counter()
            compiled(x)
            first_s = time.perf_counter() - start
            compiled(x)
            difference = (compiled(x) - wanted).abs().max().item()
            if not difference <= NEAR * wanted.abs().max().item():
                raise RuntimeError(f"{entry.name}, {name}: {difference}")
            told = mica.explain(compiled)
            figures[name] = {
                "graphs": len(told.graphs),
                "hits": told.hits,
                "first_call_s": round(first_s, 3),
                "largest_difference": difference,
            }
            systems[name] = partial(compiled, x)
        seconds = interleave(systems, rounds, calls)
    for name, values in seconds.items():
        figures[name]["ms"] = spread(values, 1000)
        if name != "original":
            quotients = ratios(seconds["original"], values)
            figures[name]["times_original"] = spread(quotients)
    return figures


def main() -> int:
    """Runs the measurement; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--model", choices=MODELS, nargs="*", default=MODELS)
    add_json_flag(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    entries = {entry.name: entry for entry in ENTRIES}
    figures = {}
    for name in arguments.model:
        figures[name] = measure(
            entries[name], arguments.rounds, arguments.calls
        )
    report(arguments.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

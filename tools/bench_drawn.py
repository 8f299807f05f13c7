#!/usr/bin/env python3
"""Are models that nobody chose faster under Mica than under every rival?

Draws models by a seed (zoo_drawn.py) and measures each as bench_models.py does,
one core, frozen weights, float32. A model's ratio is Mica's time by that of the
fastest other system that runs it: below 1 is faster. The last lines give how
many were faster, the worst, and the geometric mean.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import torch

import bench_models
import rivals
import zoo_drawn
from bench_common import add_json_flag, place
from zoo import Entry

Figures = dict[str, Any]

# The bar: a share faster than every rival, none slower than so many times the
# fastest, and the geometric mean.
FASTER, WORST, MEAN = 0.95, 1.05, 0.85


def entries(arguments: argparse.Namespace) -> Iterator[Entry]:
    """Yields the models to measure, more than that if drawn."""
    if arguments.models:
        yield from (zoo_drawn.named(name) for name in arguments.models)
    else:
        yield from zoo_drawn.draw(arguments.seed)


def row_of(entry: Entry, arguments: argparse.Namespace) -> Figures:
    """Measures one model; returns its row, with "ratio" if Mica ran it."""
    case = bench_models.inference_case(
        entry, arguments.batch, entry.lengths[0], torch.float32
    )

    def timed() -> Figures:
        with torch.no_grad():
            return bench_models.measure(
                case, arguments.systems, arguments.rounds
            )

    found = bench_models.in_child(timed, arguments.limit)
    row: Figures = {"model": entry.name, "systems": found}
    if "reason" in found:
        row["reason"] = found["reason"]
        return row
    times = {
        name: figures["ms"]["median"]
        for name, figures in found.items()
        if "ms" in figures
    }
    row["times"] = times
    others = {name: ms for name, ms in times.items() if name != "mica"}
    if "mica" in times and others:
        row["best"] = min(others, key=lambda name: others[name])
        row["ratio"] = times["mica"] / others[row["best"]]
    return row


def show(row: Figures) -> str:
    """One line of a row."""
    if "reason" in row:
        return f"{row['model']:48} {row['reason']}"
    mica = row["systems"].get("mica", {})
    parts = [f"{row['model']:48}"]
    if "ratio" in row:
        parts.append(f"{row['ratio']:5.2f} of {row['best']:12}")
    parts += [f"{name} {ms:.2f}" for name, ms in row["times"].items()]
    if "difference" in mica:
        parts.append(f"difference {mica['difference']:.0e}")
    if mica.get("graphs", 1) != 1:
        parts.append(f"{mica['graphs']} graphs")
    if mica.get("opaque"):
        parts.append("ATen: " + ", ".join(mica["opaque"]))
    parts += [
        f"[{name}: {figures['reason']}]"
        for name, figures in row["systems"].items()
        if "reason" in figures
    ]
    return "  ".join(parts)


def summary(rows: list[Figures]) -> Figures:
    """What the bar asks of all rows."""
    found = [row["ratio"] for row in rows if "ratio" in row]
    if not found:
        return {"models": len(rows), "measured": 0, "met": False}
    faster = sum(ratio < 1 for ratio in found)
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in found))
    return {
        "models": len(rows),
        "measured": len(found),
        "faster": faster,
        "worst": round(max(found), 3),
        "mean": round(mean, 3),
        "met": len(found) == len(rows)
        and faster >= FASTER * len(rows)
        and max(found) <= WORST
        and mean <= MEAN,
    }


def parse_arguments() -> argparse.Namespace:
    """Returns the flags."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument(
        "--models", nargs="*", help='names instead, as "timm resnet18"'
    )
    parser.add_argument(
        "--systems",
        nargs="*",
        default=["mica", "inductor", "openvino", "onnxruntime"],
        choices=[name for name in rivals.INFERENCE if name != "eager"],
    )
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument(
        "--limit", type=float, default=600, help="seconds for one model"
    )
    add_json_flag(parser)
    return parser.parse_args()


def main() -> int:
    """Runs the measurement; returns 1 if the bar isn't met."""
    arguments = parse_arguments()
    torch.set_num_threads(bench_models.threads())
    rows: list[Figures] = []
    for entry in entries(arguments):
        row = row_of(entry, arguments)
        if row.get("reason", "").startswith("TooLargeError"):
            continue
        rows.append(row)
        print(show(row), flush=True)
        if arguments.json:
            arguments.json.write_text(
                json.dumps(place() | summary(rows) | {"rows": rows}, indent=1)
            )
        if not arguments.models and len(rows) >= arguments.count:
            break
    found = summary(rows)
    print("  ".join(f"{name} {value}" for name, value in found.items()))
    return 0 if found["met"] else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""mica_train on the exported digits step: speed, accuracy, kills.

Rounds of the whole run by eager PyTorch, by Mica in Python and by mica_train,
in turn, on one thread each. Then the run once more by mica_train, killed -9 at
random times, whose weights are compared with those of a run that wasn't.

Exits with 1 if an accuracy stays under 97 % or the weights differ in a bit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import digits
from bench_common import add_json_flag, ratios, spread, write_json
from digits_run import BIN, Run, mica_train, train_with_kills

ACCURACY_BAR = 0.97
SPEED_BAR = 1.3

WHOLE = "whole.safetensors"  # The weights of a run without kills.
SYSTEMS = ("eager", "mica", "mica_train")


def measure(
    folder: Path, epochs: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Makes the rounds.

    Args:
      folder: Gets the exported programs and data.
      epochs: Of each run.
      rounds: How many.

    Returns:
      Steps a second and test accuracy at the end, by round, of each system.
    """
    data = digits.load()
    runs = {
        "eager": Run(data, epochs, is_compiled=False),
        "mica": Run(data, epochs, is_compiled=True),
    }
    runs["mica"].export(folder)
    rates: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    accuracies: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for number in tqdm(range(rounds), "  rounds", disable=None):
        for name in SYSTEMS[:: -1 if number % 2 else 1]:
            if name == "mica_train":
                last = mica_train(folder, epochs, out_weights=folder / WHOLE)[
                    -1
                ]
                rates[name].append(last["steps_per_s"])
                accuracies[name].append(last["accuracy"])
                continue
            run = runs[name]
            run.reset()
            for _ in range(epochs):
                run.train_epoch()
            history = run.history
            rates[name].append(len(history.losses) / sum(history.seconds))
            accuracies[name].append(history.accuracies[-1])
    return rates, accuracies


def report(
    rates: dict[str, list[float]], accuracies: dict[str, list[float]]
) -> dict[str, Any]:
    """Prints the comparison and returns its figures."""
    figures: dict[str, Any] = {"bar": SPEED_BAR}
    print("system      steps/s  to eager             test accuracy, least")
    for name in SYSTEMS:
        rate = spread(rates[name])
        ratio = spread(ratios(rates[name], rates["eager"]))
        accuracy = min(accuracies[name])
        print(
            f"{name:10s}  {rate['median']:7.0f}  {ratio['median']:.2f} "
            f"({ratio['min']:.2f} to {ratio['max']:.2f})  "
            f"{100 * accuracy:12.2f} %"
        )
        figures[name] = {
            "steps_per_s": rate,
            "to_eager": ratio,
            "accuracy": accuracy,
        }
    return figures


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_json_flag(parser)
    parser.add_argument("--epochs", type=int, default=20, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=10)
    arguments = parser.parse_args()
    for name, least in (("epochs", 1), ("rounds", 1), ("kills", 0)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name}: wants {least} or more")
    return arguments


def kill(
    folder: Path, epochs: int, kills: int, steps_per_s: float
) -> dict[str, Any]:
    """Repeats measure()'s run with kills, compares weights; returns figures."""
    steps = epochs * (len(digits.load().train_labels) // digits.BATCH)
    killed = folder / "killed.safetensors"
    done = train_with_kills(folder, epochs, kills, steps / steps_per_s, killed)
    same = killed.read_bytes() == (folder / WHOLE).read_bytes()
    print(
        f"killed {done} times: {'the same' if same else 'OTHER'} weights, "
        "bit for bit"
    )
    return {
        "kills": done,
        "same_weights_after_kills": same,
    }


def main() -> int:
    """Measures; returns the exit status."""
    arguments = parse_arguments()
    if not (BIN / "mica_train").exists():
        print(f"error: {BIN / 'mica_train'} isn't built", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        figures = report(*measure(folder, arguments.epochs, arguments.rounds))
        if arguments.kills:
            figures |= kill(
                folder,
                arguments.epochs,
                arguments.kills,
                figures["mica_train"]["steps_per_s"]["median"],
            )
    write_json(arguments.json, figures)
    missed = [
        f"{name} gets {100 * figures[name]['accuracy']:.2f} % right"
        for name in SYSTEMS
        if not figures[name]["accuracy"] >= ACCURACY_BAR
    ]
    if not figures.get("same_weights_after_kills", True):
        missed.append("a run that was killed ends with other weights")
    for reason in missed:
        print(f"WRONG: {reason}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Trains a small convolutional net on scikit-learn's digits, with Mica.

The whole step (forward, backward, optimizer) is one Program. The same run is
made by eager PyTorch and by Mica, epoch about, and once more by mica_train,
which needs neither Python nor torch, from what Mica exported. Prints steps a
second and test accuracy, and draws the learning curves.

Exits with 1 if a run stays under 97 % of the test images, if the step isn't
one Program for all rates, or if mica_train ends with other weights than Mica.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tqdm import tqdm

import digits
from bench_common import add_json_flag, ratios, spread, write_json
from digits_run import ROOT, WARM_UP_STEPS, Run, mica_train

ACCURACY_BAR = 0.97
# Without the optimizer's state, with it, and with a rate that varies.
MOST_RECORDS = 3
# So long eager and Mica keep together; later rounding has grown too far.
FIRST_STEPS = 20


def draw(
    path: Path, eager: Run, compiled: Run, log: list[dict[str, Any]]
) -> None:
    """Draws loss and test accuracy of the runs into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    steps = eager.steps_per_epoch
    epochs = range(1, len(eager.history.accuracies) + 1)
    ends = [steps * epoch for epoch in epochs]
    for name, run, style in (("eager", eager, "C0"), ("Mica", compiled, "C1")):
        losses = run.history.losses
        left.plot(
            range(1, len(losses) + 1), losses, style, alpha=0.3, linewidth=0.5
        )
        means = torch.tensor(losses).reshape(-1, steps).mean(1).tolist()
        accuracies = [100 * share for share in run.history.accuracies]
        left.plot(ends, means, style, label=name)
        right.plot(epochs, accuracies, style, label=name)
    if log:
        losses = [line["loss"] for line in log]
        left.plot(ends, losses, "k.", label="mica_train")
        accuracies = [100 * line["accuracy"] for line in log]
        right.plot(epochs, accuracies, "k.", label="mica_train")
    right.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    left.set(
        xlabel="step", ylabel="loss, nats a sample; bold: mean of an epoch"
    )
    left.set_yscale("log")
    right.set(xlabel="epoch", ylabel="test accuracy, %", ylim=(80, 100))
    left.legend()
    right.legend()
    figure.suptitle("A small convolutional net on scikit-learn's digits")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def describe_graphs(run: Run) -> dict[str, Any]:
    """Returns what mica.explain() tells about a run's step."""
    import mica

    report = mica.explain(run.step)
    return {
        "mica_file": mica.__file__,
        "records": report.captures,
        "served": report.hits - (WARM_UP_STEPS - report.captures),
        "ops": max((len(graph.ops) for graph in report.graphs), default=0),
        "opaque_ops": sorted(
            {op for graph in report.graphs for op in graph.opaque}
        ),
    }


def same_weights(run: Run, path: Path) -> bool:
    """Whether a file holds the model's weights, bit for bit."""
    weights = load_file(path)
    return all(
        torch.equal(weights[f"model.{name}"], value)
        for name, value in run.model.state_dict().items()
    )


def repeat_by_mica_train(
    compiled: Run, folder: Path, epochs: int
) -> tuple[list[dict[str, Any]], bool]:
    """Exports the run to a folder and has mica_train make it once more.

    Args:
      compiled: The run by Mica, which stays as it is.
      folder: Gets what is exported.
      epochs: As many as the run had.
    Returns:
      What mica_train told of each epoch, and whether it ended with the same
      weights.
    """
    trained = {
        name: value.clone()
        for name, value in compiled.model.state_dict().items()
    }
    history = compiled.history
    compiled.export(folder)
    weights = folder / "weights.safetensors"
    print("  exported; the same run by mica_train …", flush=True)
    log = mica_train(folder, epochs, out_weights=weights)
    compiled.history = history
    compiled.model.load_state_dict(trained)
    return log, same_weights(compiled, weights)


def failures(figures: dict[str, Any]) -> list[str]:
    """Says which of the bars on being right the run missed."""
    missed = []
    for name, accuracy in figures["accuracy"].items():
        if not accuracy >= ACCURACY_BAR:
            missed.append(f"{name} gets {100 * accuracy:.2f} % right")
    graphs = figures["graphs"]
    if graphs["records"] > MOST_RECORDS:
        missed.append(f"{graphs['records']} records of one step")
    if graphs["served"] < figures["steps"]:
        missed.append(
            f"{graphs['served']} of {figures['steps']} steps were served"
        )
    if graphs["opaque_ops"]:
        missed.append(f"left to ATen: {', '.join(graphs['opaque_ops'])}")
    if not figures.get("mica_train_has_the_same_weights", True):
        missed.append("mica_train ended with other weights than Mica")
    return missed


def report(
    eager: Run, compiled: Run, log: list[dict[str, Any]]
) -> dict[str, Any]:
    """Prints the comparison and returns its figures.

    Args:
      eager: The run by eager PyTorch.
      compiled: The run by Mica.
      log: What mica_train told of each epoch; nothing where it didn't run.
    Returns:
      What goes to the JSON file.
    """
    eager_rates = eager.steps_per_s()
    mica_rates = compiled.steps_per_s()
    speedups = ratios(mica_rates, eager_rates)
    figures: dict[str, Any] = {
        "epochs": len(eager.history.accuracies),
        "steps": len(compiled.history.losses),
        "eager_steps_per_s": spread(eager_rates),
        "mica_steps_per_s": spread(mica_rates),
        "ratio": spread(speedups),
        "warm_up_extra_s": round(compiled.warm_up_s - eager.warm_up_s, 3),
        "accuracy": {
            "eager": eager.history.accuracies[-1],
            "mica": compiled.history.accuracies[-1],
        },
        "first_losses_differ_by": max(
            abs(one - other)
            for one, other in zip(
                eager.history.losses[:FIRST_STEPS],
                compiled.history.losses[:FIRST_STEPS],
                strict=True,
            )
        ),
        "graphs": describe_graphs(compiled),
    }
    rates = {
        "eager": statistics.median(eager_rates),
        "mica": statistics.median(mica_rates),
    }
    if log:
        rates["mica_train"] = log[-1]["steps_per_s"]
        figures["mica_train_steps_per_s"] = rates["mica_train"]
        figures["accuracy"]["mica_train"] = log[-1]["accuracy"]
    print("system      steps/s  test accuracy")
    for name, rate in rates.items():
        accuracy = figures["accuracy"][name]
        print(f"{name:10s}  {rate:7.0f}  {100 * accuracy:12.2f} %")
    print(
        f"Mica to eager: {statistics.median(speedups):.2f} "
        f"({min(speedups):.2f} to {max(speedups):.2f} in {len(speedups)} "
        "epochs taken in turn)"
    )
    print(
        f"losses of the first {FIRST_STEPS} steps differ from eager's by "
        f"{figures['first_losses_differ_by']:.1e} at most"
    )
    graphs = figures["graphs"]
    print(
        f"the step: one Program of {graphs['ops']} ops, "
        f"{len(graphs['opaque_ops'])} of them left to ATen; "
        f"{graphs['served']} of {figures['steps']} steps were served by its "
        f"Plan, after {graphs['records']} records in "
        f"{figures['warm_up_extra_s']:.2f} s"
    )
    return figures


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_json_flag(parser)
    parser.add_argument(
        "--epochs", type=int, default=20, help="passes over the data"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "build" / "digits",
        help="gets the learning curves and the exported programs",
    )
    parser.add_argument(
        "--python_only",
        action="store_true",
        help="leaves mica_train out, which an installed wheel doesn't have",
    )
    arguments = parser.parse_args()
    if arguments.epochs < 2:
        parser.error("--epochs: wants 2 or more")
    return arguments


def main() -> int:
    """Runs the training; returns the exit status."""
    arguments = parse_arguments()
    started = time.perf_counter()
    torch.set_num_threads(1)
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    data = digits.load()
    print(
        f"  {len(data.train_labels)} images to learn from, "
        f"{len(data.test_labels)} to test on",
        flush=True,
    )
    eager = Run(data, arguments.epochs, is_compiled=False)
    compiled = Run(data, arguments.epochs, is_compiled=True)
    for number in tqdm(range(arguments.epochs), "  epochs", disable=None):
        for run in (eager, compiled)[:: -1 if number % 2 else 1]:
            run.train_epoch()

    log: list[dict[str, Any]] = []
    same: bool | None = None
    if not arguments.python_only:
        log, same = repeat_by_mica_train(compiled, folder, arguments.epochs)
    picture = folder / "curves.png"
    draw(picture, eager, compiled, log)
    figures = report(eager, compiled, log)
    if same is not None:
        figures["mica_train_has_the_same_weights"] = same
        print(
            "mica_train ended with "
            + ("the weights that Mica did, bit for bit" if same else "others")
        )
    print(f"learning curves: {picture}")
    figures["total_s"] = round(time.perf_counter() - started, 2)
    write_json(arguments.json, figures)
    missed = failures(figures)
    for reason in missed:
        print(f"WRONG: {reason}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

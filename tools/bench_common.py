"""What the benchmark programs share: rounds, spreads, and where they ran."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Mica and transformers read these when they are imported: import both after
# this module.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MICA_NUM_THREADS", "1")
# A first call is cold: no Plan of an earlier run.
os.environ.setdefault("MICA_PLAN_CACHE", "0")


def interleave(
    systems: dict[str, Callable[[], object]], rounds: int, calls: int
) -> dict[str, list[float]]:
    """Times the systems in turn; every other round in the reverse order.

    Returns:
      For each system the seconds of one call, by round: the mean over `calls`
      calls in a row.
    """
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds):
        for name in list(systems)[:: -1 if number % 2 else 1]:
            call = systems[name]
            start = time.perf_counter()
            for _ in range(calls):
                call()
            seconds[name].append((time.perf_counter() - start) / calls)
    return seconds


def ratios(numerator: list[float], denominator: list[float]) -> list[float]:
    """Returns the ratio of each round."""
    return [n / d for n, d in zip(numerator, denominator, strict=True)]


def spread(values: list[float], scale: float = 1.0) -> dict[str, float]:
    """Returns median, least and greatest, times `scale`."""
    return {
        "median": round(statistics.median(values) * scale, 4),
        "min": round(min(values) * scale, 4),
        "max": round(max(values) * scale, 4),
    }


def commit() -> str:
    """Returns the tree's commit, or "unknown" outside of a repository."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor() -> str:
    """Returns the name of the machine's processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def place() -> dict[str, Any]:
    """Returns where and with what a benchmark ran."""
    import torch

    return {
        "commit": commit(),
        "processor": processor(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def write_json(path: Path | None, figures: dict[str, Any]) -> None:
    """Writes figures to `path`, if one is given, with place() added."""
    if path is not None:
        path.write_text(json.dumps(figures | place(), indent=1) + "\n")


def report(path: Path | None, figures: dict[str, Any]) -> None:
    """Prints figures, a line each, and does what write_json() does."""
    for name, value in figures.items():
        print(f"{name}: {value}")
    write_json(path, figures)


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Adds --json, which all benchmark programs take."""
    parser.add_argument("--json", type=Path, help="also write figures here")

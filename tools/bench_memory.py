#!/usr/bin/env python3
"""How much memory does a process with frozen weights hold, next to eager's?

Each system has a process of its own, which makes the model, warms it up and
tells how much of the whole process is resident, with all that it imported;
eager's doesn't import Mica. Bars: 1.6 times eager's with frozen weights, 1.15
times with `offload`. Peaks are the greatest size until then: the first calls
read weights that are moved to a file after them. How fast the systems are is
measured in one further process, interleaved, with a model each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_common import add_json_flag, interleave, ratios, report, spread

# What mica.compile gets; None for eager.
SYSTEMS: dict[str, dict[str, Any] | None] = {
    "eager": None,
    "unfrozen": {},
    "frozen": {"frozen": True},
    "offload": {"frozen": True, "offload": True},
}
BARS = {"frozen": 1.6, "offload": 1.15}
WARM_CALLS = 8


def size_mb(field: str) -> float:
    """Returns a size of this process that the kernel tells, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return round(int(line.split()[1]) / 1024, 1)
    raise OSError(f"/proc/self/status has no {field}")


def start(system: str, name: str) -> tuple[Callable[[], object], Any]:
    """Returns a call of the model of that name, and what was compiled."""
    import torch

    import zoo

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    entry = next(entry for entry in zoo.ENTRIES if entry.name == name)
    model = entry.make()
    args, kwargs = entry.inputs("full", 1, entry.lengths[0])
    options = SYSTEMS[system]
    if options is None:
        return lambda: model(*args, **kwargs), None
    import mica

    compiled = mica.compile(model, **options)
    return lambda: compiled(*args, **kwargs), compiled


def hold(system: str, name: str) -> dict[str, Any]:
    """Warms a system up; returns what its process holds then."""
    call, compiled = start(system, name)
    for _ in range(WARM_CALLS):
        call()
    figures: dict[str, Any] = {
        "resident_mb": size_mb("VmRSS"),
        "of_files_mb": size_mb("RssFile"),
        "peak_mb": size_mb("VmHWM"),
    }
    if compiled is not None:
        import mica

        explained = mica.explain(compiled)
        if explained.refusals or explained.hits != WARM_CALLS - 1:
            raise RuntimeError(f"isn't served: {explained}")
        graph = explained.graphs[0]
        figures["packed_mb"] = round(graph.packed_bytes / 2**20, 1)
        figures["offloaded_mb"] = round(graph.offloaded_bytes / 2**20, 1)
        if graph.not_offloaded:
            raise RuntimeError(f"isn't offloaded: {graph.not_offloaded}")
    return figures


def time_all(name: str, rounds: int) -> dict[str, Any]:
    """Returns seconds of a call by system, and ratios to eager's."""
    calls = {system: start(system, name)[0] for system in SYSTEMS}
    for call in calls.values():
        for _ in range(WARM_CALLS):
            call()
    seconds = interleave(calls, rounds, 1)
    return {
        system: {
            "ms": spread(one, 1e3),
            "to_eager": spread(ratios(seconds["eager"], one)),
        }
        for system, one in seconds.items()
    }


def in_child(arguments: list[str]) -> dict[str, Any]:
    """Returns what this program prints with these arguments."""
    output = subprocess.run(
        [sys.executable, __file__, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def main() -> int:
    """Runs the measurement; returns 1 if a bar isn't met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="BERT-base", help="of tools/zoo.py")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--hold", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--time", action="store_true", help=argparse.SUPPRESS)
    add_json_flag(parser)
    arguments = parser.parse_args()
    if arguments.hold:
        print(json.dumps(hold(arguments.hold, arguments.model)))
        return 0
    if arguments.time:
        print(json.dumps(time_all(arguments.model, arguments.rounds)))
        return 0
    model = ["--model", arguments.model]
    held = {system: in_child(["--hold", system, *model]) for system in SYSTEMS}
    eager = held["eager"]["resident_mb"]
    for figures in held.values():
        figures["to_eager"] = round(figures["resident_mb"] / eager, 3)
    speed = in_child(["--time", *model, "--rounds", str(arguments.rounds)])
    missed = [s for s, bar in BARS.items() if held[s]["to_eager"] > bar]
    report(
        arguments.json,
        {
            "model": arguments.model,
            "memory": held,
            "bars": BARS,
            "missed": missed,
            "speed": speed,
        },
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the zoo's models and training steps on a device, against the host.

Each is exported with its small sizes and run by `mica_bench --check`: on the
simulated device, with several streams, every output and every variable has to
be the host's, bit for bit. On another place the largest difference is shown.

    .venv/bin/python tools/check_devices.py [--place simulated:0] [NAME …]

Prints one line each, and exits 1 if there was an error, or a difference on the
simulated device.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

import mica
import zoo
import zoo_training

BENCH = Path(__file__).resolve().parent.parent / "build/bin/mica_bench"
_LENGTH = 16
_BATCH = 2


def names() -> Iterator[str]:
    """All that can be checked: models, then steps by optimizer."""
    yield from (entry.name for entry in zoo.ENTRIES)
    for entry in zoo_training.ENTRIES:
        for optimizer in zoo_training.OPTIMIZERS:
            yield f"{entry.name}, {optimizer}"


def export(name: str, folder: Path) -> None:
    """Writes the Program and the weights of one of names().

    Raises:
      mica.CaptureError, NotImplementedError: It can't be exported.
    """
    for entry in zoo.ENTRIES:
        if entry.name == name:
            model = entry.make("small")
            args, kwargs = entry.inputs("small", _BATCH, _LENGTH)
            call = functools.partial(model, **kwargs) if kwargs else model
            with torch.no_grad():
                mica.export(call, args, folder)
            return
    label, optimizer = name.rsplit(", ", 1)
    for training in zoo_training.ENTRIES:
        if training.name == label:
            _, step = training.make_step(optimizer)
            mica.export(step, training.batch(), folder)
            return
    raise SystemExit(f"wants one of {list(names())}, got {name!r}")


def run(folder: Path, place: str, streams: int) -> tuple[float, int]:
    """The largest difference from the host, and how many streams there were.

    Raises:
      RuntimeError: What mica_bench said.
    """
    command = [
        str(BENCH),
        f"--program={folder}",
        f"--place={place}",
        f"--streams={streams}",
        "--check",
        "--plan_repeats=1",
        "--repeats=1",
        "--warmup=0",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    found = json.loads(done.stdout)
    return float(found["largest_difference"]), int(found["streams"])


def check(name: str, place: str, streams: int) -> tuple[bool, str]:
    """Whether it is as it shall be, and what to print."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            export(name, Path(folder))
        except (mica.CaptureError, NotImplementedError) as error:
            return True, f"not exported: {str(error).splitlines()[0]}"
        try:
            difference, used = run(Path(folder), place, streams)
        except RuntimeError as error:
            return False, str(error)
    is_equal = difference == 0 or not place.startswith("simulated")
    return is_equal, f"{difference:.1e} apart, {used} streams"


def main() -> int:
    """Checks those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", default="simulated:0")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("names", nargs="*", default=list(names()))
    options = parser.parse_args()
    all_well = True
    for name in options.names:
        is_well, text = check(name, options.place, options.streams)
        all_well &= is_well
        print(f"{name}: {text}", flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())

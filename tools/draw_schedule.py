"""Draws the timeline of a Schedule from its Chrome trace.

Usage: draw_schedule.py TRACE.json PICTURE.png

The trace is what `mica_bench --schedule=… --trace=TRACE.json` writes; the
picture has the format of its suffix (png, pdf, svg).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

COLOURS = {
    "forward": "#7fb2e5",
    "backward": "#8fce9b",
    "backward_input": "#8fd6cf",
    "backward_weight": "#f2c57c",
    "reduce": "#b5a6de",
    "update": "#d98fc2",
}


@dataclass(frozen=True)
class Job:
    """One Job's time on its device, in milliseconds."""

    device: int
    kind: str
    stage: int
    micro_batch: int
    start: float
    length: float


def read_jobs(path: Path) -> list[Job]:
    """Reads the Jobs that take any time, in the order of the trace.

    Raises:
      ValueError: The file is no trace of a Schedule.
    """
    try:
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        return [
            Job(
                device=int(event["tid"]),
                kind=str(event["cat"]),
                stage=int(event["args"]["stage"]),
                micro_batch=int(event["args"]["micro_batch"]),
                start=float(event["ts"]) / 1000,
                length=float(event["dur"]) / 1000,
            )
            for event in events
            if event["ph"] == "X" and event["dur"] > 0
        ]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: no trace of a Schedule: {error!r}") from None


def draw(jobs: list[Job], path: Path) -> None:
    """Writes a picture of `jobs`: a row a device, micro-batches as numbers.

    Stages that aren't their device's first are paler.
    """
    import matplotlib as mpl  # Slow to import, so not above.

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    devices = max((job.device for job in jobs), default=0) + 1
    makespan = max((job.start + job.length for job in jobs), default=1.0)
    shortest = min((job.length for job in jobs), default=1.0)
    width = min(max(8.0, 0.28 * makespan / shortest), 100.0)
    figure, axes = plt.subplots(figsize=(width, 1.2 + 0.4 * devices))
    first_stage: dict[int, int] = {}
    for job in jobs:
        stage = first_stage.setdefault(job.device, job.stage)
        axes.barh(
            job.device,
            job.length,
            left=job.start,
            height=0.85,
            color=COLOURS.get(job.kind, "#cccccc"),
            alpha=1.0 if job.stage == stage else 0.55,
            edgecolor="#555555",
            linewidth=0.4,
        )
        if job.length * width / makespan > 0.15:
            axes.text(
                job.start + job.length / 2,
                job.device,
                str(job.micro_batch),
                ha="center",
                va="center",
                fontsize=7,
            )
    axes.set_yticks(range(devices), [f"device {i}" for i in range(devices)])
    axes.invert_yaxis()
    axes.set_xlim(0, makespan)
    handles = [
        Patch(color=colour, label=kind)
        for kind, colour in COLOURS.items()
        if any(job.kind == kind for job in jobs)
    ]
    axes.legend(
        handles=handles,
        ncol=len(COLOURS),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.12),
        frameon=False,
    )
    figure.savefig(path, bbox_inches="tight", dpi=120)
    plt.close(figure)


def main(arguments: list[str]) -> int:
    """Draws the trace of the first argument to the path of the second."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    try:
        draw(read_jobs(Path(arguments[0])), Path(arguments[1]))
    except (OSError, ValueError) as error:
        print(f"draw_schedule: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

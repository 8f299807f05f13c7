#!/usr/bin/env python3
"""Fills the status table of README.md with figures measured now.

Runs each row's command and replaces what stands between the two status marks.
Needs a release build (tools/test.sh or tools/quickstart.sh makes one). A row
whose command fails says so instead of keeping an old figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_common import commit, processor

_ROOT = Path(__file__).resolve().parent.parent
_BEGIN = "<!-- status: made by tools/update_status.py -->"
_END = "<!-- end of status -->"

Figures = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One bar: its command prints, or writes by --json, a JSON object."""

    what: str
    bar: str
    command: str
    measured: Callable[[Figures], str]
    # A Python program writes its figures to a file; a binary prints them.
    writes_file: bool = False


def _quickstart(figures: Figures) -> str:
    ratio = figures["ratio"]
    graphs = figures["mica"]
    return (
        f"{ratio['median']:.2f}× ({ratio['min']:.2f} to {ratio['max']:.2f}); "
        f"cosine 1 − {figures['one_minus_smallest_cosine']:.0e}; "
        f"{graphs['graphs']} graphs for {len(figures['buckets'])} buckets; "
        f"{len(graphs['opaque_ops'])} ops left to ATen"
    )


def _mlp(figures: Figures) -> str:
    return (
        f"{figures['mica_us']['median']:.1f} µs "
        f"(eager {figures['eager_us']['median']:.0f})"
    )


def _cold(figures: Figures) -> str:
    return (
        f"{figures['cold_s']:.2f} s; the first call alone takes "
        f"{figures['first_call_extra_s']:.2f} s longer than eager's"
    )


def _memory(figures: Figures) -> str:
    held, speed = figures["memory"], figures["speed"]

    def shown(system: str) -> str:
        return (
            f"{held[system]['to_eager']:.2f}× "
            f"({held[system]['resident_mb']:.0f} MB, "
            f"{speed[system]['to_eager']['median']:.2f}× as fast)"
        )

    return (
        f"{shown('frozen')}; with `offload` {shown('offload')}; eager "
        f"{held['eager']['resident_mb']:.0f} MB"
    )


def _arena(figures: Figures) -> str:
    return f"{figures['arena_bytes'] / figures['live_set_bytes']:.3f}×"


def _train(figures: Figures) -> str:
    tool = figures["mica_train"]
    ratio = tool["to_eager"]
    weights = "the same" if figures["same_weights_after_kills"] else "OTHER"
    return (
        f"{ratio['median']:.2f}× ({ratio['min']:.2f} to {ratio['max']:.2f}); "
        f"{100 * tool['accuracy']:.2f} %; {weights} weights after "
        f"{figures['kills']} kills"
    )


def _slope(figures: Figures) -> str:
    last = figures["points"][-1]
    return (
        f"{figures['slope']:.2f}; {last['ops']:,} ops in "
        f"{last['analysis_ms'] / 1e3:.2f} s (the least of {last['least_of']})"
    )


def _analysis(figures: Figures) -> str:
    return (
        f"{figures['ops']:,} ops in {figures['analysis_ms'] / 1e3:.2f} s, "
        f"fusion included; {figures['unfused_analysis_ms'] / 1e3:.2f} s without"
        f" (medians of {figures['plan_repeats']})"
    )


def _text_to_plan(figures: Figures) -> str:
    return (
        f"{figures['plan_ms']:.1f} ms, parsing and fusion included; "
        f"{figures['unfused_plan_ms']:.1f} ms without fusion (medians of "
        f"{figures['plan_repeats']}); the first {figures['first_plan_ms']:.1f}"
        " ms"
    )


def _guards(figures: Figures) -> str:
    bert = figures["cases"][0]

    def largest(names: list[str]) -> str:
        cases = [case for case in figures["cases"] if case["name"] in names]
        case = max(cases, key=lambda case: case["share"])
        return f"{100 * case['share']:.2f} % ({case['name']})"

    eight = figures["eight"]
    return (
        f"{bert['warm_us']:.1f} µs in a row, {bert['after_run_us']:.0f} µs "
        f"after a run; at most {largest(eight['full'])}, "
        f"or {largest(eight['small'])}"
    )


def _ops(figures: Figures) -> str:
    found = figures["summary"]
    return (
        f"{found['worse']} of {found['rows']} over 1.1×, "
        f"{found['worse and over 1.5x']} over 1.5×; "
        f"{found['on a reference kernel']} on a reference kernel; "
        f"{found['no graph']} no graph; {found['errors']} errors; "
        f"geometric mean {found['geometric mean']:.2f}×"
    )


def _further_jobs(figures: Figures) -> str:
    return f"{figures['further_job_us_per_op']:.3f} µs an op"


_BENCH = "build/bin/mica_bench --json"
_GENERATORS = ("chain", "relu_add", "fan", "ladder", "random", "transformer")
_ROWS = (
    Row(
        "MiniLM, frozen, one thread: sentences/s to eager's",
        "≥ 1.15×; cosine to float64 ≥ 1 − 1e-6; one graph a bucket, "
        "nothing left to ATen",
        "tools/quickstart.py --seconds 20",
        _quickstart,
        writes_file=True,
    ),
    Row(
        "`mica_train` on the exported digits step: steps/s to eager's",
        "≥ 1.3×; ≥ 97 % of the test images; the same weights, bit for bit, "
        "after 10 kills",
        "tools/bench_train.py",
        _train,
        writes_file=True,
    ),
    Row(
        "chain of 1,000 adds on one element, unfused",
        "≤ 30 ns an op",
        f"{_BENCH} --generate=chain --ops=1000 --fuse=false",
        lambda figures: f"{figures['run_ns_per_op']:.1f} ns",
    ),
    Row(
        "MLP of ten 64×64 layers, batch 8, from Python, guards included",
        "≤ 25 µs",
        "tools/bench_mlp.py",
        _mlp,
        writes_file=True,
    ),
    Row(
        "BERT-base, capture to Plan, cold",
        "≤ 1.0 s",
        "tools/bench_cold.py",
        _cold,
        writes_file=True,
    ),
    Row(
        "BERT-base, frozen: the whole process in memory, warm, by eager's "
        "whole process",
        "≤ 1.6×; with `offload` ≤ 1.15×",
        "tools/bench_memory.py",
        _memory,
        writes_file=True,
    ),
    Row(
        "arena to largest live set, 12 transformer layers",
        "≤ 1.05×",
        f"{_BENCH} --generate=transformer --layers=12 --plan_only",
        _arena,
    ),
    Row(
        "2,000-op relu/add graph: text to runnable Plan",
        "≤ 10 ms",
        f"{_BENCH} --generate=relu_add --ops=2000 --plan_only",
        _text_to_plan,
    ),
    Row(
        "guards of a 12-layer BERT, and of eight published models, inputs as "
        "published",
        "≤ 15 µs; ≤ 2 % of a run",
        "tools/bench_guards.py",
        _guards,
        writes_file=True,
    ),
    Row(
        "every operator and layer that torch lists for its tests, float32, "
        "three sizes, dense and not: Mica's time by eager's",
        "at most 1 % over 1.1×, none without a reason",
        "tools/bench_ops.py",
        _ops,
        writes_file=True,
    ),
    Row(
        "`Executor.run` from Python, one feed and one fetch",
        "≤ 3 µs",
        "tools/bench_executor.py",
        lambda figures: f"{figures['mica_us']['median']:.2f} µs",
        writes_file=True,
    ),
    Row(
        "a generated transformer's training step, all analyses",
        "135,000 ops in ≤ 1.0 s",
        f"{_BENCH} --generate=transformer_step --layers=1275 --hidden=64 "
        "--heads=4 --seq=16 --plan_only",
        _analysis,
    ),
    *(
        Row(
            f"log-log slope of analysis, 1,000 to a million ops, `{kind}`, "
            f"{streams} streams",
            "≤ 1.1",
            f"{_BENCH} --slope --generate={kind} --ops=1000000 --hidden=64 "
            f"--heads=4 --seq=16 --streams={streams}",
            _slope,
        )
        for kind in _GENERATORS
        for streams in (1, 8)
    ),
    Row(
        "64 jobs with equal Programs of their own: each further one",
        "≤ 0.1 µs an op",
        f"{_BENCH} --generate=relu_add --ops=2000 --plan_only --jobs=64 "
        "--separate",
        _further_jobs,
    ),
)


def _run(row: Row) -> Figures:
    """Runs the row's command on one core and returns its figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = row.command.split()
        if row.writes_file:
            command = [sys.executable, *command, "--json", str(path)]
        output = subprocess.run(
            ["taskset", "-c", "0", *command],
            cwd=_ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        figures: Figures = json.loads(
            path.read_text() if row.writes_file else output
        )
        return figures


def _table() -> tuple[str, bool]:
    """Returns the table's text, and whether every command succeeded."""
    lines = [
        _BEGIN,
        f"Commit {commit()}, one core of: {processor()}.",
        "",
        "| what | bar | measured | command |",
        "|---|---|---|---|",
    ]
    complete = True
    for row in _ROWS:
        print(f"{row.what} …", flush=True)
        try:
            measured = row.measured(_run(row))
        except (subprocess.CalledProcessError, OSError, ValueError) as error:
            print(f"  failed: {error}")
            measured, complete = "not measured", False
        shown = (".venv/bin/python " if row.writes_file else "") + row.command
        lines.append(f"| {row.what} | {row.bar} | {measured} | `{shown}` |")
        print(f"  {measured}")
    return "\n".join([*lines, _END]), complete


def main() -> int:
    """Rewrites the README; returns 1 if a command failed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    readme = _ROOT / "README.md"
    before, rest = readme.read_text().split(_BEGIN)
    _, after = rest.split(_END)
    table, complete = _table()
    readme.write_text(before + table + after)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())

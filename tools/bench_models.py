#!/usr/bin/env python3
"""How fast are the models that people run, against eager and its rivals?

Every case (a model with a batch and a length, or a training step with an
optimizer) runs in a process of its own, in which all systems take turns, every
other round in the reverse order; what counts is each round's ratio to eager.
A system that isn't installed, fails, or gives other numbers is shown with the
reason instead of figures. `--write` makes docs/performance.md's table.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import io
import json
import multiprocessing
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers  # noqa: F401  Once for all processes; see in_child().
from tqdm import tqdm

import mica
import rivals
import zoo
import zoo_training
from bench_common import (
    add_json_flag,
    commit,
    interleave,
    place,
    ratios,
    spread,
)
from performance_page import show, write_page

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")

# Other numbers than eager's by more than this share of the largest: not the
# same model.
DIFFERENCE = {torch.float32: 1e-2, torch.bfloat16: 1e-1}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# A round of fast models takes several calls, to be at least so long.
ROUND_S = 0.02
EAGER_CALLS = 5
COLD_CALLS = 4
MEMORY_CALLS = 2

Figures = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What is measured: one row for each system.

    Attributes:
      kind: "inference" or "training".
      name: Of the model.
      detail: Sizes, in words.
      start: Makes a system by its name, on the case's own model and inputs.
      dtype: What it computes in, of training under autocast.
    """

    kind: str
    name: str
    detail: str
    start: Callable[[str], rivals.Prepared]
    dtype: torch.dtype = torch.float32

    @property
    def systems(self) -> list[str]:
        """Names of the systems for this kind of case."""
        table: dict[str, Any] = rivals.INFERENCE
        return list(table if self.kind == "inference" else rivals.TRAINING)


def inference_case(
    entry: zoo.Entry, batch: int, length: int, dtype: torch.dtype
) -> Case:
    """Returns the case of a model in its published size."""
    made: list[Any] = []

    def converted(argument: torch.Tensor) -> torch.Tensor:
        return argument.to(dtype) if argument.is_floating_point() else argument

    def start(system: str) -> rivals.Prepared:
        if not made:
            args, kwargs = entry.inputs("full", batch, length)
            assert not kwargs
            model = entry.make("full").to(dtype)
            made.extend([model, tuple(converted(each) for each in args)])
        return rivals.INFERENCE[system](*made)

    detail = f"batch {batch}" + (f", length {length}" if length else "")
    return Case("inference", entry.name, detail, start, dtype)


def training_case(
    entry: zoo_training.Entry, optimizer: str, dtype: torch.dtype
) -> Case:
    """Returns the case of a step; each system trains a model of its own.

    In another dtype than float32 the loss is computed under autocast.
    """
    if dtype != torch.float32:
        plain = entry.loss

        def loss(model: Any, *batch: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=dtype):
                return plain(model, *batch)

        entry = replace(entry, loss=loss)

    def start(system: str) -> rivals.Prepared:
        model, step = entry.make_step(optimizer)
        return rivals.TRAINING[system](model, step, entry.batch())

    detail = f"{entry.sizes}, {optimizer}"
    return Case("training", entry.name, detail, start, dtype)


def all_cases(cases: list[tuple[int, int]], dtype: torch.dtype) -> list[Case]:
    """Returns every case.

    Args:
      cases: Batches, with which of a model's lengths.
      dtype: Of models and their inputs, or of autocast in training.
    """
    found = []
    for entry in zoo.ENTRIES:
        if entry.is_variant:
            continue
        sizes = {(b, entry.lengths[i % len(entry.lengths)]) for b, i in cases}
        found += [inference_case(entry, b, n, dtype) for b, n in sorted(sizes)]
    for step in zoo_training.ENTRIES:
        found += [
            training_case(step, name, dtype) for name in zoo_training.OPTIMIZERS
        ]
    return found


def in_child(work: Callable[[], Figures], limit_s: float) -> Figures:
    """Runs `work` in a forked process, which has what is imported already.

    Returns:
      Its figures, or {"reason": …} if it raised, died, or took longer.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send(work())
        except BaseException as error:
            sender.send({"reason": reason_of(error)})

    process = context.Process(target=run)
    process.start()
    sender.close()
    try:
        if not receiver.poll(limit_s):
            return {"reason": f"took longer than {limit_s:.0f} s"}
        figures: Figures = receiver.recv()
        return figures
    except EOFError:
        process.join()
        return {"reason": f"died, exit status {process.exitcode}"}
    finally:
        process.kill()
        process.join()


def reason_of(error: BaseException) -> str:
    """One line of an error's text."""
    if isinstance(error, rivals.UnavailableError):
        return str(error)
    if "MICA_BENCH_DEBUG" in os.environ:
        traceback.print_exception(error)
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:120]


def first_tensor(result: Any) -> torch.Tensor:
    """The first tensor of a result, of whichever system."""
    while not isinstance(result, torch.Tensor):
        if hasattr(result, "__array__"):
            result = torch.from_numpy(result.__array__().copy())
        elif hasattr(result, "values") and callable(result.values):
            result = next(iter(result.values()))
        else:
            result = result[0]
    return result.detach().clone()


def last_result(
    call: Callable[[], Any], calls: int = COLD_CALLS
) -> torch.Tensor:
    """Calls so often and returns the first tensor of the last result."""
    for _ in range(calls - 1):
        call()
    return first_tensor(call())


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """Returns a call's time and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def measure(case: Case, systems: list[str], rounds: int) -> Figures:
    """Measures the systems against each other; in the case's own process."""
    torch.set_num_threads(threads())
    eager = case.start("eager")
    eager.call()
    times = [seconds_of(eager.call)[0] for _ in range(EAGER_CALLS)]
    eager_s = statistics.median(times)
    expected = last_result(case.start("eager").call)
    figures: Figures = {"eager": {"cold_s": 0.0}}
    ready: dict[str, rivals.Prepared] = {"eager": eager}
    for system in systems:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                times_s, difference, prepared = start_cold(
                    case, system, expected
                )
            figures[system] = {
                "cold_s": round(sum(times_s) - 2 * eager_s, 4),
                "first_call_s": round(sum(times_s[:-1]) - eager_s, 4),
                "difference": difference,
            }
            if not difference <= DIFFERENCE[case.dtype]:
                figures[system]["reason"] = f"differs by {difference:.1e}"
            else:
                ready[system] = prepared
        except BaseException as error:
            figures[system] = {"reason": reason_of(error)}
    gc.collect()
    repeats = max(1, round(ROUND_S / eager_s))
    # A rival's export may change the model, such as its caches and lists.
    for prepared in ready.values():
        last_result(prepared.call, calls=2)
    unserved = {name: unserved_calls(one) for name, one in ready.items()}
    seconds = interleave(
        {name: one.call for name, one in ready.items()}, rounds, repeats
    )
    for system, prepared in ready.items():
        figures[system] |= native_figures(prepared)
        again = unserved_calls(prepared) - unserved[system]
        if again:  # The rounds timed something else than its graphs.
            figures[system]["reason"] = f"{again} calls of the rounds unserved"
            continue
        figures[system]["ms"] = spread(seconds[system], 1e3)
        figures[system]["to_eager"] = spread(
            ratios(seconds["eager"], seconds[system])
        )
    return figures


def start_cold(
    case: Case, system: str, expected: torch.Tensor
) -> tuple[list[float], float, rivals.Prepared]:
    """Returns the times of setting up and of two calls, and the difference.

    The difference is that of the last of COLD_CALLS calls, which leave all
    warm; of a training step, whose first call makes the optimizer's state, that
    of the loss by then.
    """
    built_s, prepared = seconds_of(lambda: case.start(system))
    if case.kind == "training":  # A new model is built: no part of it.
        built_s = 0.0
    first_s, _ = seconds_of(prepared.call)
    second_s, _ = seconds_of(prepared.call)
    got = last_result(prepared.call, calls=COLD_CALLS - 2)
    scale = expected.abs().max().clamp(min=1e-30)
    difference = float((got - expected).abs().max() / scale)
    return [built_s, first_s, second_s], difference, prepared


def unserved_calls(prepared: rivals.Prepared) -> int:
    """How many calls so far no graph served: watched, eager or in pieces."""
    if prepared.compiled is None:
        return 0
    report = mica.explain(prepared.compiled)
    return int(report.captures + report.eager_calls + report.split_calls)


def native_figures(prepared: rivals.Prepared) -> Figures:
    """What explain tells, if it is Mica."""
    if prepared.compiled is None:
        return {}
    report = mica.explain(prepared.compiled)
    opaque = sorted({op for graph in report.graphs for op in graph.opaque})
    return {
        "graphs": len(report.graphs),
        "refusals": [str(reason) for reason in report.refusals],
        "opaque": opaque,
        "arena_to_live": round(
            max(
                (g.arena_bytes / max(1, g.live_set_bytes))
                for g in report.graphs
            ),
            4,
        )
        if report.graphs
        else None,
    }


def peak_memory(case: Case, system: str) -> Figures:
    """Measures what a system holds at most during a call, in MB.

    In a process of its own: the greatest resident size during a warm call,
    less that before it was set up. By then another of its kind has run and was
    dropped, so that code and what libraries keep don't count. The model counts
    in training only, where each system has one of its own.
    """
    torch.set_num_threads(threads())
    for warm in ("eager", system):
        dropped = case.start(warm)
        for _ in range(3):
            dropped.call()
        del dropped
    return_free_memory()
    before = status_kb("VmRSS")
    prepared = case.start(system)
    for _ in range(3):
        prepared.call()
    return_free_memory()
    Path("/proc/self/clear_refs").write_text("5")  # Forgets the peak so far.
    for _ in range(MEMORY_CALLS):
        prepared.call()
    return {"peak_mb": round((status_kb("VmHWM") - before) / 1024, 2)}


def return_free_memory() -> None:
    """Gives back what malloc keeps, so that what was before doesn't count."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def status_kb(name: str) -> int:
    """Returns a size of this process that the kernel tells."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}")


def threads() -> int:
    """Returns the threads of each system."""
    return int(os.environ["MICA_NUM_THREADS"])


def run_case(case: Case, arguments: argparse.Namespace) -> Figures:
    """Returns a case's figures by system."""
    systems = [
        name
        for name in case.systems
        if name != "eager" and name in arguments.systems
    ]

    def timed() -> Figures:
        with torch.set_grad_enabled(case.kind == "training"):
            return measure(case, systems, arguments.rounds)

    def held(system: str) -> Figures:
        with torch.set_grad_enabled(case.kind == "training"):
            return peak_memory(case, system)

    figures = in_child(timed, arguments.limit)
    if "reason" in figures:
        return {name: dict(figures) for name in ["eager", *systems]}
    for system in ["eager", *systems]:
        if "ms" in figures[system] and system in arguments.memory:
            figures[system] |= in_child(
                lambda system=system: held(system),  # type: ignore[misc]
                arguments.limit,
            )
    return figures


def joined(earlier: Figures, rows: list[Figures]) -> list[Figures]:
    """An earlier run's cases, those measured now in their place."""

    def key(row: Figures) -> tuple[str, ...]:
        return row["kind"], row["model"], row["detail"]

    now = {key(row): row for row in rows}
    kept = [now.pop(key(row), row) for row in earlier.get("cases", [])]
    return kept + list(now.values())


def parse_arguments() -> argparse.Namespace:
    """Returns the flags."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="parts of names; all")
    parser.add_argument(
        "--kind", choices=("inference", "training"), help="both by default"
    )
    parser.add_argument(
        "--systems",
        nargs="*",
        default=[name for name in rivals.INFERENCE if name != "mica live"],
        choices=list(rivals.INFERENCE),
    )
    parser.add_argument(
        "--cases",
        nargs="*",
        default=["1:0", "4:1"],
        help="BATCH:N, with the model's Nth length (0 or 1)",
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="of models and inputs, or of autocast in training",
    )
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument(
        "--limit", type=float, default=600, help="seconds for one case"
    )
    parser.add_argument(
        "--memory",
        nargs="*",
        default=["eager", "mica"],
        help="systems whose memory is measured, in processes of their own",
    )
    parser.add_argument(
        "--write", action="store_true", help="rewrite docs/performance.md"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help="JSON of an earlier run, for the cases that aren't measured now",
    )
    parser.add_argument(
        "--note", default="", help="a remark for the page, such as on the load"
    )
    add_json_flag(parser)
    arguments = parser.parse_args()
    if arguments.write and arguments.dtype != "float32":
        parser.error("the page is of float32: --write without --dtype")
    return arguments


def main() -> int:
    """Runs the measurement; returns 1 if Mica failed somewhere."""
    arguments = parse_arguments()
    torch.set_num_threads(threads())
    sizes = [
        (int(batch), int(index))
        for batch, _, index in (text.partition(":") for text in arguments.cases)
    ]
    cases = [
        case
        for case in all_cases(sizes, DTYPES[arguments.dtype])
        if (arguments.kind in (None, case.kind))
        and (
            not arguments.models
            or any(part in case.name for part in arguments.models)
        )
    ]
    kept = json.loads(arguments.keep.read_text()) if arguments.keep else {}
    measured = [commit(), *(case["commit"] for case in kept.get("cases", []))]
    dirty = [name for name in measured if name.endswith("-dirty")]
    if arguments.write and dirty:
        print(f"--write wants clean trees, not {dirty[0]}", file=sys.stderr)
        return 2
    figures = {"dtype": arguments.dtype, "rounds": arguments.rounds} | place()
    figures["note"] = arguments.note
    rows: list[Figures] = []
    for case in (bar := tqdm(cases, disable=None)):
        bar.set_description(f"{case.name}, {case.detail}")
        rows.append(
            {
                "kind": case.kind,
                "model": case.name,
                "detail": case.detail,
                "commit": commit(),
                "systems": run_case(case, arguments),
            }
        )
        tqdm.write(show(rows[-1]), file=sys.stdout)
        figures["cases"] = joined(kept, rows)
        if arguments.json:  # After each case: runs are long.
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    if arguments.write:
        write_page(figures)
    failed = [
        row
        for row in rows
        if "mica" in row["systems"] and "ms" not in row["systems"]["mica"]
    ]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

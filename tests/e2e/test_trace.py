"""Traces: one file of captures, analyses, steps, streams and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mica

Event = dict[str, Any]


class Trace:
    """A file that was written, parsed."""

    def __init__(self, path: Path) -> None:
        whole = json.loads(path.read_text(encoding="utf-8"))
        assert whole["otherData"]["dropped_events"] == 0
        events: list[Event] = whole["traceEvents"]
        self.rows = {
            event["tid"]: event["args"]["name"]
            for event in events
            if event["ph"] == "M" and event["name"] == "thread_name"
        }
        self.spans = [event for event in events if event["ph"] == "X"]
        self.counters = [event for event in events if event["ph"] == "C"]
        self.arrows = [event for event in events if event["ph"] in "sf"]
        self.check()

    def check(self) -> None:
        """Spans have rows, take no negative time, and nest."""
        by_row: dict[int, list[Event]] = defaultdict(list)
        for span in self.spans:
            assert span["ts"] >= 0
            assert span["dur"] >= 0
            assert span["tid"] in self.rows
            by_row[span["tid"]].append(span)
        for spans in by_row.values():
            spans.sort(key=lambda span: (span["ts"], -span["dur"]))
            ends: list[float] = []
            for span in spans:
                # Microseconds in floats: nanoseconds, rounded.
                while ends and ends[-1] <= span["ts"] + 1e-4:
                    ends.pop()
                end = span["ts"] + span["dur"]
                assert not ends or end <= ends[-1] + 1e-3
                ends.append(end)
        for counter in self.counters:
            assert all(value >= 0 for value in counter["args"].values())

    def of(self, category: str, name: str = "") -> list[Event]:
        """Spans of a category whose names begin so."""
        return [
            span
            for span in self.spans
            if span["cat"] == category and span["name"].startswith(name)
        ]


def within(inner: Event, outer: Event) -> bool:
    return (
        inner["tid"] == outer["tid"]
        and outer["ts"] <= inner["ts"] + 1e-3
        and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3
    )


def make_net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).eval()


def test_has_a_capture_its_analyses_and_hits(tmp_path: Path) -> None:
    net = make_net()
    fast = mica.compile(net, exact=False)
    path = tmp_path / "trace.json"
    with torch.no_grad(), mica.trace(path):
        for _ in range(3):
            fast(torch.ones(5, 8))
    trace = Trace(path)
    assert list(trace.rows.values())[0] == "main"
    assert len(trace.of("call", "call Sequential")) == 3
    (capture,) = trace.of("capture", "capture ")
    for part in [
        *trace.of("capture", "watched run"),
        *trace.of("capture", "make tape"),
        *trace.of("analysis", "lower"),
        *trace.of("analysis", "plan @"),
        *trace.of("analysis", "pack memory"),
        *trace.of("pass"),
    ]:
        assert within(part, capture), part["name"]
    passes = [span["name"] for span in trace.of("pass")]
    assert {"simplify", "merge-elementwise"} <= set(passes)
    runs = trace.of("run", "run @")
    assert len(runs) == 2
    assert len(trace.of("guards")) == 2
    steps = trace.of("step")
    record = fast._mica_report()["records"][0]
    names = [name for name in record["ops"] if name != "aten.t"]
    assert [step["name"] for step in steps] == 2 * names
    for step in steps:
        assert any(within(step, run) for run in runs)
        assert "test_trace.py" in step["args"]["line"] or step["args"]["line"]
    peak = max(counter["args"]["arena"] for counter in trace.counters)
    assert 0 < peak <= record["arena_bytes"]
    assert trace.counters[-1]["args"] == {"arena": 0, "outside": 0}


def test_has_the_check_of_accuracy(tmp_path: Path) -> None:
    fast = mica.compile(make_net())
    path = tmp_path / "trace.json"
    with torch.no_grad(), mica.trace(path):
        for _ in range(3):
            fast(torch.randn(5, 8))
    trace = Trace(path)
    first, *more = trace.of("capture", "check accuracy")
    runs = [run for run in trace.of("run", "run @") if within(run, first)]
    assert len(runs) == 2
    assert len(more) <= 1


def test_has_streams_and_workers_as_rows(tmp_path: Path) -> None:
    # Four chains beside each other.
    text = ["program @wide(%x: f32[96,96]) {"]
    for chain in range(4):
        last = "x"
        for i in range(3):
            text.append(f"  %v{chain}_{i} = aten.mm(%{last}, %x) : f32[96,96]")
            last = f"v{chain}_{i}"
    text += ["  return %v0_2, %v1_2, %v2_2, %v3_2", "}"]
    program = mica.Program.parse("\n".join(text) + "\n")
    x = torch.rand(96, 96)
    for kind, options in {
        "stream": {"num_streams": 2},
        "worker": {"num_streams": 1, "num_threads": 2, "queue": True},
    }.items():
        executor = mica.Executor("cpu", fuse=False, **options)  # type: ignore[arg-type]
        path = tmp_path / f"{kind}.json"
        with mica.trace(path):
            for _ in range(20):
                executor.run(program, {"x": x})
        trace = Trace(path)
        steps = trace.of("step")
        assert len(steps) == 20 * 12
        for step in steps:
            number = step["args"][kind]
            row = trace.rows[step["tid"]]
            assert row == ("main" if number == 0 else f"{kind} {number}")
        if kind == "stream":
            assert set(trace.rows.values()) == {"main", "stream 1"}


def test_has_a_schedules_jobs_and_what_they_send(tmp_path: Path) -> None:
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    program = mica.capture(step, (torch.ones(2, 8), torch.ones(2, 4)))
    schedule = mica.Schedule("1f1b", devices=2, micro_batches=4)
    feed = {
        name: torch.rand(4 * 2, int(kind.rstrip("]").split(",")[1]))
        for name, kind in program.inputs
    }
    executor = mica.Executor("cpu", num_threads=1)
    path = tmp_path / "trace.json"
    with mica.trace(path):
        executor.run(program, feed, schedule=schedule, split_at=["net.2"])
    trace = Trace(path)
    assert {"device 0", "device 1"} <= set(trace.rows.values())
    jobs = trace.of("forward") + trace.of("backward") + trace.of("update")
    assert len(jobs) == 2 * (4 + 4 + 1)
    assert {trace.rows[job["tid"]] for job in jobs} == {"device 0", "device 1"}
    for run in trace.of("run", "run @"):
        assert any(within(run, job) for job in jobs)
    # Values forth and gradients back.
    assert len(trace.arrows) == 2 * (4 + 4)
    assert len(trace.of("analysis", "plan pipeline")) == 1
    assert len(trace.of("pass", "cut into stages")) == 1


def test_a_file_comes_of_a_block_that_raises(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with pytest.raises(ZeroDivisionError), mica.trace(path):
        _ = 1 // 0
    Trace(path)
    with mica.trace(path), pytest.raises(RuntimeError, match="recorded"):
        with mica.trace(tmp_path / "other.json"):
            pass
    assert not (tmp_path / "other.json").exists()
    with pytest.raises(LookupError, match="no folder"):
        with mica.trace(tmp_path / "none" / "trace.json"):
            pass


def test_environment_traces_the_whole_process(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    code = (
        "import torch, mica\n"
        "f = mica.compile(lambda x: (x + 1).relu() * x, exact=False)\n"
        "for _ in range(3): f(torch.ones(4))\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MICA_TRACE": str(path)},
        check=True,
        timeout=100,
    )
    trace = Trace(path)
    assert len(trace.of("call", "call ")) == 3
    assert len(trace.of("run", "run @")) == 2

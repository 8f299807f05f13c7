"""The picture of a Schedule's timeline."""

import json
from pathlib import Path

import pytest

from draw_schedule import Job, main, read_jobs

pytest.importorskip("matplotlib")

EVENTS = [
    {"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {}},
    {
        "name": "F0:3",
        "cat": "forward",
        "ph": "X",
        "pid": 0,
        "tid": 1,
        "ts": 2000.0,
        "dur": 500.0,
        "args": {"stage": 0, "micro_batch": 3},
    },
    {
        "name": "U0",
        "cat": "update",
        "ph": "X",
        "pid": 0,
        "tid": 1,
        "ts": 2500.0,
        "dur": 0.0,
        "args": {"stage": 0, "micro_batch": -1},
    },
]


def test_draws_the_jobs_of_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": EVENTS}))
    assert read_jobs(trace) == [Job(1, "forward", 0, 3, 2.0, 0.5)]
    picture = tmp_path / "trace.png"
    assert main([str(trace), str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["", "[]", '{"traceEvents": [{}]}'])
def test_refuses_what_is_no_trace(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(text)
    assert main([str(trace), str(tmp_path / "trace.png")]) == 1
    assert "no trace of a Schedule" in capsys.readouterr().err

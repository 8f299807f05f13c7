"""What takes over a second is told at a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

# Holds the GIL to its end.
_SUM = "sum(range(150_000_000))"
_SLEEP = "time.sleep(1.3)"

_SLOW = """
import time
import torch
import mica

@mica.compile
def slow(x):
    {work}
    return x.relu()

with torch.no_grad():
    mica.compile(torch.relu)(torch.ones(3))  # Quick: nothing is told of it.
    slow(torch.ones(3))
"""


def _run_at_terminal(
    program: str, folder: Path, environment: dict[str, str]
) -> str:
    """What a program writes to stderr if that is a terminal."""
    script = folder / "script.py"
    script.write_text(program)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, script],
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    told = b""
    try:
        while part := os.read(ours, 4096):
            told += part
    except OSError:
        pass  # The last one that had it open has gone.
    os.close(ours)
    assert process.wait() == 0
    return told.decode()


def test_a_slow_capture_is_told_at_a_terminal_while_python_is_busy(tmp_path):
    told = _run_at_terminal(_SLOW.format(work=_SUM), tmp_path, {})
    assert told.startswith("\r\x1b[Kmica: capture of slow: watching the run, ")
    assert told.endswith("\r\x1b[K")  # Taken away at the end.
    assert "\n" not in told


def test_progress_can_be_turned_off(tmp_path):
    program = _SLOW.format(work=_SLEEP)
    environment = {"MICA_PROGRESS": "0"}
    assert _run_at_terminal(program, tmp_path, environment) == ""


def test_nothing_is_told_where_nobody_looks(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _SLOW.format(work=_SLEEP)],
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""


def test_a_process_forked_in_a_slow_capture_ends_by_itself(tmp_path):
    program = _SLOW.format(work=_SLEEP).replace(
        "    return x.relu()",
        "    if (child := os.fork()) == 0:\n"
        "        return x\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    return x.relu()",
    )
    told = _run_at_terminal("import os\n" + program, tmp_path, {})
    assert "watching the run" in told

"""A small part of the sweep over torch's operators."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"


def test_operators_at_other_sizes_under_transforms_and_in_place() -> None:
    command = [sys.executable, str(TOOLS / "operator_sweep.py"), "--json"]
    done = subprocess.run(
        [*command, "--every", "100"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["finds"] == []
    assert done.returncode == 0
    assert told["programs"] >= 100
    assert told["hits"] >= told["calls"] / 2


def test_a_wrong_compiler_is_found() -> None:
    program = """
import sys
import mica, operator_sweep
mica.compile = lambda fn: lambda *args: [fn(*args)]
class Nothing: hits, graphs = 0, []
mica.explain = lambda fn: Nothing()
sys.argv = ["sweep", "--json", "--every", "300", "--kind", "sizes"]
sys.exit(operator_sweep.main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=TOOLS,
        check=False,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 1
    assert told["wrong"] == told["programs"] > 0

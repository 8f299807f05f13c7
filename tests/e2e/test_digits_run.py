"""The digits net from Python to mica_train, as the quickstart's user has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MICA_BIN", ROOT / "build" / "bin"))
EPOCHS = 5

pytestmark = pytest.mark.skipif(
    not (BIN / "mica_train").exists(), reason="the tools are not built"
)


def run(program: str, folder: Path, *flags: object) -> dict[str, Any]:
    figures = folder / "figures.json"
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tools" / program),
            f"--epochs={EPOCHS}",
            f"--json={figures}",
            *map(str, flags),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(figures.read_text())
    return result


def test_the_quickstart_trains_in_python_and_without(tmp_path: Path) -> None:
    figures = run("quickstart_digits.py", tmp_path, f"--folder={tmp_path}")
    assert min(figures["accuracy"].values()) >= 0.97
    assert figures["accuracy"]["mica"] == figures["accuracy"]["mica_train"]
    assert figures["first_losses_differ_by"] < 1e-4
    picture = (tmp_path / "curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_ten_kills_change_no_bit_of_the_weights(tmp_path: Path) -> None:
    figures = run("bench_train.py", tmp_path, "--rounds=1", "--kills=10")
    assert figures["same_weights_after_kills"]
    assert figures["kills"] >= 1
    assert figures["mica_train"]["accuracy"] >= 0.97

"""The model benchmark: a small run, reasons, and the page that it makes."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tqdm")
pytest.importorskip("transformers")

import performance_page

TOOLS = Path(__file__).parent


def row(**changes: Any) -> dict[str, Any]:
    """A case that meets every bar, with changes to Mica's figures."""
    spread = {"median": 1.5, "min": 1.4, "max": 1.6}
    one = {"median": 1.0, "min": 1.0, "max": 1.0}
    mica: dict[str, Any] = {
        "ms": spread,
        "to_eager": spread,
        "cold_s": 0.1,
        "first_call_s": 0.2,
        "difference": 1e-6,
        "graphs": 1,
        "refusals": [],
        "opaque": [],
        "arena_to_live": 1.0,
        "peak_mb": 5.0,
    } | changes
    return {
        "kind": "inference",
        "model": "ResNet-50",
        "detail": "batch 1",
        "commit": "c",
        "systems": {
            "eager": {"ms": one, "to_eager": one, "cold_s": 0, "peak_mb": 6.0},
            "mica": mica,
            "openvino": {"reason": "openvino is not installed"},
        },
    }


def test_every_bar_is_checked() -> None:
    assert performance_page.missed(row()) == []
    slow = {"median": 1.3, "min": 1.0, "max": 1.5}
    for changes, bar in (
        ({"to_eager": slow}, "≥ 1.4×"),
        ({"cold_s": 1.1}, "cold ≤ 1 s"),
        ({"opaque": ["aten.foo"]}, "no op left to ATen"),
        ({"arena_to_live": 1.04}, "arena ≤ 1.03×"),
        ({"graphs": 2}, "one graph"),
    ):
        assert performance_page.missed(row(**changes)) == [bar]
    training = row(peak_mb=7.0) | {"kind": "training", "model": "digits net"}
    assert performance_page.missed(training) == ["memory ≤ eager's"]


def test_a_case_that_failed_is_shown_with_its_reason() -> None:
    case = row()
    case["systems"]["mica"] = {"reason": "ValueError: no"}
    figures = {"processor": "p", "torch": "2", "threads": 1}
    figures |= {"dtype": "float32", "rounds": 3, "cases": [case, row()]}
    page = performance_page.page(figures)
    assert "- Mica, ResNet-50 (batch 1): ValueError: no.\n" in page
    assert "- OpenVINO, all: openvino is not installed.\n" in page
    dash = "| ResNet-50 | batch 1 | 1 ms | – | no rival measured | ≥ 1.4× | "
    assert f"{dash}**no** |" in page
    assert "1.50× (1.40–1.60) | no rival measured | ≥ 1.4× | yes |" in page
    assert "| ResNet-50 | batch 1 | 0.20 s | 0.10 s |" in page


def test_each_dash_has_a_reason_and_each_row_its_best_rival() -> None:
    ahead, behind, none = row(), row(), row()
    for case, ratio in ((ahead, 1.2), (behind, 2.0)):
        case["systems"]["onnxruntime"] = {
            "ms": {"median": 1.0, "min": 1.0, "max": 1.0},
            "to_eager": {"median": ratio, "min": ratio, "max": ratio},
            "cold_s": 0.1,
        }
    none["detail"] = "batch 4"
    figures = {"processor": "p", "torch": "2", "threads": 1}
    figures |= {"dtype": "float32", "rounds": 3}
    page = performance_page.page(figures | {"cases": [ahead, behind, none]})
    assert "| 1.25×, ahead of ONNX Runtime |" in page
    assert "| 0.75×, **behind** ONNX Runtime |" in page
    assert "| no rival measured |" in page
    assert "- ONNX Runtime, ResNet-50 (batch 4): not among" in page


def test_a_dirty_tree_writes_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    import bench_models

    monkeypatch.setattr(bench_models, "commit", lambda: "abc1234-dirty")
    monkeypatch.setattr(sys, "argv", ["bench_models.py", "--write"])
    before = performance_page.PAGE.read_text()
    assert bench_models.main() == 2
    assert performance_page.PAGE.read_text() == before


@pytest.mark.filterwarnings("ignore::mica.MicaWarning")
def test_a_round_that_no_graph_served_has_no_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    import bench_models
    import mica
    import rivals

    monkeypatch.setattr(bench_models, "ROUND_S", 0.0)  # One call a round.
    sizes = itertools.count(1)

    def zeros(x: torch.Tensor) -> torch.Tensor:
        return x.relu() * 0

    def start(system: str) -> rivals.Prepared:
        if system == "eager":
            return rivals.Prepared(lambda: torch.zeros(1))
        # Another size at each call: another graph.
        fast = mica.compile(zeros, dynamic=False)
        return rivals.Prepared(
            lambda: fast(torch.zeros(1, next(sizes)))[0, :1], fast
        )

    case = bench_models.Case("inference", "sizes", "many", start)
    found = bench_models.measure(case, ["mica"], rounds=2)["mica"]
    assert "ms" not in found
    assert found["reason"] == "2 calls of the rounds unserved"


def test_the_page_has_its_marks() -> None:
    text = performance_page.PAGE.read_text()
    assert text.count(performance_page.BEGIN) == 1
    assert text.count(performance_page.END) == 1


@pytest.mark.parametrize(
    ("model", "system", "dtype"),
    [
        ("LSTM", "mica", "float32"),
        ("BERT 12x64", "mica", "bfloat16"),
        ("digits net", "mica", "bfloat16"),
        ("digits net", "openvino", "float32"),
    ],
)
def test_one_small_run(
    model: str, system: str, dtype: str, tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    command = [sys.executable, "bench_models.py", "--models", model]
    command += ["--systems", system, "--cases", "1:0", "--rounds", "2"]
    command += ["--json", str(path), "--dtype", dtype]
    done = subprocess.run(
        command,
        cwd=TOOLS,
        env=os.environ | {"PYTHONPATH": str(TOOLS.parent / "python")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(path.read_text())
    assert figures["threads"] == 1 and figures["dtype"] == dtype
    for case in figures["cases"]:
        eager = case["systems"]["eager"]
        assert eager["ms"]["median"] > 0 and eager["peak_mb"] >= 0
        found = case["systems"][system]
        if system == "mica":
            assert found["graphs"] == 1 and not found["opaque"]
            most = {"float32": 1e-4, "bfloat16": 5e-2}[dtype]
            assert found["difference"] < most and found["ms"]["median"] > 0
        else:
            assert found["reason"] == "doesn't train"

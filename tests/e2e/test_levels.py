"""Kernels for less than this machine's instructions: by MICA_SIMD, which holds
them to a level, and on an emulated processor, which has no more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MICA_BIN", ROOT / "build" / "bin")).parent
MLP = ROOT / "tests" / "golden" / "text" / "mlp.mica"

# Models, each served by a graph at its second call, and a training step.
SCRIPT = """
import copy, json
import torch
from torch import nn
import mica
from mica import _mica

def error(got, want):
    return ((got.double() - want).abs().max() / want.abs().max()).item()

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(12, 20, batch_first=True)
        self.out = nn.Linear(20, 5)
    def forward(self, x):
        return self.out(self.rnn(x)[0]).log_softmax(-1)

class Halves(nn.Module):
    def forward(self, x):
        y = x.to(torch.float16) * 0.75 + x.to(torch.bfloat16).to(torch.float16)
        return (y.float() @ y.float().mT).softmax(-1).cumsum(-1)

torch.manual_seed(0)
models = {
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(3, 20, 3, padding=1), nn.BatchNorm2d(20), nn.ReLU(),
            nn.Conv2d(20, 20, 3, padding=1, groups=20), nn.Hardswish(),
            nn.MaxPool2d(2), nn.Conv2d(20, 33, 1), nn.GELU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(33, 10),
        ),
        torch.randn(3, 3, 18, 18),
    ),
    "attention": (
        nn.TransformerEncoderLayer(36, 3, 70, batch_first=True),
        torch.randn(2, 13, 36),
    ),
    "recurrent": (Recurrent(), torch.randn(3, 7, 12)),
    "halves": (Halves(), torch.randn(2, 11, 37)),
}
errors = {}
with torch.no_grad():
    for name, (model, x) in models.items():
        model.eval()
        compiled = mica.compile(model)
        compiled(x)
        exact = model(x) if name == "halves" else copy.deepcopy(model).double()(
            x.double()
        )
        errors[name] = error(compiled(x), exact.double())
        assert mica.explain(compiled).hits == 1, mica.explain(compiled)

def losses(dtype, wrap):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(9, 30), nn.Tanh(), nn.Linear(30, 1))
    model = model.to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()
    run = wrap(step)
    return torch.stack([run(torch.ones(4, 9, dtype=dtype)) for _ in range(5)])

errors["training"] = error(
    losses(torch.float32, mica.compile), losses(torch.float64, lambda f: f)
)
print(json.dumps({"level": _mica.instruction_set(), "errors": errors}))
"""


def test_models_agree_with_eager_at_the_lowest_level(tmp_path: Path) -> None:
    script = tmp_path / "models.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "MICA_SIMD": "v1", "MICA_PLAN_CACHE": "0"},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["level"] == "x86-64-v1"
    assert max(told["errors"].values()) < 1e-5, told


def emulate(*command: object) -> subprocess.CompletedProcess[str]:
    """Runs a program of the build on a processor without SSE4 and AVX."""
    if not Path(str(command[0])).exists():
        pytest.skip("the tools are not built")
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        pytest.skip("no qemu-x86_64 was found to emulate a processor by")
    return subprocess.run(
        [qemu, "-cpu", "qemu64", *map(str, command)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_kernels_pass_on_an_emulated_processor() -> None:
    done = emulate(
        BUILD / "tests" / "kernels_tests",
        "--gtest_filter=All/*:Pointwise*:OneDnn*:Product*Form*"
        "-All/UnaryTest*:All/Winograd*",
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "/v1" in done.stdout
    assert "/v3" not in done.stdout
    passed = re.search(r"PASSED  \] (\d+) tests", done.stdout)
    assert passed is not None
    assert int(passed.group(1)) > 30


def test_a_program_runs_on_an_emulated_processor(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    x = random.standard_normal((32, 784), dtype=np.float32)
    w = random.standard_normal((784, 10), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    save_file({"fc.weight": w}, tmp_path / "w.safetensors")
    done = emulate(
        BUILD / "bin" / "mica_run",
        f"--program={MLP}",
        f"--weights={tmp_path / 'w.safetensors'}",
        f"--feed=x={tmp_path / 'x.npy'}",
        "--fetch=y",
        f"--out={tmp_path / 'out.safetensors'}",
    )
    assert done.returncode == 0, done.stderr
    wanted = np.maximum(x.astype(np.float64) @ w.astype(np.float64), 0)
    got = load_file(tmp_path / "out.safetensors")["y"]
    np.testing.assert_allclose(got, wanted, atol=1e-3)

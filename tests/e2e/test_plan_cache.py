"""Plans that are shared by content and kept on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mica
from mica import _mica

ROOT = Path(__file__).resolve().parents[2]

MODEL = """
import torch, mica
from mica import _mica
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
).eval()
fast = mica.compile(model, exact=False)
x = torch.ones(2, 8)
with torch.no_grad():
    fast(x)
    assert torch.equal(fast(x), fast(x))
    torch.testing.assert_close(fast(x), model(x))
stats = _mica.plan_stats()
print(stats["built"], stats["loaded"])
"""


def run(code: str, folder: Path | str, **more: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "MICA_CACHE_DIR": str(folder),
            "MICA_PLAN_CACHE": "1",
            **more,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def mica_cache(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mica", "cache", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_second_process_reads_what_the_first_has_planned(tmp_path):
    folder = tmp_path / "plans"
    assert run(MODEL, folder)[0] == "1 0"
    assert run(MODEL, folder)[0] == "0 1"
    assert run(MODEL, folder, MICA_PLAN_CACHE="0")[0] == "1 0"


def test_damage_is_told_once_and_mended(tmp_path):
    folder = tmp_path / "plans"
    run(MODEL, folder)
    [file] = folder.glob("*.plan")
    file.write_bytes(file.read_bytes()[:100])
    assert "damaged" in mica_cache("verify", "--folder", folder).stdout
    assert mica_cache("verify", "--folder", folder).returncode == 1
    out, err = run(MODEL, folder)
    assert out == "1 0"
    assert err.count("plan cache") == 1
    assert run(MODEL, folder)[0] == "0 1"
    assert mica_cache("verify", "--folder", folder).returncode == 0


def test_a_folder_that_others_can_write_is_refused(tmp_path):
    folder = tmp_path / "plans"
    folder.mkdir()
    folder.chmod(0o777)
    out, err = run(MODEL, folder)
    assert out == "1 0"
    assert "others can write it" in err
    assert not list(folder.iterdir())
    done = mica_cache("list", "--folder", folder)
    assert done.returncode == 1
    assert "others can write it" in done.stderr


def test_list_and_prune(tmp_path):
    folder = tmp_path / "plans"
    run(MODEL, folder)
    listed = mica_cache("list", "--folder", folder).stdout
    assert "[ok]" in listed and "1 Plans" in listed
    assert mica_cache("prune", "--folder", folder, "--max-size=64M").stdout
    assert len(list(folder.glob("*.plan"))) == 1
    mica_cache("prune", "--folder", folder)
    assert not list(folder.glob("*.plan"))
    assert mica_cache("prune", "--max-size=much").returncode == 2


def test_two_equal_modules_share_a_plan():
    def make() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Tanh())

    a, b = make().eval(), make().eval()
    fast_a, fast_b = mica.compile(a), mica.compile(b)
    x = torch.randn(3, 7)
    with torch.no_grad():
        fast_a(x)
        before = _mica.plan_stats()
        fast_b(x)
        after = _mica.plan_stats()
        assert after["shared"] == before["shared"] + 1
        torch.testing.assert_close(fast_a(x), a(x))
        torch.testing.assert_close(fast_b(x), b(x))


@pytest.mark.parametrize("first", [True, False])
def test_an_error_names_the_line_of_the_callable_at_hand(first):
    text = """program @look(%i: i64[1]) {{
  %w = variable "{0}.table" : f32[2,2]
  %e = aten.embedding(%w, %i) : f32[1,2] @ "{0}.py":8
  return %e
}}
"""
    names = ["one", "two"] if first else ["two", "one"]
    executor = mica.Executor("cpu")
    for name in names:
        program = mica.Program.parse(text.format(name))
        program.tensors[f"{name}.table"] = torch.ones(2, 2)
        with pytest.raises(ValueError, match=f"{name}.py:8"):
            executor.run(program, feed={"i": torch.tensor([9])})

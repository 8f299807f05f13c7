"""The command `mica`: doctor, explain, run, cache, and its way to the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import mica
from mica.cli import main
from mica.commands import doctor

ROOT = Path(__file__).resolve().parents[2]


def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mica", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


# doctor


def test_doctor_tells_machine_versions_caches_and_passes(tmp_path):
    done = call(
        "doctor",
        MICA_PLAN_CACHE="1",
        MICA_CACHE_DIR=str(tmp_path),
        MICA_NUM_THREADS="1",
        MICA_SIMD="v1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = {line[:20].strip(): line[20:] for line in done.stdout.splitlines()}
    assert told["torch"] == torch.__version__
    assert told["python"].startswith(sys.version.split()[0])
    assert told["of one op"] == "1"
    assert told["MICA_NUM_THREADS"] == "1"
    assert "for this process" in told["cores"]
    assert told["kernels for"] == "x86-64-v1 (SSE2), with MICA_SIMD=v1"
    assert str(tmp_path) in told["Plans"]
    assert " for v1" in told["compiled by"] or "no lib" in told["compiled by"]
    for name in ("inference", "training step"):
        assert told[name].startswith("passed: ")
    assert done.stdout.endswith("Mica works here\n")


def test_doctor_fails_where_results_differ(monkeypatch, capsys):
    pairs = [(torch.ones(2), torch.zeros(2) + 1.1)]

    def broken() -> str:
        return doctor._judge(mica.compile(torch.relu), pairs, hits=0)

    monkeypatch.setattr(doctor, "_check_inference", broken)
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "FAILED: RuntimeError: results differ from eager's" in told
    assert "Mica does not work here" in told


def test_doctor_fails_where_nothing_is_served(capsys):
    done = call("doctor", MICA_DISABLE="1")
    assert done.returncode == 1
    assert "no graph served it" in done.stdout


# explain

SCRIPT = """
import sys
import torch
import mica

@mica.compile
def double(x):
    return x.relu() * 2

def main():
    local = mica.compile(torch.nn.Linear(3, 3))
    with torch.no_grad():
        for _ in range(3):
            double(torch.ones(2))
            local(torch.ones(2, 3))
    print("arguments", *sys.argv[1:])

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return file


def test_explain_runs_a_script_and_tells_of_all_that_it_compiled(script):
    done = call("explain", str(script), "a", "--b")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "arguments a --b"
    assert lines[1] == "double: one graph"
    assert "Linear: one graph" in lines
    assert sum("2 hits, 1 watched" in line for line in lines) == 2


def test_explain_gives_a_section_in_a_file_and_the_scripts_status(script):
    script.write_text(SCRIPT + "    sys.exit(3)\n")
    out = script.with_name("told.txt")
    done = call(
        "explain", "--details", "guards", "--out", str(out), str(script)
    )
    assert done.returncode == 3
    assert done.stdout == "arguments\n"
    assert "x is f32[2]" in out.read_text()


def test_explain_tells_of_a_script_that_raises(script):
    script.write_text(SCRIPT + "    raise KeyError('gone')\n")
    done = call("explain", str(script))
    assert done.returncode == 1
    assert "KeyError: 'gone'" in done.stderr
    assert "double: one graph" in done.stdout


def test_explain_runs_a_module_by_name(script):
    done = subprocess.run(
        [sys.executable, "-m", "mica", "explain", "-m", "script", "a"],
        capture_output=True,
        text=True,
        cwd=script.parent,
    )
    assert done.stdout.startswith("arguments a\ndouble: one graph")


def test_explain_names_a_script_that_is_missing(capsys):
    assert main(["explain", "/nowhere/script.py"]) == 1
    assert "there is no /nowhere/script.py" in capsys.readouterr().err


# run

PROGRAM = """program @count(%by: f32[2]) {
  %0 = variable "total" : f32[2]
  %1 = aten.add.Tensor(%0, %by) : f32[2]
  update "total" = %1
  return %1
}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    st = pytest.importorskip("safetensors.numpy")
    (tmp_path / "count.mica").write_text(PROGRAM)
    np.save(tmp_path / "by.npy", np.array([1, 2], np.float32))
    total = {"total": np.array([10, 20], np.float32)}
    st.save_file(total, tmp_path / "0.st")
    return tmp_path


def test_run_computes_writes_results_and_weights(files, capsys):
    status = main(
        [
            "run",
            str(files / "count.mica"),
            f"--weights={files}/0.st",
            f"--feed=by={files}/by.npy",
            f"--out={files}/out.st",
            f"--out-dir={files}/out",
            f"--out-weights={files}/1.st",
        ]
    )
    assert status == 0
    told = capsys.readouterr().out
    assert told == "1: f32[2] min=11 mean=16.5 max=22\n"
    from safetensors.numpy import load_file

    for found in (
        np.load(files / "out" / "1.npy"),
        load_file(files / "out.st")["1"],
        load_file(files / "1.st")["total"],
    ):
        np.testing.assert_array_equal(found, [11, 22])


def test_run_does_what_mica_run_does(files, capsys):
    tool = ROOT / "build" / "bin" / "mica_run"
    if not tool.exists():
        pytest.skip("the tools are not built")
    given = [f"--weights={files}/0.st", f"--feed=by={files}/by.npy"]
    program = str(files / "count.mica")
    done = subprocess.run(
        [tool, f"--program={program}", *given],
        check=True,
        capture_output=True,
        text=True,
    )
    assert main(["run", program, *given]) == 0
    assert capsys.readouterr().out == done.stdout


def test_run_takes_an_exported_folder(tmp_path, capsys):
    model = torch.nn.Linear(3, 2).eval()
    x = torch.randn(4, 3)
    mica.export(model, (x,), tmp_path / "model")
    np.save(tmp_path / "x.npy", x.numpy())
    program = mica.load(tmp_path / "model").program
    name = program.inputs[0][0]
    status = main(
        [
            "run",
            str(tmp_path / "model"),
            f"--feed={name}={tmp_path}/x.npy",
            f"--out-dir={tmp_path}/out",
        ]
    )
    assert status == 0
    found = np.load(tmp_path / "out" / f"{program.outputs[0][0]}.npy")
    np.testing.assert_allclose(found, model(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("nowhere.mica", ["nowhere.mica"]),
        ('variable "total" has no value', ["{}/count.mica"]),
        (
            "wants NAME=FILE",
            ["{}/count.mica", "--weights={}/0.st", "--feed=by"],
        ),
        (
            "by is given twice",
            [
                "{}/count.mica",
                "--weights={}/0.st",
                "--feed=by={}/by.npy",
                "--feed=by={}/by.npy",
            ],
        ),
        ("by", ["{}/count.mica", "--weights={}/0.st"]),
    ],
)
def test_run_names_what_is_wrong(files, capsys, message, words):
    assert main(["run", *(word.format(files) for word in words)]) == 1
    assert message in capsys.readouterr().err


# On the PATH


def link(home: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Runs link_command of tools/lib/setup.sh in a tree of its own."""
    tree = home / "tree"
    (tree / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    python = tree / ".venv" / "bin" / "python"
    if not python.exists():
        python.symlink_to(sys.executable)
    return subprocess.run(
        ["bash", "-ec", f"source {ROOT}/tools/lib/setup.sh; link_command"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tree,
        env={"HOME": str(home), "PATH": f"{path}:/usr/bin:/bin"},
    )


def test_the_command_is_linked_once_into_a_folder_of_the_path(tmp_path):
    local = tmp_path / ".local" / "bin"
    done = link(tmp_path, str(local))
    script = tmp_path / "tree" / ".venv" / "bin" / "mica"
    assert f"{local}/mica, a link to {script}" in done.stdout
    assert (local / "mica").resolve() == script
    assert os.access(script, os.X_OK)
    assert link(tmp_path, str(local)).stdout == ""


def test_another_command_of_that_name_is_left_alone(tmp_path):
    local = tmp_path / ".local" / "bin"
    local.mkdir(parents=True)
    (local / "mica").write_text("another")
    assert "is something else" in link(tmp_path, str(local)).stdout
    assert (local / "mica").read_text() == "another"


def test_without_a_folder_the_command_is_named(tmp_path):
    done = link(tmp_path, "/nowhere")
    assert "no folder of the PATH may be written" in done.stdout

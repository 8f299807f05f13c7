"""What `cmake --install` gives to others: a library for C and C++.

The examples are built against an installed tree, outside of the source tree.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import mica

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MICA_BUILD", ROOT / "build"))

pytestmark = pytest.mark.skipif(
    not (BUILD / "lib" / "libmica.so").exists(),
    reason="the library isn't built",
)


def call(
    *command: object, stdin: str = "", check: bool = True
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installed tree, moved after it was installed."""
    folder = tmp_path_factory.mktemp("sdk")
    call(
        *("cmake", "--install", BUILD, "--component", "sdk"),
        *("--prefix", folder / "first"),
    )
    return (folder / "first").rename(folder / "moved")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    """An exported folder, and what it was made of."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    folder = tmp_path_factory.mktemp("exported") / "model"
    with torch.no_grad():
        mica.export(module, (torch.randn(1, 4),), folder)
    return folder, module


def build(language: str, installed: Path, folder: Path) -> Path:
    """The binary of an example, made of copies of its files."""
    source = folder / "source"
    shutil.copytree(ROOT / "examples" / language, source)
    call(
        *("cmake", "-S", source, "-B", folder / "built"),
        f"-DCMAKE_PREFIX_PATH={installed}",
        "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -pedantic",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -pedantic",
    )
    call("cmake", "--build", folder / "built")
    return folder / "built" / "serve"


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_examples_serve_a_model(language, installed, model, tmp_path):
    serve = build(language, installed, tmp_path)
    folder, module = model
    rows = torch.randn(50, 4)
    text = "".join(f"{' '.join(map(str, row.tolist()))}\n" for row in rows)
    got = [
        [float(number) for number in line.split()]
        for line in call(serve, folder, stdin=text).stdout.splitlines()
    ]
    with torch.no_grad():
        np.testing.assert_allclose(got, module(rows), atol=1e-4)
    failed = call(serve, tmp_path / "nothing", check=False)
    assert failed.returncode == 1
    assert "nothing" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_the_library_shows_its_api_and_nothing_else(installed):
    library = installed / "lib" / "libmica.so"
    shown = {
        line.split()[-1].partition("@")[0]
        for line in call("nm", "-D", "--defined-only", library).stdout.split(
            "\n"
        )
        if line
    }
    header = (installed / "include" / "mica" / "mica.h").read_text()
    declared = set(re.findall(r"\bMICA_API [^;(]*?(mica_\w+)\(", header))
    assert len(declared) > 20
    assert {name for name in shown if not name.startswith("MICA_")} == declared


def test_the_library_has_what_it_needs_beside_it(installed):
    linked = call("ldd", installed / "lib" / "libmica.so").stdout
    assert f"{installed}/lib/libdnnl.so" in linked
    assert "not found" not in linked


def test_an_installed_mica_run_runs(installed, model, tmp_path):
    folder, module = model
    x = torch.randn(1, 4)
    np.save(tmp_path / "x.npy", x.numpy())
    done = call(
        installed / "bin" / "mica_run",
        *(f"--program={folder}", f"--feed=input={tmp_path / 'x.npy'}"),
        *("--frozen", "--repeat=20", "--callers=3"),
        f"--out_dir={tmp_path}",
    )
    result, times, memory = done.stdout.splitlines()
    with torch.no_grad():
        got = np.load(tmp_path / f"{result.split(':')[0]}.npy")
        np.testing.assert_allclose(got, module(x), atol=1e-5)
    assert re.fullmatch(
        r"time: median [\d.]+ us of 60 runs \([\d.]+ to [\d.]+\), "
        r"99 % within [\d.]+ us, [\d.]+ runs/s",
        times,
    )
    assert re.fullmatch(r"memory: [123] arenas of \d+ bytes in all", memory)

"""What `import mica` says where something isn't what it was built for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import torch

from mica import environment

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"

# The import as a user makes it; what it raises, and nothing else.
TRY = """
try:
    import mica
except ImportError as error:
    print(error)
"""


def told(
    code: str = TRY,
    path: Path | None = None,
    python: str = sys.executable,
    **variables: str,
) -> str:
    """What a process prints that has `path` before the package."""
    folders = [str(PACKAGE)] if path is None else [str(path), str(PACKAGE)]
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(folders), **variables},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") <= 1
    return done.stdout.strip()


def fake_torch(folder: Path, version: str) -> Path:
    package = folder / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
    return folder


def test_the_right_environment_says_nothing():
    assert told() == ""


@pytest.mark.parametrize("version", ["2.12.1", "2.14.0+cpu", "1.13.1", "2.1.3"])
def test_another_torch_is_refused(version, tmp_path):
    line = told(path=fake_torch(tmp_path, version))
    assert line == (
        f"Mica needs torch 2.13, and this is {version} in {tmp_path}/torch; "
        "pip install 'torch>=2.13,<2.14'"
    )


def test_a_missing_torch_is_told():
    line = told(
        "import sys\n"
        "sys.path = [p for p in sys.path if 'site-packages' not in p]" + TRY
    )
    assert line == (
        "Mica needs torch 2.13, and there is none here; "
        "pip install 'torch>=2.13,<2.14'"
    )


def test_what_torch_itself_lacks_stays_torchs_error(tmp_path):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("import no_such_module\n")
    assert told(path=tmp_path) == "No module named 'no_such_module'"


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_another_python_is_refused(version):
    major, minor = version.split(".")
    line = told(f"import sys; sys.version_info = ({major}, {minor}, 1){TRY}")
    assert line == (
        "Mica needs CPython 3.11, 3.12 or 3.13 on x86-64 Linux, and this "
        f"is cpython {version} on x86_64 linux; make an environment of one: "
        "python3.11 -m venv"
    )


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_another_interpreter_looks_for_its_own_torch(version):
    # As the build found it.
    file = ROOT / "build" / "interpreters" / version / "interpreter.txt"
    if not file.exists():
        pytest.skip(f"no CPython {version} with headers was found")
    line = told(python=file.read_text().strip())
    assert line.startswith("Mica needs torch 2.13, and ")


def test_another_machine_is_refused():
    line = told(
        "import os; real = os.uname()\n"
        "os.uname = lambda: os.uname_result((*real[:4], 'aarch64'))" + TRY
    )
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"this is cpython {version} on aarch64 linux" in line


def test_a_missing_onednn_is_told(monkeypatch):
    monkeypatch.setattr(environment, "_onednn_places", lambda: ["/none/x.so"])
    monkeypatch.setattr(environment, "_onednn_listed", lambda: [])
    with pytest.raises(ImportError) as caught:
        environment.check()
    assert str(caught.value) == (
        "Mica needs oneDNN's libdnnl.so.3, and there is none in "
        f"{sys.prefix}/lib; pip install onednn-cpu-gomp==2023.2.0"
    )


def test_onednn_is_found_where_its_package_lists_it(monkeypatch):
    monkeypatch.setattr(environment, "_onednn_places", lambda: [])
    environment.check()


def test_a_damaged_onednn_is_told(tmp_path, monkeypatch):
    library = tmp_path / environment.ONEDNN
    library.write_bytes(b"not a library")
    monkeypatch.setattr(environment, "_onednn_places", lambda: [str(library)])
    with pytest.raises(ImportError) as caught:
        environment.check()
    assert "and it can't be loaded: " in str(caught.value)
    assert str(library) in str(caught.value)
    assert "\n" not in str(caught.value)


def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    assert found, "no C compiler: the build needs one, too"
    return found


def other_runtime(folder: Path) -> Path:
    """A library that answers as another OpenMP runtime would."""
    source, library = folder / "omp.c", folder / "libomp.so"
    source.write_text("void GOMP_parallel(void) {}\n")
    subprocess.run(
        [compiler(), "-shared", "-fPIC", "-o", library, source], check=True
    )
    return library


def test_another_openmp_runtime_for_all_is_refused(tmp_path):
    library = other_runtime(tmp_path)
    own = Path(torch.__file__).parent / "lib" / "libgomp.so.1"
    line = told(LD_PRELOAD=str(library))
    assert line == (
        f"Mica needs one OpenMP runtime, torch's {own.resolve()}, and "
        f"{library} answers in its place; start Python without it "
        f"(LD_PRELOAD is {library})"
    )


def test_a_runtime_that_another_package_has_for_itself_is_fine(tmp_path):
    library = other_runtime(tmp_path)
    assert told(f"import ctypes; ctypes.CDLL({str(library)!r}){TRY}") == ""


def test_an_extension_that_is_not_there_is_told(tmp_path):
    shutil.copytree(
        PACKAGE / "mica", tmp_path / "mica", ignore=lambda _, names: [
            name for name in names if name.endswith((".so", "__pycache__"))
        ],
    )  # fmt: skip
    line = told(path=tmp_path)
    assert line == (
        f"Mica's extension _mica can't be loaded: it isn't in {tmp_path}/mica; "
        "install Mica's wheel, or build it by tools/quickstart.sh"
    )


def test_a_damaged_extension_is_told_in_one_line(tmp_path):
    shutil.copytree(
        PACKAGE / "mica", tmp_path / "mica", ignore=lambda _, names: [
            name for name in names if name.endswith((".so", "__pycache__"))
        ],
    )  # fmt: skip
    name = "_mica" + sysconfig.get_config_var("EXT_SUFFIX")
    (tmp_path / "mica" / name).write_bytes(b"\x7fELF")
    line = told(path=tmp_path)
    assert line.startswith(
        f"Mica's extension _mica can't be loaded: {tmp_path}"
    )
    assert "file too short" in line


def test_what_is_checked_is_what_the_package_says_of_itself():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    torch_range = "torch>={0}.{1},<{0}.{2}".format(
        *environment.TORCH, environment.TORCH[1] + 1
    )
    assert torch_range in project["dependencies"]
    assert torch_range in environment.GET_TORCH
    (onednn,) = re.findall(r"onednn-\S+", environment.GET_ONEDNN)
    assert onednn in project["dependencies"]
    first, last = environment.PYTHONS[0], environment.PYTHONS[-1]
    assert project["requires-python"] == ">={}.{},<{}.{}".format(
        *first, last[0], last[1] + 1
    )

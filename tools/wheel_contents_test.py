"""What a wheel must not have is found."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import wheel_contents

VERSION = "0.1.0"
FOLDER = f"mica-{VERSION}.dist-info"
GOOD = [
    *wheel_contents.WANTED,
    *(
        text.format(version=VERSION).partition(": ")[2]
        for text in wheel_contents.LICENSES
    ),
    "mica/programs/program.py",
    f"{FOLDER}/METADATA",
]
METADATA = """\
Metadata-Version: 2.4
Name: mica
Version: 0.1.0
Requires-Python: <3.13, >=3.11
Requires-Dist: torch<2.14,>=2.13
Requires-Dist: numpy
Requires-Dist: onednn-cpu-gomp==2023.2.0
"""
COMMAND = "[console_scripts]\nmica = mica.cli:main\n"


def test_what_a_wheel_has_is_fine() -> None:
    assert [*wheel_contents.wrong_files(GOOD, VERSION)] == []


@pytest.mark.parametrize("name", GOOD[:-2])
def test_what_is_missing_is_told(name: str) -> None:
    names = [other for other in GOOD if other != name]
    assert [*wheel_contents.wrong_files(names, VERSION)] == [
        f"there is no {name}"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "mica/_mica.cpython-311-x86_64-linux-gnu.so.tmp",
        "mica/compile_test.py",
        "mica/test_compile.py",
        "mica/bridge/module.cc",
        "mica/bridge/status.h",
        "mica/__pycache__/cli.cpython-311.pyc",
        "mica/notes.txt",
    ],
)
def test_what_does_not_belong_in_it_is_told(name: str) -> None:
    assert [*wheel_contents.wrong_files([*GOOD, name], VERSION)] == [
        f"{name} doesn't belong in a wheel"
    ]


def test_a_file_beside_the_package_is_told() -> None:
    assert [*wheel_contents.wrong_files([*GOOD, "tests/a.py"], VERSION)] == [
        "tests/a.py is outside of the package"
    ]


def wrong(folder: Path, metadata: str, command: str = COMMAND) -> list[str]:
    path = folder / f"mica-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{FOLDER}/METADATA", metadata)
        wheel.writestr(f"{FOLDER}/entry_points.txt", command)
    with zipfile.ZipFile(path) as wheel:
        return [*wheel_contents.wrong_metadata(wheel, FOLDER)]


def test_words_that_are_pyprojects_are_fine(tmp_path: Path) -> None:
    assert wrong(tmp_path, METADATA) == []


@pytest.mark.parametrize(
    ("there", "instead", "told"),
    [
        ("torch<2.14,>=2.13", "torch>=2.13", "torch>=2.13,<2.14"),
        ("Requires-Dist: numpy\n", "", "numpy"),
        ("==2023.2.0", ">=2023", "onednn-cpu-gomp==2023.2.0"),
    ],
)
def test_another_dependency_is_told(
    there: str, instead: str, told: str, tmp_path: Path
) -> None:
    text = METADATA.replace(there, instead)
    assert wrong(tmp_path, text) == [f"it doesn't say that it needs {told}"]


def test_another_python_is_told(tmp_path: Path) -> None:
    text = METADATA.replace("<3.13, >=3.11", ">=3.11")
    assert wrong(tmp_path, text) == ["it says that it needs Python >=3.11"]


def test_a_missing_command_is_told(tmp_path: Path) -> None:
    assert wrong(tmp_path, METADATA, "") == [
        "it doesn't bring the command mica"
    ]

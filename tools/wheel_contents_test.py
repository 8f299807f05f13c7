"""What a wheel must not have is found."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import wheel_contents

VERSION = "0.1.0"
EXTENSION = wheel_contents.EXTENSION.format(python="311")
FOLDER = f"mica-{VERSION}.dist-info"
GOOD = [
    EXTENSION,
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
Requires-Python: <3.14, >=3.11
Requires-Dist: torch<2.14,>=2.13
Requires-Dist: numpy
Requires-Dist: onednn-cpu-gomp==2023.2.0
"""
COMMAND = "[console_scripts]\nmica = mica.cli:main\n"


def wrong_files(names: list[str]) -> list[str]:
    return [*wheel_contents.wrong_files(names, VERSION, EXTENSION)]


def test_what_a_wheel_has_is_fine() -> None:
    assert wrong_files(GOOD) == []


@pytest.mark.parametrize("name", GOOD[:-2])
def test_what_is_missing_is_told(name: str) -> None:
    names = [other for other in GOOD if other != name]
    assert wrong_files(names) == [f"there is no {name}"]


@pytest.mark.parametrize(
    "name",
    [
        "mica/_mica.cpython-311-x86_64-linux-gnu.so.tmp",
        "mica/_mica.cpython-312-x86_64-linux-gnu.so",
        "mica/compile_test.py",
        "mica/test_compile.py",
        "mica/bridge/module.cc",
        "mica/bridge/status.h",
        "mica/__pycache__/cli.cpython-311.pyc",
        "mica/notes.txt",
    ],
)
def test_what_does_not_belong_in_it_is_told(name: str) -> None:
    assert wrong_files([*GOOD, name]) == [f"{name} doesn't belong in a wheel"]


def test_a_file_beside_the_package_is_told() -> None:
    assert wrong_files([*GOOD, "tests/a.py"]) == [
        "tests/a.py is outside of the package"
    ]


def wrong(folder: Path, metadata: str, command: str = COMMAND) -> list[str]:
    path = folder / f"mica-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{FOLDER}/METADATA", metadata)
        wheel.writestr(f"{FOLDER}/entry_points.txt", command)
    with zipfile.ZipFile(path) as wheel:
        return [*wheel_contents.wrong_metadata(wheel, FOLDER)]


def wrong_tags(folder: Path, *tags: str) -> list[str]:
    path = folder / f"mica-{VERSION}-cp312-cp312-a_1.b_2.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            f"{FOLDER}/WHEEL", "".join(f"Tag: {tag}\n" for tag in tags)
        )
    with zipfile.ZipFile(path) as wheel:
        return [*wheel_contents.wrong_tags(wheel, FOLDER, path.name)]


def test_tags_are_those_of_the_name(tmp_path: Path) -> None:
    good = ("cp312-cp312-a_1", "cp312-cp312-b_2")
    assert wrong_tags(tmp_path, *good) == []
    assert wrong_tags(tmp_path, "cp311-cp311-a_1", good[1]) == [
        "it has the tags cp311-cp311-a_1, cp312-cp312-b_2"
    ]


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
    text = METADATA.replace("<3.14, >=3.11", ">=3.11")
    assert wrong(tmp_path, text) == ["it says that it needs Python >=3.11"]


def test_a_missing_command_is_told(tmp_path: Path) -> None:
    assert wrong(tmp_path, METADATA, "") == [
        "it doesn't bring the command mica"
    ]

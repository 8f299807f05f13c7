"""The interpreter's side of capture on each version of CPython.

What torch isn't needed for is built once a version (CMake finds the
interpreters) and runs under it, outside of pytest: what the stream tells of
the programs in testing/programs.py, and the checks in testing/*_checks.py.
testing/events.want has the former; where a version's events are others, a
section of its own has them, with the reason.

    MICA_UPDATE_EVENTS=1 .venv/bin/python -m pytest python/interpreter

writes that file anew; a person reads the diff. MICA_BUILD names the folder of
another build than the release one.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
_BUILD = (
    _HERE.parent.parent / os.environ.get("MICA_BUILD", "build") / "interpreters"
)
_WANT = _HERE / "testing" / "events.want"
_VERSIONS = ("3.11", "3.12", "3.13")

# Why a version tells other events of a program than the one before it.
_REASONS = {
    (
        "comprehensions",
        "3.12",
    ): "comprehensions run in the function's own frame",
    ("an_error", "3.12"): "comprehensions run in the function's own frame",
    ("coroutines", "3.12"): "comprehensions run in the function's own frame",
    ("supers", "3.12"): "super().x is one instruction, which makes no super",
    ("type_parameters", "3.12"): "type parameters are new",
    ("type_parameters", "3.13"): "a class's body also notes its first line",
}


# Opcodes that no compiler makes.
_INTERNAL = {
    "CACHE",
    "ENTER_EXECUTOR",
    "EXIT_INIT_CHECK",
    "INTERPRETER_EXIT",
    "RESERVED",
}


@functools.cache
def report(version: str) -> dict[str, Any]:
    """What testing/run.py says on a version; skips if that isn't there."""
    told = _BUILD / version / "interpreter.txt"
    if not told.exists():
        if version == "3.11":
            pytest.fail(f"{told} is missing: was mica_tests built?")
        pytest.skip(
            f"no CPython {version} with headers was found when the tree was "
            f"configured; MICA_PYTHON_{version.replace('.', '')} names one"
        )
    command = [
        told.read_text().strip(),
        "-IB",
        "-Xfaulthandler",
        str(_HERE / "testing" / "run.py"),
        str(_BUILD / version),
    ]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, f"{command}:\n{ran.stdout}\n{ran.stderr}"
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def wanted() -> dict[tuple[str, str], list[str]]:
    """The sections of events.want, by program and version."""
    sections: dict[tuple[str, str], list[str]] = {}
    lines: list[str] = []
    for line in _WANT.read_text().splitlines():
        if head := re.fullmatch(r"== (\w+)(?: from (3\.\d+) on: (.*))?", line):
            lines = []
            key = (head[1], head[2] or _VERSIONS[0])
            assert head[3] == _REASONS.get(key), line
            sections[key] = lines
        elif line:
            lines.append(line)
    return sections


def wanted_of(name: str, version: str) -> list[str] | None:
    """The section that holds for a version: the newest that isn't newer."""
    sections = wanted()
    for older in reversed(_VERSIONS[: _VERSIONS.index(version) + 1]):
        if (name, older) in sections:
            return sections[name, older]
    return None


def update() -> None:
    """Writes events.want by what the versions at hand tell."""
    programs = {v: report(v)["programs"] for v in _VERSIONS}
    text = []
    for name in programs[_VERSIONS[-1]]:
        before = None
        for version in _VERSIONS:
            lines = programs[version].get(name)
            if lines is None or lines == before:
                continue
            before = lines
            head = f"== {name}"
            if version != _VERSIONS[0]:
                head += f" from {version} on: {_REASONS[name, version]}"
            text += [head, *lines, ""]
    _WANT.write_text("\n".join(text))


if os.environ.get("MICA_UPDATE_EVENTS"):
    update()


@pytest.mark.parametrize("version", _VERSIONS)
def test_the_stream_tells_what_programs_do(version: str) -> None:
    programs = report(version)["programs"]
    for name, lines in programs.items():
        assert lines == wanted_of(name, version), name
    missing = {
        name
        for name, first in wanted()
        if _VERSIONS.index(first) <= _VERSIONS.index(version)
    } - set(programs)
    assert not missing


@pytest.mark.parametrize("version", _VERSIONS)
def test_programs_have_every_opcode(version: str) -> None:
    assert not set(report(version)["opcodes"]) - _INTERNAL


@pytest.mark.parametrize("version", _VERSIONS)
def test_insides_of_the_interpreter_are_as_told(version: str) -> None:
    failures = report(version)["checks"]
    assert len(failures) >= 30
    assert not (bad := {k: v for k, v in failures.items() if v}), "\n".join(
        f"{name}: {trace}" for name, trace in bad.items()
    )


def test_the_package_runs_on_the_first_of_them() -> None:
    assert _VERSIONS[0] == f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_versions_differ_only_where_there_is_a_reason() -> None:
    sections = wanted()
    assert {key for key in sections if key[1] != _VERSIONS[0]} == set(_REASONS)

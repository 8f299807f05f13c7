#!/usr/bin/env python3
"""Holds a wheel to what it promises, without installing it.

Looks at which files it has, what it says of itself (against pyproject.toml and
the checks of `import mica`), and what its extension asks of the dynamic linker.
Prints one line for each thing that is wrong, and exits with 1 if there is any.
"""

from __future__ import annotations

import argparse
import email.parser
import io
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = "mica/_mica.cpython-{python}-x86_64-linux-gnu.so"
WANTED = ("mica/__init__.py", "mica/_mica.pyi", "mica/py.typed")
# Of what is linked in, too.
LICENSES = (
    "abseil: mica/licenses/libabsl-dev.txt",
    "glog: mica/licenses/libgoogle-glog-dev.txt",
    "gflags: mica/licenses/libgflags-dev.txt",
    "libxsmm: mica/licenses/libxsmm-dev.txt",
    "nanobind: mica/licenses/nanobind.txt",
    "Mica: mica-{version}.dist-info/licenses/LICENSE",
)
ALLOWED = re.compile(
    r"\.(py|pyi|typed)$|^mica/licenses/[\w-]+\.txt$|/_mica[^/]*\.so$"
)
UNWANTED = re.compile(r"(_test\.py|/test_[^/]*\.py|\.tmp|\.cc|\.h|\.cu|\.pyc)$")
# torch's and what torch loads, oneDNN's, and the system's that any Python has.
LIBRARIES = {
    "libc10.so",
    "libdnnl.so.3",
    "libgomp.so.1",
    "libtorch.so",
    "libtorch_cpu.so",
    "libtorch_python.so",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
    "libstdc++.so.6",
}
RUNPATH = "$ORIGIN/../torch/lib:$ORIGIN/../../.."


def wrong_files(
    names: list[str], version: str, extension: str
) -> Iterator[str]:
    """Says which files are missing and which shouldn't be there."""
    licenses = [text.format(version=version) for text in LICENSES]
    parts = [text.partition(": ")[2] for text in licenses]
    for name in (extension, *WANTED, *parts):
        if name not in names:
            yield f"there is no {name}"
    for name in names:
        is_own = name.startswith("mica/")
        is_other = name.endswith(".so") and name != extension
        is_unknown = is_own and not ALLOWED.search(name)
        if UNWANTED.search(name) or is_other or is_unknown:
            yield f"{name} doesn't belong in a wheel"
        if not name.startswith(("mica/", f"mica-{version}.dist-info/")):
            yield f"{name} is outside of the package"


def wrong_metadata(wheel: zipfile.ZipFile, folder: str) -> Iterator[str]:
    """Says where the wheel's words differ from pyproject.toml's."""
    text = wheel.read(f"{folder}/METADATA").decode()
    told = email.parser.Parser().parsestr(text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # The order of bounds and blanks around them are the backend's.
    here = {
        re.sub(r"\s", "", line) for line in told.get_all("Requires-Dist", [])
    }
    for requirement in project["dependencies"]:
        name = re.split(r"[<>=]", requirement)[0]
        bounds = {part for part in requirement[len(name) :].split(",") if part}
        if not any(
            line.startswith(name)
            and set(line[len(name) :].split(",")) - {""} == bounds
            for line in here
        ):
            yield f"it doesn't say that it needs {requirement}"
    python = set(project["requires-python"].split(","))
    if set(re.sub(r"\s", "", told["Requires-Python"]).split(",")) != python:
        yield f"it says that it needs Python {told['Requires-Python']}"
    if "mica=mica.cli:main" not in re.sub(
        " ", "", wheel.read(f"{folder}/entry_points.txt").decode()
    ):
        yield "it doesn't bring the command mica"


def wrong_tags(wheel: zipfile.ZipFile, folder: str, name: str) -> Iterator[str]:
    """Says if the wheel is for another Python than its name tells."""
    told = email.parser.Parser().parsestr(
        wheel.read(f"{folder}/WHEEL").decode()
    )
    python, abi, platforms = name.removesuffix(".whl").split("-")[2:]
    wanted = {f"{python}-{abi}-{part}" for part in platforms.split(".")}
    if set(told.get_all("Tag", [])) != wanted:
        yield f"it has the tags {', '.join(told.get_all('Tag', []))}"


def wrong_extension(data: bytes) -> Iterator[str]:
    """Says what the extension has or asks for that it shouldn't."""
    # Late: of requirements-wheel.txt, as what else is here isn't.
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    file = ELFFile(io.BytesIO(data))
    dynamic = file.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    for tag in dynamic.iter_tags():
        if tag.entry.d_tag == "DT_NEEDED" and tag.needed not in LIBRARIES:
            yield f"the extension needs {tag.needed}"
        if tag.entry.d_tag == "DT_RUNPATH" and tag.runpath != RUNPATH:
            yield f"the extension looks for libraries in {tag.runpath}"
    symbols = file.get_section_by_name(".dynsym")
    assert isinstance(symbols, SymbolTableSection)
    shown = sorted(
        symbol.name
        for symbol in symbols.iter_symbols()
        if symbol.entry.st_shndx != "SHN_UNDEF"
    )
    if shown != ["PyInit__mica"]:
        yield f"the extension shows {', '.join(shown[:5]) or 'nothing'}"
    for name in (".debug_info", ".symtab"):
        if file.get_section_by_name(name):
            yield f"the extension isn't stripped: it has {name}"


def main() -> int:
    """Checks the wheel; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("wheel", type=Path)
    path: Path = parser.parse_args().wheel
    version, tag = path.name.split("-")[1:3]
    extension = EXTENSION.format(python=tag.removeprefix("cp"))
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if not name.endswith("/")]
        wrong = [*wrong_files(names, version, extension)]
        wrong += wrong_metadata(wheel, f"mica-{version}.dist-info")
        wrong += wrong_tags(wheel, f"mica-{version}.dist-info", path.name)
        if extension in names:
            wrong += wrong_extension(wheel.read(extension))
    for line in wrong:
        print(f"{path.name}: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""What has to be here before the extension is loaded.

The extension follows CPython's frames and torch's dispatcher, whose layouts
belong to one version each, calls oneDNN's library and shares torch's threads.
Where one of them is another, a process would crash, sooner or later. So the
package looks first, and raises an ImportError whose one line says what is
here, what is wanted and how to get it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import NoReturn

# As pyproject.toml has them.
PYTHONS = ((3, 11), (3, 12), (3, 13))
TORCH = (2, 13)
GET_TORCH = "pip install 'torch>=2.13,<2.14'"
ONEDNN = "libdnnl.so.3"
GET_ONEDNN = "pip install onednn-cpu-gomp==2023.2.0"


def check() -> None:
    """Looks at the interpreter, and at what torch brings.

    Imports torch, whose libraries the extension uses.

    Raises:
      ImportError: One of them isn't what the extension is built for.
    """
    _check_python()
    folder = _check_torch()
    _load_onednn()
    _check_openmp(os.path.join(folder, "lib", "libtorch_cpu.so"))


def load_extension() -> None:
    """Imports `mica._mica`, after `check`.

    Raises:
      ImportError: It isn't there, or the dynamic linker refuses it.
    """
    try:
        from mica import _mica  # noqa: F401
    except ImportError as error:
        reason = " ".join(str(error).split())
        if "circular import" in reason or "No module named" in reason:
            reason = "it isn't in " + os.path.dirname(__file__)
        _fail(
            f"Mica's extension _mica can't be loaded: {reason}",
            "install Mica's wheel, or build it by tools/quickstart.sh",
        )


def _fail(problem: str, remedy: str) -> NoReturn:
    # Without what led here: the line says it all.
    raise ImportError(f"{problem}; {remedy}") from None


def _check_python() -> None:
    versions = [".".join(map(str, version)) for version in PYTHONS]
    listed = ", ".join(versions[:-1])
    wanted = f"CPython {listed} or {versions[-1]} on x86-64 Linux"
    machine = os.uname().machine if hasattr(os, "uname") else "?"
    here = "{} {}.{} on {} {}".format(
        sys.implementation.name, *sys.version_info[:2], machine, sys.platform
    )
    if (
        sys.implementation.name != "cpython"
        or tuple(sys.version_info[:2]) not in PYTHONS
        or sys.platform != "linux"
        or machine != "x86_64"
    ):
        _fail(
            f"Mica needs {wanted}, and this is {here}",
            f"make an environment of one: python{versions[0]} -m venv",
        )
    if hasattr(sys, "gettotalrefcount"):
        _fail(
            f"Mica needs {wanted} as it is released, and this is a debug build",
            "use another interpreter",
        )


def _check_torch() -> str:
    """Imports torch; returns its folder."""
    wanted = "Mica needs torch {}.{}".format(*TORCH)
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        _fail(f"{wanted}, and there is none here", GET_TORCH)
    folder = os.path.dirname(os.path.abspath(str(torch.__file__)))
    version = str(torch.__version__)
    if version.split(".")[:2] != [str(part) for part in TORCH]:
        _fail(f"{wanted}, and this is {version} in {folder}", GET_TORCH)
    return folder


def _onednn_places() -> list[str]:
    """Paths at which oneDNN's library may be, the likeliest first."""
    above = os.path.dirname(os.path.abspath(__file__))
    for _ in range(3):  # Of lib/python3.x/site-packages/mica.
        above = os.path.dirname(above)
    folders = [above, os.path.join(sys.prefix, "lib")]
    return [os.path.join(folder, ONEDNN) for folder in folders]


def _onednn_listed() -> list[str]:
    """The paths that the installed package lists, wherever it lies."""
    from importlib import metadata

    try:
        files = metadata.files("onednn-cpu-gomp") or []
    except metadata.PackageNotFoundError:
        return []
    return [str(file.locate()) for file in files if file.name == ONEDNN]


def _load_onednn() -> None:
    """Loads oneDNN's library, which the extension then finds by its name."""
    places = [path for path in _onednn_places() if os.path.exists(path)]
    if not places:
        places = [path for path in _onednn_listed() if os.path.exists(path)]
    wanted = f"Mica needs oneDNN's {ONEDNN}"
    if not places:
        _fail(f"{wanted}, and there is none in {sys.prefix}/lib", GET_ONEDNN)
    try:
        ctypes.CDLL(places[0])
    except OSError as error:
        _fail(f"{wanted}, and it can't be loaded: {error}", GET_ONEDNN)


class _SymbolInfo(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _openmp_of(library: str | None) -> str:
    """The file whose OpenMP a library gets by itself, or the process does."""
    linked = ctypes.CDLL(library)
    try:
        function = linked.GOMP_parallel
    except AttributeError:
        return ""
    info = _SymbolInfo()
    ctypes.CDLL(None).dladdr(function, ctypes.byref(info))
    return os.path.realpath(os.fsdecode(info.file or b""))


def _check_openmp(torch_library: str) -> None:
    """Checks that torch, oneDNN and Mica get their threads from one runtime.

    One that is loaded for all of a process answers in place of torch's. Others
    that packages load for themselves alone don't.
    """
    own, answers = _openmp_of(torch_library), _openmp_of(None)
    if own and answers and own != answers:
        preload = os.environ.get("LD_PRELOAD", "")
        _fail(
            f"Mica needs one OpenMP runtime, torch's {own}, and {answers} "
            "answers in its place",
            "start Python without it"
            + (f" (LD_PRELOAD is {preload})" if preload else ""),
        )

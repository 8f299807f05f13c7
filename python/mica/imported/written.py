"""Python that was written here, as classes."""

from __future__ import annotations

import itertools
import linecache
from typing import Any, TypeVar

_Module = TypeVar("_Module")
_numbers = itertools.count()


def class_of(
    base: type[_Module], code: str, names: dict[str, Any], title: str
) -> type[_Module]:
    """Makes a class with a forward.

    Args:
      base: What it is besides.
      code: The forward's Python.
      names: What the code refers to; gets what it defines.
      title: What tracebacks call the code, with a number.
    """
    file = f"<{title} {next(_numbers)}>"
    exec(compile(code, file, "exec"), names)
    # Tracebacks show the lines; None keeps them when files are looked at.
    lines = code.splitlines(keepends=True)
    linecache.cache[file] = (len(code), None, lines, file)
    return type(base.__name__, (base,), {"forward": names["forward"]})

"""The texts that tools/quickstart.py searches: Python's own docstrings."""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Parts of the standard library that are not there to be read about.
_SKIPPED = frozenset(
    {
        "__pycache__",
        "idlelib",
        "idle_test",
        "lib2to3",
        "site-packages",
        "dist-packages",
        "test",
        "tests",
        "turtledemo",
    }
)
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Docstring:
    """A docstring and what it documents, such as `shutil.copytree`."""

    name: str
    text: str

    @property
    def first_line(self) -> str:
        """The docstring's first line, which says what the thing does."""
        return self.text.strip().splitlines()[0]


def _walk(node: ast.AST, name: str) -> Iterator[Docstring]:
    """Yields the docstrings of `node`, called `name`, and of what it holds."""
    if isinstance(node, _Documented) and (text := ast.get_docstring(node)):
        yield Docstring(name, text)
    for child in ast.iter_child_nodes(node):
        inner = getattr(child, "name", None)
        if isinstance(child, _Documented) and isinstance(inner, str):
            yield from _walk(child, f"{name}.{inner}")
        elif not isinstance(child, ast.expr):
            yield from _walk(child, name)


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def standard_library() -> list[Docstring]:
    """Returns every docstring of the standard library, once each.

    They are in the order of the files' paths, so that two machines with the
    same Python get the same list.
    """
    root = Path(sysconfig.get_path("stdlib"))
    found: dict[str, Docstring] = {}
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if _SKIPPED.intersection(relative.parts):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for docstring in _walk(tree, _module_name(relative)):
            if docstring.text.strip():
                found.setdefault(docstring.text, docstring)
    return list(found.values())

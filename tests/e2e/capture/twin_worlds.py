"""Programs of a text file, each run beside an eager twin in a world of its own.

A program is `== name` and the text below it; parts of it are parted by a line
of dashes. Programs come in files as they are many, and no formatter minds them.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import math
import pathlib
import re
import types
from typing import Any

import torch

import mica

FOLDER = pathlib.Path(__file__).parent / "programs"


def programs(name: str) -> dict[str, list[str]]:
    """Returns the parts of each program of a file."""
    text = (FOLDER / name).read_text()
    found = {}
    for block in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        title, body = block.split("\n", 1)
        found[title] = body.strip("\n").split("\n---\n")
    return found


def look(value: Any) -> Any:
    """Returns what a value shows of itself, small ints' identity included."""
    if type(value) is int:
        return ("int", value, value is int(str(value)))
    if isinstance(value, torch.Tensor):
        kind = (value.dtype, value.shape, value.requires_grad)
        return (kind, [look(item) for item in value.flatten().tolist()])
    if isinstance(value, float):
        return value
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [look(item) for item in value])
    if isinstance(value, dict):
        items = [(look(key), look(item)) for key, item in value.items()]
        return (type(value).__name__, items)
    if type(value).__module__ == "numpy":
        return ("numpy", str(value.dtype), value.tolist())
    if type(value).__repr__ in (object.__repr__, types.FunctionType.__repr__):
        return type(value).__name__  # Else it shows an address.
    return (type(value).__name__, str(value))


def agree(a: Any, b: Any) -> bool:
    """Whether two looks are the same, floats but for rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-7) or (
            a != a and b != b
        )
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(agree, a, b))
    return a == b


class Twins:
    """Two worlds of one text: `f` of the one is compiled."""

    def __init__(self, name: str, text: str):
        lines = text.splitlines(keepends=True)
        file = f"<{name}>"
        linecache.cache[file] = (len(text), None, lines, file)
        code = compile(text, file, "exec", dont_inherit=True)
        self.worlds: list[dict[str, Any]] = []
        for _ in range(2):
            world: dict[str, Any] = {"__name__": name}
            exec(code, world)
            world["WORLD"] = world
            self.worlds.append(world)
        self.compiled = mica.compile(self.worlds[1]["f"])
        self.letters = ""

    def call(self, statement: str, then: str = "()", **names: Any) -> None:
        """Runs a statement in both, and asserts that all is as eager's.

        Args:
          statement: Calls `FN` and leaves the result in `R`.
          then: An expression of what else is to be the same.
          names: What the statement may use, beside the world's.
        """
        before = mica.explain(self.compiled)
        seen = []
        for world, fn in zip(
            self.worlds, (self.worlds[0]["f"], self.compiled), strict=True
        ):
            own = {**world, **names, "FN": fn, "R": None}
            if "X" in names:
                own["X"] = names["X"].clone()
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                try:
                    exec(statement, own)
                except Exception as error:
                    own["R"] = (type(error).__name__, str(error))
            seen.append(
                [look(own["R"]), look(eval(then, own)), text.getvalue()]
            )
        after = mica.explain(self.compiled)
        self.letters += (
            "h"
            if after.hits > before.hits
            else "e"
            if after.eager_calls > before.eager_calls
            else "p"
            if after.split_calls > before.split_calls
            else "c"
        )
        assert agree(seen[1], seen[0]), (statement, self.letters, seen)

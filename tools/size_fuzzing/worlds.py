"""A world in which a program runs; eager and compiled have one each."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import linecache
import math
import operator
import sys
import types
from typing import Any

import numpy
import torch
from torch import nn

from size_fuzzing.case import Call, Case

_GIVEN: dict[str, Any] = {
    "torch": torch,
    "nn": nn,
    "F": nn.functional,
    "math": math,
    "np": numpy,
    "collections": collections,
    "dataclasses": dataclasses,
    "functools": functools,
    "itertools": itertools,
    "operator": operator,
}
HELPERS = """\
def R(shape, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64).to(DT)
def J(shape, high, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, max(high, 1), shape, generator=g)
"""
_names_of_helpers = {"R", "J", "DT", "HID", "AT"}

# Classes ask for their modules.
sys.modules["size_fuzz_world"] = types.ModuleType("size_fuzz_world")


def _run(text: str, names: dict[str, Any]) -> None:
    exec(compile(text, "<size_fuzz>", "exec"), names)


class World:
    """The names of one twin, and its program.

    Args:
      case: Whose source makes it.
      number: Tells worlds' files apart.
    """

    def __init__(self, case: Case, number: int = 0) -> None:
        self.case = case
        self.names: dict[str, Any] = dict(_GIVEN)
        self.names["__name__"] = "size_fuzz_world"
        self._given = set(self.names) | _names_of_helpers | {"__builtins__"}
        torch.default_generator.manual_seed(0)
        source = HELPERS + case.source()
        name = f"/tmp/size_fuzz_{case.number}.py"
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        exec(compile(source, name, "exec"), self.names)
        self.program: Any = self.names.get("program")

    def arguments(self, call: Call, index: int) -> dict[str, Any]:
        """The arguments of a call, made anew, after what comes before it."""
        names = self.names
        for text in self.case.before:
            # Its own targets have to be names of the world.
            given = {**call.sizes, "AT": index}
            kept = {name: names[name] for name in given if name in names}
            names.update(given)
            _run(text, names)
            for name in given:
                names.pop(name)
            names.update(kept)
        made: dict[str, Any] = {}
        for name, text in self.case.params.items():
            scope = {**names, **call.sizes, **made, "AT": index}
            made[name] = eval(call.args.get(name, text), scope)
        return made

    def state(self) -> dict[str, Any]:
        """What the program may have changed."""
        return {
            name: value
            for name, value in self.names.items()
            if name not in self._given and name[:2] != "__"
        }

    def parameters(self) -> list[torch.Tensor]:
        """All parameters, in order."""
        found: dict[int, torch.Tensor] = {}
        for value in self.state().values():
            if isinstance(value, nn.Parameter):
                found[id(value)] = value
            elif isinstance(value, nn.Module):
                for one in value.parameters():
                    found[id(one)] = one
        return list(found.values())

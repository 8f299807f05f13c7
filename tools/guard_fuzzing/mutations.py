"""Changes between calls, of anything that can be reached from a world's names.

A change is a text that both worlds run; changes.py has the templates.
"""

from __future__ import annotations

import collections
import functools
import random
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from guard_fuzzing import changes
from guard_fuzzing.case import Case, Step
from guard_fuzzing.holders import VALUES
from guard_fuzzing.process import KERNELS, OTHERS, PATCHES, Process
from guard_fuzzing.relevance import asked_by, choose
from guard_fuzzing.worlds import World

_CONSTANTS = (type(None), bool, int, float, str)
Place = tuple[str, Any, bool]


def _templates(value: Any) -> list[str]:
    if isinstance(value, torch.Tensor):
        return changes.TENSOR
    if isinstance(value, type):
        return changes.CLASS
    if isinstance(value, nn.Module):
        return changes.MODULE
    for kinds, found in changes.OTHERS.items():
        if isinstance(value, kinds):
            return found
    if isinstance(value, list):
        return changes.LIST
    if isinstance(value, dict):
        return changes.DICT
    if isinstance(value, types.FunctionType):
        return changes.FUNCTION
    return changes.OBJECT


def _inside(path: str, value: Any) -> Iterator[Place]:
    """What an object holds: path, value, and whether it may be set."""
    if isinstance(value, dict):
        for key, item in list(dict.items(value))[:6]:
            if isinstance(key, _CONSTANTS):
                yield f"{path}[{key!r}]", item, True
    elif isinstance(value, (list, tuple, collections.deque)):
        settable = not isinstance(value, tuple)
        for i, item in enumerate(list(value)[:4]):
            yield f"{path}[{i}]", item, settable
    elif isinstance(value, types.FunctionType):
        for i, cell in enumerate(value.__closure__ or ()):
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            yield f"{path}.__closure__[{i}].cell_contents", held, True
        for i, held in enumerate(value.__defaults__ or ()):
            yield f"{path}.__defaults__[{i}]", held, False
        for name, held in value.__dict__.items():
            yield f"{path}.{name}", held, True
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__, False
    elif isinstance(value, functools.partial):
        yield f"{path}.func", value.func, False
    elif isinstance(value, nn.Module):
        for store in ("_parameters", "_buffers", "_modules"):
            for name, held in value.__dict__[store].items():
                yield f"{path}.{name}", held, True
        yield from _attributes(path, value)
    elif not isinstance(value, (torch.Tensor, *_CONSTANTS)):
        yield from _attributes(path, value)


def _attributes(path: str, value: Any) -> Iterator[Place]:
    try:
        names = object.__getattribute__(value, "__dict__")
    except AttributeError:
        names = {}
    if isinstance(value, type):
        names = vars(value)
    for name, held in list(names.items()):
        if isinstance(name, str) and name[:1] != "_":
            yield f"{path}.{name}", held, True
    for name in getattr(type(value), "__slots__", ()):
        if not name.startswith("__") and hasattr(value, name):
            yield f"{path}.{name}", getattr(value, name), True


def _of_user(value: Any) -> bool:
    if isinstance(value, (types.FunctionType, type)):
        return value.__module__ == "fuzz"
    return (
        not isinstance(
            value, (types.BuiltinFunctionType, types.ModuleType, property)
        )
        or type(value).__module__ == "fuzz"
    )


def places(world: World) -> list[Place]:
    """All places that can be reached from a world's names."""
    found: list[Place] = []
    seen: set[int] = set()
    waiting = collections.deque(
        (name, value, True) for name, value in world.own_names().items()
    )
    while waiting and len(found) < 120:
        path, value, settable = waiting.popleft()
        if isinstance(value, types.ModuleType) and path[0] == "V":
            pass
        elif not isinstance(value, _CONSTANTS):
            if id(value) in seen or not _of_user(value):
                continue
            seen.add(id(value))
        found.append((path, value, settable))
        if path.count(".") + path.count("[") < 4:
            waiting.extend(_inside(path, value))
    return found


def _path(place: Place) -> str:
    return place[0]


class Mutator:
    """Chooses what is changed next in a case."""

    def __init__(
        self, rng: random.Random, process: Process, case: Case
    ) -> None:
        self.rng = rng
        self.process = process
        self._case = case
        self.asked = asked_by(case.own_text())
        self._earlier: list[Step] = []

    def choose(self, world: World) -> Step:
        """A change of `world`, or of the process."""
        rng, chance = self.rng, self.rng.random()
        if chance < 0.15 and self._earlier:
            return rng.choice(self._earlier)
        if chance < 0.26:
            step = self._process_step()
        elif chance < 0.32:
            text = rng.choice(changes.OF_RESULTS)
            step = Step("world", text, text)
        else:
            step = self._world_step(world)
        self._earlier.append(step)
        return step

    def _process_step(self) -> Step:
        rng, chance = self.rng, self.rng.random()
        source = self._case.source()
        if chance < 0.45:
            named = [f for f in self.process.flags if f.read in source]
            flags = (
                named if named and rng.random() < 0.6 else self.process.flags
            )
            flag = choose(rng, flags, self.asked, lambda f: f.read)
            value = rng.choice([*flag.values, flag.value])
            return Step(
                "process", f"set_flag({flag.read!r}, {value!r})", flag.write
            )
        if chance < 0.7:
            text = f"patch({choose(rng, PATCHES, self.asked)!r})"
        elif chance < 0.76:
            text = f"kernel({choose(rng, KERNELS, self.asked)!r})"
        else:
            text = choose(rng, OTHERS, self.asked)
        return Step("process", text, text)

    def _world_step(self, world: World) -> Step:
        found = places(world)
        if not found:
            return Step("world", "pass", "pass")
        path, value, settable = choose(self.rng, found, self.asked, _path)
        if isinstance(value, _CONSTANTS):
            return self._constant(path, value, settable)
        templates = _templates(value)
        template = choose(self.rng, templates, self.asked)
        if "{a}" in template and not settable:
            template = choose(self.rng, templates, self.asked)
        other = self.rng.choice(found)[0]
        for _ in range(4):
            path2, value2, _ = self.rng.choice(found)
            if type(value2) is type(value) and path2 != path:
                other = path2
        text = template.replace("{p}", path).replace("{a}", path)
        return Step("world", text.replace("{o}", other), template)

    def _constant(self, path: str, value: Any, settable: bool) -> Step:
        kinds = {bool: "bool", int: "int", float: "float", str: "text"}
        kind = kinds.get(type(value), "none")
        if self.rng.random() < 0.2:
            kind = self.rng.choice(list(VALUES))
        text = self.rng.choice(VALUES[kind])
        if self.rng.random() < 0.1:
            if path[-1] == "]" or not settable:
                return Step("world", f"del {path}", "del a place")
            return Step("world", f"del {path}", "del a place")
        if self.rng.random() < 0.1 and isinstance(value, (int, float, str)):
            text = f"type({path})(str({path}))"
        return Step(
            "world", f"{path} = {text}", f"a {type(value).__name__} = {kind}"
        )

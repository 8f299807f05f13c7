"""The `__dict__` of an argument: returned, kept, read or changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import mica


class Thing:
    pass


PROGRAMS = {
    "returns it": "return c.__dict__, x + 1",
    "returns vars": "return {'d': [vars(c)]}, x + 1",
    "reads it": "return x * vars(c)['n']",
    "counts": "return x * len(vars(c))",
    "sets an item": "vars(c)['q'] = x * 2\nreturn x * 2",
    "updates": "c.__dict__.update(q=7)\nreturn x * 2",
    "removes": "c.__dict__.pop('n')\nreturn x * 2",
    "changes and returns": "c.q = 1\nd = vars(c)\nd['r'] = [2]\nreturn d, x",
    "keeps it": "KEPT['d'] = c.__dict__\nreturn x * 2",
    "gives it away": "o = Thing()\no.__dict__ = c.__dict__\nreturn o, x * 2",
    "copies it": "return dict(vars(c)), x * 2",
}
CONTENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "a number": lambda call: {"n": 2.0},
    "one that varies": lambda call: {"n": float(call)},
    "a list": lambda call: {"n": 2.0, "m": [2.0]},
    "a tensor": lambda call: {"n": 2.0, "t": torch.ones(2) * call},
    "an object": lambda call: {"n": 2.0, "a": Thing()},
}


def shown(value: Any, own: Any) -> Any:
    """A value as text, in which the argument and its dict are known."""
    if value is own or value is own.__dict__:
        return "itself" if value is own else "its dict"
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: shown(item, own) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item, own) for item in value]
    if isinstance(value, Thing):
        return ["a thing", shown(vars(value), own)]
    return value


@pytest.mark.parametrize("contents", CONTENTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_dict_is_that_of_the_argument(program, contents):
    fns: list[Any] = []
    body = "".join(f"    {line}\n" for line in PROGRAMS[program].split("\n"))
    for _ in range(2):
        names: dict[str, Any] = {"Thing": Thing, "KEPT": {}}
        exec("def program(x, c):\n" + body, names)
        fns.append((names["program"], names["KEPT"]))
    fns[1] = mica.compile(fns[1][0]), fns[1][1]
    for call in range(6):
        found = []
        for fn, kept in fns:
            own = Thing()
            for name, value in CONTENTS[contents](call).items():
                if call % 2:
                    own.__dict__[name] = value
                else:
                    setattr(own, name, value)
            result = fn(torch.ones(2), own)
            left = {k: shown(v, own) for k, v in vars(own).items()}
            found.append([shown(result, own), left, shown(kept, own)])
        assert found[0] == found[1], f"call {call}"

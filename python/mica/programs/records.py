"""The records of a compiled callable, as data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mica import _mica
from mica.programs.described import constants
from mica.programs.program import Program
from mica.programs.tensor_types import Window

_AT_LINE = re.compile(r"^(.*?) +\(([^()]*:\d+)\)$", re.DOTALL)


@dataclass(frozen=True)
class Claim:
    """A guard, or an effect.

    Attributes:
      text: A readable expression, such as "self.scale == 2.0", or "sets
        self.attention".
      line: Where the program read or wrote it first, as "model.py:12"; "" if
        that isn't known.
      protects: Of a guard, what would be wrong without it.
    """

    text: str
    line: str
    protects: str = ""

    def __str__(self) -> str:
        return f"{self.text}  ({self.line})" if self.line else self.text


@dataclass(frozen=True)
class Record:
    """A Program with the guards under which it is valid.

    Attributes:
      guards: What has to hold for a call to be served.
      effects: What a hit draws, then what it leaves in Python's state, in
        order.
      hits: Calls that it served.
      program: The Program with its state's tensors.
      line: Where the callable is defined, as "model.py:7"; "" if not known.
      windows: How each tensor of the call's result, and each gradient that it
        leaves, lies in what the Program returns: "output", "input" or
        "variable", which one, sizes, strides and offset; the dtype if that is
        another, since complex numbers may be seen as their parts and those as
        complex numbers, and the offset is in real ones then; and "conj", "neg"
        or both for torch's lazy bits.
      lazy: The paths of inputs and state that are lazily conjugated or negated.
        The Program reads what their memory holds.
    """

    guards: list[Claim]
    effects: list[Claim]
    hits: int
    program: Program = field(repr=False)
    line: str
    windows: list[Window] = field(repr=False)
    lazy: list[str] = field(default_factory=list)


def records(fn: Callable[..., Any]) -> list[Record]:
    """The records of a compiled callable.

    Args:
      fn: What `compile` gave.
    Returns:
      The records as they are now, most recently hit first.
    Raises:
      TypeError: It is something else.
    """
    if not isinstance(fn, _mica.Compiled):
        raise TypeError(
            f"mica.records: wants a compiled callable, got {type(fn)}"
        )
    line = line_of(fn.__wrapped__)
    return [record_of(described, line) for described in fn._mica_records()]


def record_of(described: Mapping[str, Any], line: str) -> Record:
    """A Record of what `_mica_describe` gives."""
    return Record(
        guards=guards_of(described),
        effects=[claim(text) for text in described["effects"]],
        hits=described["hits"],
        program=program_of(described),
        line=line,
        windows=described["windows"],
        lazy=described["lazy"],
    )


def program_of(record: Mapping[str, Any]) -> Program:
    """A described record's whole Program, with its tensors."""
    native = _mica.Program.parse(record["program"])
    tensors = list(record["states"]) + constants(native, record)
    names = [name for name, _ in native.variables]
    found = zip(names, tensors, strict=True)
    return Program(native, {n: t for n, t in found if t is not None})


def guards_of(described: Mapping[str, Any]) -> list[Claim]:
    """The guards of a record that is described or reported."""
    return [
        claim(text, _protects(kind, text))
        for text, kind in zip(
            described["guards"], described["guard_kinds"], strict=True
        )
    ]


def claim(text: str, protects: str = "") -> Claim:
    """Splits a line of a report into what it says and where."""
    match = _AT_LINE.match(text)
    text, line = (match[1], match[2]) if match else (text, "")
    return Claim(text, line, protects)


_PROTECTS = {
    "argument": "an argument's kind, which the program's way depends on",
    "state": "a constant of the Program, or the program's way",
    "number": "nothing: the number is an input of the Program",
    "gradient": "whether gradients are made or added to",
    "memory": "what a write to one tensor does to others",
    "torch": "which operators torch would run",
}
_TENSOR = re.compile(r" is \w+\[[\d,]*\]")


def _protects(kind: str, text: str) -> str:
    if kind in ("argument", "state") and _TENSOR.search(text):
        return "the types and memory layout that the plan was made for"
    if text.endswith("has the same code and defaults") or (
        " has the same code and defaults  (" in text
    ):
        return "which code runs"
    if text.endswith((" is any float", " is any int")):
        return _PROTECTS["number"]
    if kind == "argument" and " == " in text:
        return "a constant of the Program, or the program's way"
    if " is the same object as " in text:
        return "which arguments are one object"
    return _PROTECTS[kind]


def line_of(fn: Any) -> str:
    """Where a callable is defined."""
    forward = getattr(type(fn), "forward", None)
    function = inspect.unwrap(getattr(fn, "__func__", fn))
    if not inspect.isfunction(function):
        function = forward
    if not inspect.isfunction(function):
        return ""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"

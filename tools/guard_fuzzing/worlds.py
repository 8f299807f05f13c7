"""A world of names in which a program runs, and what a call of it does."""

from __future__ import annotations

import abc
import asyncio
import bisect
import collections
import contextlib
import contextvars
import copy
import dataclasses
import decimal
import enum
import fractions
import functools
import gc
import heapq
import inspect
import io
import itertools
import json
import logging
import math
import operator
import os
import random
import re
import statistics
import struct
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, Protocol

import numpy
import torch
from torch import nn

import mica
from guard_fuzzing.blocks import BLOCKS
from guard_fuzzing.case import Case, blocks_of

_MODULES: dict[str, Any] = {
    module.__name__: module
    for module in (
        abc,
        asyncio,
        bisect,
        collections,
        contextlib,
        contextvars,
        copy,
        dataclasses,
        decimal,
        enum,
        fractions,
        functools,
        gc,
        heapq,
        inspect,
        io,
        itertools,
        json,
        logging,
        math,
        operator,
        os,
        random,
        re,
        statistics,
        struct,
        sys,
        threading,
        time,
        types,
        warnings,
        weakref,
        numpy,
        torch,
        mica,
    )
} | {"nn": nn, "F": nn.functional, "HOME": threading.get_ident()}
GIVEN = frozenset(_MODULES) | {"wrap", "LAST"}

# Globals of code that both worlds call, by a word of the programs for which
# Python remembers there what was warned of: what calls a module's forward(),
# and what patches a function.
_SHARED_CODE: list[tuple[str, Any]] = [
    ("stacklevel", vars(torch.nn.modules.module))
]

# With globals of each world's own, where warnings are remembered.
_CALLER = """
def call(fn, args, kwargs):
    return fn(*args, **kwargs)
"""
_codes: dict[str, CodeType] = {}


def code_of(text: str, mode: str = "exec") -> CodeType:
    """A text's code, compiled once."""
    key = mode + text
    if key not in _codes:
        if len(_codes) > 20000:
            _codes.clear()
        _codes[key] = compile(text, "<fuzz>", mode, 0, True)
    return _codes[key]


@dataclasses.dataclass
class Outcome:
    """What came of a call or a change.

    Attributes:
      result: What it returned.
      error: The exception's type and text; empty if there was none.
      arguments: Those of the call, as it left them.
      drawn: States of the random generators afterwards.
      left: What the call left of thread_state().
    """

    result: Any = None
    error: str = ""
    arguments: Any = None
    drawn: Any = None
    left: Any = None


def share_code(word: str, names: dict[str, Any]) -> None:
    """Has each world remember for itself what was warned of in shared code.

    Args:
      word: Of the text of programs that this is about.
      names: The code's globals.
    """
    _SHARED_CODE.append((word, names))


class Turns(Protocol):
    """Says whose code runs: EAGERS, SERVEDS, or 0 for the fuzzer's own."""

    value: int


EAGERS, SERVEDS = 1, 2
turns: Turns = types.SimpleNamespace(value=0)


def tell_turns(teller: Turns) -> None:
    """Has whose turn it is told where another process can read it."""
    global turns
    turns = teller


class World:
    """The names of one of two twins, and its program.

    Args:
      case: Whose source makes it.
      wrap: mica.compile, or for the eager twin a function that changes nothing.
      turn: What turns.value is while its code runs.
    """

    def __init__(
        self, case: Case, wrap: Callable[[Any], Any], turn: int = 0
    ) -> None:
        self._turn = turn
        self.out = io.StringIO()
        caller: dict[str, Any] = {"__name__": "fuzz_caller"}
        exec(code_of(_CALLER), caller)
        self._caller = caller["call"]
        self.warned: list[str] = []
        self.names: dict[str, Any] = dict(_MODULES)
        self.names.update(__name__="fuzz", wrap=wrap, LAST=None)
        self._given = len(self.names)
        source = case.source()
        # What shared code calls may warn of its line, once.
        self._registries: list[tuple[Any, Any]] = [
            (names, {}) for word, names in _SHARED_CODE if word in source
        ]
        with self.speaking():
            exec(code_of(source), self.names)
        self.has = set(BLOCKS) & set(blocks_of([source]))

    def own_names(self) -> dict[str, Any]:
        """What the program's text and changes have defined."""
        items = list(self.names.items())
        # Those that a world begins with, unless one of them is gone.
        begin = self._given if items[self._given - 1][0] == "LAST" else 0
        return {
            name: value
            for name, value in items[begin:]
            if name not in GIVEN and name[:2] != "__"
        }

    @contextlib.contextmanager
    def speaking(self) -> Any:
        """What is printed and warned meanwhile is this world's."""
        global _speaker
        before, sys.stdout = sys.stdout, self.out
        whose, _speaker = _speaker, self
        turn, turns.value = turns.value, self._turn
        for names, registry in self._registries:
            names["__warningregistry__"] = registry
        try:
            yield
        finally:
            sys.stdout = before
            _speaker = whose
            turns.value = turn

    def ensure(self, text: str) -> None:
        """Adds the blocks that a text needs."""
        for name, block in _blocks_of(text).items():
            if name not in self.has:
                exec(code_of(block), self.names)
                self.has.add(name)

    def change(self, text: str) -> Outcome:
        """Runs a statement in this world."""
        outcome = Outcome()
        with self.speaking():
            try:
                self.ensure(text)
                exec(code_of(text), self.names)
            except Exception as error:
                outcome.error = f"{type(error).__name__}: {error}"
        return outcome

    def arguments(self, text: str) -> Any:
        """A call's arguments, made anew."""
        self.ensure(text)
        return eval(
            code_of(f"_call({text})", "eval"), self.names, {"_call": _call}
        )

    def call(self, fn: Any, args: Any, kwargs: Any) -> Outcome:
        """Calls the program."""
        outcome = Outcome(arguments=(args, kwargs))
        with self.speaking():
            try:
                outcome.result = self._caller(fn, args, kwargs)
            except Exception as error:
                outcome.error = f"{type(error).__name__}: {error}"
        return outcome


@functools.lru_cache(maxsize=4096)
def _blocks_of(text: str) -> dict[str, str]:
    return blocks_of([text])


def _call(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


_speaker: World | None = None


def _show_warning(
    message: Any, category: Any, *rest: Any, **named: Any
) -> None:
    if _speaker is not None and str(message).startswith("fuzz"):
        _speaker.warned.append(f"{category.__name__}: {message} {rest[1:2]}")


def start_process() -> None:
    """Makes this process one in which worlds may run."""
    warnings.showwarning = _show_warning
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    gc.disable()


def random_states() -> Any:
    """The states of the generators that a process has."""
    numpy_state: Any = numpy.random.get_state()
    kind, keys, *rest = numpy_state
    drawn = (kind, keys.tobytes(), *rest)
    return torch.get_rng_state(), random.getstate(), drawn


def set_random_states(states: Any) -> None:
    """Puts states of random_states() back."""
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    kind, keys, *rest = states[2]
    numpy.random.set_state((kind, numpy.frombuffer(keys, "u4"), *rest))


def thread_state() -> tuple[bool, int, str]:
    """What a call may leave changed that both twins share."""
    context = decimal.getcontext()
    return torch.is_grad_enabled(), context.prec, context.rounding


def set_thread_state(state: tuple[bool, int, str]) -> None:
    """Puts what thread_state() gave back."""
    torch.set_grad_enabled(state[0])
    context = decimal.getcontext()
    context.prec, context.rounding = state[1:]

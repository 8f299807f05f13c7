"""Programs cut at random: in pieces they do what they do as a whole.

The random programs with state of test_random_state, with statements between
that no record can have; and functions of Python's own library, cut anywhere and
run by pieces without a capture.
"""

from __future__ import annotations

import contextlib
import fractions
import json.decoder
import random
import shlex
import statistics
import string
import textwrap
import types
from collections.abc import Callable
from typing import Any

import pytest
from e2e.capture import test_random_state as states
from e2e.capture.calls_in_pieces import LOG, note

import mica
from mica.pieces import split

STATEMENTS = [
    "note('x')",
    "note(round(float(y.sum()) / 8))",
    "note(self.count)",
    "note(len(self.list))",
    "self.inner.number += note(1) or 1",
    "y = y + (note('n') or 1)",
    "with torch.no_grad(): note(2); y = y * 1.5; note(3)",
    "for k in range(2): y = y + k; note(k)",
    "y = [note(1), y * 2][1]",
    "y = (lambda q: (note('l'), q * y)[1])(self.rate)",
    "f = lambda: y * 2; note('c'); y = f()",
    "del self.other; note('d'); self.other = y",
]


@pytest.mark.parametrize("group", range(4))
def test_random_state_in_pieces(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def make(seed: int, source: str, make: Any = states._make) -> Any:
        return {**make(seed, source), "note": note}

    def run_text(*args: Any, run: Any = states.run_text, **names: Any) -> Any:
        return run(*args, note=note, **names)

    def compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
        made.append(mica.compile(fn))

        def call(*args: Any) -> Any:
            want = list(LOG)  # Of eager, which was called before.
            LOG.clear()
            try:
                return made[-1](*args)
            finally:
                assert states._same(want, LOG)
                LOG.clear()

        return call

    monkeypatch.setattr(states, "run_text", run_text)
    monkeypatch.setattr(
        states, "STATEMENTS", states.STATEMENTS + 4 * STATEMENTS
    )
    monkeypatch.setattr(
        states,
        "mica",
        types.SimpleNamespace(
            compile=compiled, explain=lambda _: mica.explain(made[-1])
        ),
    )
    LOG.clear()
    split_calls = 0
    for seed in range(1000 + group * 15, 1015 + group * 15):
        states._check(seed)
        split_calls += mica.explain(made[-1]).split_calls
    assert split_calls >= 30


class Cut:
    """A function cut at random, and how its pieces are run."""

    def __init__(
        self, function: types.FunctionType, rng: random.Random
    ) -> None:
        self.function = function
        self.flow = split.function_flow(function.__code__)
        self.steps: frozenset[int] = frozenset()
        self.made: dict[Any, Any] = {}
        units = [i.at for i in self.flow.instructions]
        cuts: list[int] = []
        for unit in rng.sample(units, len(units) // 4 + 1):
            try:
                self.steps = split.steps(function.__code__, [*cuts, unit])
                cuts.append(unit)
            except split.Unsplittable:
                continue

    def __call__(self, *args: Any) -> Any:
        values: dict[int, Any] = dict(enumerate(args))
        count = self.flow.num_locals
        entry = 0
        while True:
            bound = tuple(sorted(values))
            key = entry, bound
            if key not in self.made:
                self.made[key] = split.build(
                    self.function,
                    entry,
                    self.steps,
                    bound,
                    entry < 0 or entry in self.steps,
                )
            piece, params, exits, _, _ = self.made[key]
            told = piece(*[values[slot] for slot in params])
            if told[0] is None:
                return told[1]
            entry = told[0]
            depth, slots, nulls, unread = exits[entry]
            values = {i: v for i, v in values.items() if i < count + depth}
            for slot, value in zip(unread, told[1], strict=True):
                if value is not split.UNBOUND:
                    values[slot] = value
            for slot, value in zip(slots, told[2:], strict=True):
                values[slot] = value
                if value is split.UNBOUND:
                    del values[slot]
            for slot in nulls:
                values.pop(slot, None)


def comprehensions(a: Any, last: Any) -> Any:
    """From 3.12 on, their variables are the function's own for a while."""
    doubles = [x * 2 for x in a if x]
    x = 5
    pairs = {x: y for x in a for y in doubles}
    nested = [[x + z for z in a] for x in a]
    later = [lambda: x for x in a]
    try:
        parts = [q / (q - 2) for q in a]
    except ZeroDivisionError as error:
        parts = str(error)
    text = f"{x!r:>4}{last}"
    unpacked = sorted({*doubles} | {y for y in a})
    some = doubles[1:last]
    doubles[0:1] = [9]
    return (
        *(pairs, nested, [one() for one in later], parts, text),
        *(unpacked, some, doubles, x),
    )


def contexts(a: Any) -> Any:
    """Leaves blocks by every way."""
    out: list[Any] = []
    with contextlib.suppress(KeyError), contextlib.nullcontext(3) as three:
        out.append(three)
        for k, v in a.items():
            out.append([v for _ in range(k)])
            try:
                if k == 2:
                    del v
                    raise KeyError(k)
                elif k == 3:
                    return out
            finally:
                out.append("end")
        out.append([z for z in out])
    return out


WRAPPER = textwrap.TextWrapper(width=20)
TEXT = "the quick-brown fox -- jumps, over  the lazy\n dog " * 4
CHUNKS = WRAPPER._split_chunks(TEXT)

# Functions, and arguments of theirs: all variables, none left to defaults.
FUNCTIONS: list[tuple[Any, Callable[[], list[tuple[Any, ...]]]]] = [
    (
        textwrap.TextWrapper._wrap_chunks,
        lambda: [(WRAPPER, CHUNKS[:]), (WRAPPER, [])],
    ),
    (
        textwrap.dedent,
        lambda: [("  a\n   b\n",), (" \n\tx\n  y",), (3,)],
    ),
    (
        json.decoder.py_scanstring,
        lambda: [
            ('abc\\u0041\\n\\ud834\\udd20"', 0, True, *SCAN),
            ("never ends\\", 0, True, *SCAN),
            ('bad \\x"', 0, False, *SCAN),
            ('bad \n"', 0, True, *SCAN),
        ],
    ),
    (
        shlex.shlex.read_token,
        lambda: [
            (shlex.shlex(text, posix=posix),)
            for posix in (True, False)
            for text in ("a b", "'q r' s", '"x\\"y" z', "# c\nd", "'open")
        ],
    ),
    (
        statistics._sum,
        lambda: [([1, 2.5, fractions.Fraction(1, 3)],), ([],), (["x"],)],
    ),
    (
        string.Formatter._vformat,
        lambda: [
            (string.Formatter(), "{} {1!r} {a:>{w}}", A, K, set(), 2, 0),
            (string.Formatter(), "{0} {}", A, K, set(), 2, 0),
            (string.Formatter(), "{:{:{}}}", A, K, set(), 2, 0),
        ],
    ),
    (
        comprehensions,
        lambda: [([3, 1, 0], 2), ([1, 2], 1), ([], 0), ([1], 3), (3, 1)],
    ),
    (
        contexts,
        lambda: [({1: 2, 2: 3},), ({1: 2, 3: 4},), ({1: 1},), (3,)],
    ),
    (
        fractions.Fraction.limit_denominator,
        lambda: [
            (fractions.Fraction(355, 113), 10),
            (fractions.Fraction(1, 3), 0),
        ],
    ),
]
SCAN = json.decoder.py_scanstring.__defaults__[1:]  # type: ignore[index]
A, K = ("p", "q"), {"a": 3, "w": 5}


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return repr(function(*args))
    except Exception as error:
        lines = []
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_name not in ("outcome", "__call__"):
                lines.append((code.co_name, trace.tb_lineno))
            trace = trace.tb_next
        return type(error), str(error), lines, type(error.__cause__)


@pytest.mark.parametrize("function, make", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_cut_anywhere(function: Any, make: Any) -> None:
    for seed in range(12):
        cut = Cut(function, random.Random(seed))
        for _ in range(2):
            for mine, theirs in zip(make(), make(), strict=True):
                assert outcome(cut, mine) == outcome(function, theirs), seed

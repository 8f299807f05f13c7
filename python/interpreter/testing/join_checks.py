"""Where the ways from jumps meet, against what dis and plain search say."""

from __future__ import annotations

import ast
import collections
import dis
import functools
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import mica_interpreter_testing as stream
from checks import check

END = -1
MOST = 200  # Instructions of a function that is searched.
ENDS = ("RETURN_VALUE", "RETURN_CONST")
RAISES = ("RAISE_VARARGS", "RERAISE")
JUMPS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")


def graph_of(code: CodeType) -> dict[int, list[int]]:
    """Where each instruction, by offset, may lead."""
    found: dict[int, list[int]] = {END: []}
    steps = [s for s in dis.get_instructions(code) if s.opname != "CACHE"]
    start = None  # Of those that only extend the next one's argument.
    rows = []
    for step in steps:
        start = step.offset if start is None else start
        if step.opname != "EXTENDED_ARG":
            rows.append((start, step))
            start = None
    begin = {step.offset: first for first, step in rows}
    for i, (first, step) in enumerate(rows):
        behind = rows[i + 1][0] if i + 1 < len(rows) else None
        target = None
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            target = begin.get(step.argval, step.argval)
        if step.opname in ENDS:
            next_ones = [END]
        elif step.opname in RAISES:
            next_ones = []
        elif step.opname in JUMPS:
            next_ones = [target]
        else:
            next_ones = [n for n in (target, behind) if n is not None]
        found[first] = next_ones
    return found


def reached(
    graph: dict[int, list[int]], start: int, without: int | None
) -> set[int]:
    """What can be come to."""
    seen, todo = set(), [start]
    while todo:
        at = todo.pop()
        if at in seen or at == without:
            continue
        seen.add(at)
        todo.extend(graph.get(at, []))
    return seen


def join_of(graph: dict[int, list[int]], jump: int) -> int:
    """The nearest one that each way to the end passes."""
    all_of = reached(graph, jump, None)
    if END not in all_of:
        return END
    passed = [
        n for n in all_of - {jump, END} if END not in reached(graph, jump, n)
    ]
    # Behind the nearest one come all others.
    for one in passed:
        others = (other for other in passed if other != one)
        if all(END not in reached(graph, one, other) for other in others):
            return one
    return END


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code and those in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


@check
def joins_are_the_nearest_that_all_ways_pass() -> None:
    compared = 0
    for module in (ast, collections, dis, functools, textwrap):
        for value in vars(module).values():
            if not isinstance(value, FunctionType):
                continue
            for code in nested(value.__code__):
                graph = graph_of(code)
                if len(graph) > MOST:
                    continue
                for at, next_ones in graph.items():
                    if len(next_ones) < 2:
                        continue
                    want = join_of(graph, at)
                    got = stream.join_of(code, at)
                    assert got == want, (code.co_qualname, at, got, want)
                    compared += 1
    assert compared > 100, compared


def told(function: Callable[..., Any], *args: Any) -> list[str]:
    """The joins that a stream tells of, if each jump may fork."""
    lines, _ = stream.events(function, args, forks=True)
    return [line for line in lines if line.startswith("join")]


@check
def a_join_is_told_with_what_the_function_has() -> None:
    def f(x):
        y = 1
        if x:
            y = 2
        return y

    assert told(f, True) == ["join [True, 2] []"]
    assert told(f, False) == ["join [False, 1] []"]


@check
def a_function_that_returns_joins_with_what_it_gives() -> None:
    def f(x):
        if x:
            return "a"
        return "b"

    assert told(f, True) == ["join [] ['a']"]
    assert told(f, False) == ["join [] ['b']"]

"""Promoted scalars in lists, tuples and closures, beside an eager twin.

A case is a program, what happens to its world between two calls, and what
becomes of each call: "c", it is captured; "h", a record serves it; "e", it runs
eagerly. Results and the world are compared bit for bit after each call, and who
is the same object.
"""

from __future__ import annotations

import collections
import random
import types
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, report, run_text

import mica

WORLD = """\
Pair = collections.namedtuple("Pair", "left right")
L = [0, 1.5]
M = [L, 3]
S = types.SimpleNamespace(
    n=0, l=[0, 1.5], t=(0.5, 0.9), p=Pair(1, 2.0), h=[0.5] * 3, none=[None, 1]
)
S.same = S.l
S.table = {"betas": (0.9, 0.5), "l": [1, 2]}
S.other = [0, 1.5]

def make():
    count = 0
    def bump(by):
        nonlocal count
        count += by
    return bump, lambda a: a * count
bump, of_count = make()
"""

X = torch.tensor([1.0, 2.0, 3.0])
STEADY = "cc" + 22 * "h"

# Programs, what is done before each call, the letters.
CASES: dict[str, tuple[str, str, str]] = {
    "a count": ("S.l[0] += 1; return a * S.l[0]", "", STEADY),
    "a count from the end": (
        "S.l[-2] += 1; return a * S.l[-2] + len(S.l)",
        "",
        STEADY,
    ),
    "two counts": (
        "S.l[0] = S.l[0] + 1; S.l[1] *= 0.5; return a * S.l[1] + S.l[0]",
        "",
        "ec" + 22 * "h",
    ),
    "a count that is only kept": (
        "S.n += 1; S.h[0] = S.n * 0.1; return a + 1",
        "",
        STEADY,
    ),
    "one that others set": ("return a * L[0] + L[1]", "L[0] = i", STEADY),
    "several that others set": (
        "return a * L[0] + L[1]",
        "L[i % 2] = i * 0.5 if i % 2 else i",
        STEADY,
    ),
    "a list by two ways": (
        "S.l[0] += 1; return a * S.same[0]",
        "S.same[1] = i * 0.5",
        STEADY,
    ),
    "a list in a list": ("M[0][0] += 1; return a * L[0] * M[1]", "", STEADY),
    "a list in a dict": (
        "S.table['l'][1] += 2; return a * S.table['l'][1]",
        "",
        STEADY,
    ),
    "a window": (
        "S.n += 1; S.h.append(S.n * 0.5); S.h.pop(0); return a * sum(S.h)",
        "",
        "ecc" + 21 * "h",
    ),
    "a swap": (
        "S.h[0], S.h[2] = S.h[2], S.h[0]; return a * S.h[0]",
        "S.h[1] = i * 0.5; S.h[0] = -i * 0.5",
        "ec" + 22 * "h",
    ),
    "a tuple": (
        "S.t = (S.t[0] * 0.5, S.t[1]); return a * S.t[0]",
        "",
        STEADY,
    ),
    "a tuple that others set": (
        "b, c = S.table['betas']; return a * b + c",
        "S.table['betas'] = (i * 0.5, 1.0 - i)",
        STEADY,
    ),
    "a named tuple": (
        "S.p = Pair(S.p.left + 1, S.p.right); return a * S.p.left",
        "",
        STEADY,
    ),
    "a variable that others set": ("return of_count(a)", "bump(2)", STEADY),
    "another length": (
        "L[0] += 1; return a * L[0] * len(L)",
        "if i == 8: L.append(3)\nif i == 12: L.pop()",
        "cc" + 6 * "h" + "c" + 3 * "h" + 12 * "h",
    ),
    "another type": (
        "L[0] += 1; return a * L[0]",
        "if i == 8: L[0] = 0.5\nif i == 12: L[0] = True\nif i == 16: L[0] = 3",
        "cc" + 6 * "h" + "c" + 3 * "h" + "c" + 11 * "h",
    ),
    "another object": (
        "S.none[1] += 1; return a * S.none[1] if S.none[0] is None else a",
        "if i == 8: S.none[0] = 'x'\nif i == 12: S.none[0] = None",
        "cc" + 6 * "h" + "c" + 3 * "h" + 12 * "h",
    ),
    "another list": (
        "S.l[0] += 1; return a * S.l[0]",
        "if i == 8: S.l = S.other",
        "cc" + 6 * "h" + "cc" + 14 * "h",
    ),
    "another way": (
        "L[0] += 1; return a * L[0] if L[0] % 5 else -a",
        "",
        "cchhc" + 19 * "h",
    ),
    "an int that no float holds": (
        "L[0] += 1; return a * (L[0] % 7)",
        "if i == 8: L[0] = 2**53 - 3\nif i == 12: L[0] = 1",
        "cc" + 8 * "h" + "ec" + 12 * "h",
    ),
}


def program(text: str) -> str:
    lines = "".join(f"    {line.strip()}\n" for line in text.split(";"))
    return f"{WORLD}\ndef f(a):\n{lines}"


def make_world(text: str) -> dict[str, Any]:
    return run_text(
        f"<{text}>", program(text), collections=collections, types=types
    )


def state(world: dict[str, Any]) -> str:
    """All that a program may have changed, and which lists are one."""
    s = vars(world["S"])
    lists = [world["L"], world["M"][0], s["l"], s["same"], s["other"]]
    one = [[a is b for b in lists] for a in lists]
    return repr([world["L"], world["M"], s, world["of_count"](1.0), one])


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    text, between, want = CASES[name]
    mine, plain = make_world(text), make_world(text)
    f = mica.compile(mine["f"])
    told = ""
    for i in range(24):
        for world in (mine, plain):
            exec(between, world, {"i": i})
        got, letter = call_and_tell(f, X)
        told += letter
        assert got.tolist() == plain["f"](X).tolist(), (i, told)
        assert state(mine) == state(plain), (i, told)
    assert told == want, str(report(f))
    assert len(report(f).graphs) == want.count("c")


# ---- Lists that are the caller's, too.


def test_a_list_of_the_state_that_is_also_an_argument() -> None:
    held = [0, 1.5]
    twin = [0, 1.5]

    def step(a, items, counts):
        counts[0] += 1
        return a * counts[0] + items[0]

    mine = mica.compile(lambda a, items: step(a, items, held))
    for i in range(24):
        own = i % 3 == 2
        got = mine(X, held if own else [i, 2.5])
        want = step(X, twin if own else [i, 2.5], twin)
        assert got.tolist() == want.tolist()
        assert held == twin
    assert report(mine).hits >= 12, str(report(mine))


def test_two_lists_that_become_one() -> None:
    def run(s, a):
        s.l[0] += 1
        s.m[0] += 2
        return a * s.l[0] + s.m[0]

    mine = types.SimpleNamespace(l=[0, 1], m=[5, 1])
    plain = types.SimpleNamespace(l=[0, 1], m=[5, 1])
    f = mica.compile(lambda a: run(mine, a))
    for i in range(24):
        if i == 8:
            mine.m, plain.m = mine.l, plain.l
        if i == 16:
            mine.m, plain.m = [0, 1], [0, 1]
        assert f(X).tolist() == run(plain, X).tolist(), i
        assert vars(mine) == vars(plain), i
    assert report(f).hits >= 16, str(report(f))


def test_arguments_that_become_one_list() -> None:
    def step(a, first, second):
        first[0] += 1
        second[1] += first[0]
        return a * second[0]

    f = mica.compile(step)
    for i in range(24):
        mine, plain = [i, 2], [i, 2]
        lists = (mine, mine) if i % 4 == 3 else (mine, [1, i])
        twins = (plain, plain) if i % 4 == 3 else (plain, [1, i])
        assert f(X, *lists).tolist() == step(X, *twins).tolist()
        assert lists == twins
    assert report(f).hits >= 16, str(report(f))


def test_tuples_of_arguments() -> None:
    def step(a, betas, nested):
        (first, second), third = betas, nested[0][1]
        return a * first + second * third, betas, nested

    f = mica.compile(step)
    told = ""
    for i in range(24):
        args = (X, (i * 0.5, 2.0), [(1, i), 3])
        got, letter = call_and_tell(f, *args)
        told += letter
        want = step(*args)
        assert got[0].tolist() == want[0].tolist()
        assert got[1:] == want[1:]
        if letter == "h":
            assert got[1] is args[1]
            assert got[2] is args[2]
    assert told == "cc" + 22 * "h" or told == "ccc" + 21 * "h"


# ---- At random.

STEPS = [
    "L[{i}] += 1",
    "L[{i}] = L[{j}] * 0.5",
    "L[{i}], L[{j}] = L[{j}], L[{i}]",
    "a = a * L[{i}]",
    "a = a + sum(L)",
    "M[{i}] = L[{j}]",
    "a = a - M[{i}]",
    "T = (T[1] + 1, T[0])",
    "a = a * T[0]",
    "a = a + 1 if L[{i}] > M[{j}] else a - 1",
    "L.append(L.pop(0))",
    "M[:2] = [M[1], L[{i}]]",
]
CHANGES = [
    "pass",
    "pass",
    "L[{i}] = {k}",
    "L[{i}] = {k} + 0.5",
    "M[{i}] = L[{j}]",
    "T = ({k}, 2)",
    "M = L",
    "M = [1, 2, 3]",
    "L.append(1)",
    "del L[3:]",
    "L[{i}] = True",
]


def outcome(f: Any) -> Any:
    """What a call gives, or which exception it raises."""
    try:
        return f(X).tolist()
    except (IndexError, RuntimeError) as error:
        return type(error)


def run_random(seed: int) -> int:
    """Checks one random program; returns how many calls were hits."""
    rng = random.Random(seed)

    def draw(lines: list[str]) -> str:
        return rng.choice(lines).format(
            i=rng.randrange(3), j=rng.randrange(3), k=rng.randrange(9)
        )

    lines = "\n    ".join(draw(STEPS) for _ in range(rng.randrange(2, 5)))
    source = (
        "L, M, T = [0, 1.5, 2], [3, 4, 0.5], (1, 2.5)\n"
        f"def f(a):\n    global T\n    {lines}\n    return a\n"
    )
    mine = run_text(f"<random {seed}>", source)
    plain = run_text(f"<random {seed}>", source)
    f = mica.compile(mine["f"])
    for i in range(24):
        change = draw(CHANGES) if i % 5 == 4 else "pass"
        for world in (mine, plain):
            exec(change, world)
        got, want = outcome(f), outcome(plain["f"])
        assert got == want, (seed, i, lines, change)
        for name in ("L", "M", "T"):
            assert repr(mine[name]) == repr(plain[name]), (seed, i, lines)
    return report(f).hits


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_programs(first: int) -> None:
    assert sum(map(run_random, range(first, first + 20))) >= 100

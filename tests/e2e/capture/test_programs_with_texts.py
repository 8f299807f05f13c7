"""What programs do with texts of numbers, each as eager."""

# ruff: noqa: UP031, UP032, C416, C417, PLR0133, SIM, E501

from __future__ import annotations

import bisect
import collections
import copy
import functools
import itertools
import json
import operator
import re
import string
import textwrap
import warnings

import pytest
import torch

import mica


def T(x):  # noqa: N802
    return f"{x.sum().item():.1f}"


PROGRAMS = [
    lambda x: [T(x), "0.1"].index(T(x)),
    lambda x: ["0.1", T(x)].count("0.1"),
    lambda x: [T(x)] == ["0.1"],
    lambda x: (T(x), 1) == ("0.1", 1),
    lambda x: (lambda v: (v.sort(), v))([T(x), "0", "-1"]),
    lambda x: max([T(x), "0", "-1"]),
    lambda x: min([T(x), "0"], key=len),
    lambda x: any(v == "0.1" for v in [T(x)]),
    lambda x: [*map(str.upper, [T(x)])],
    lambda x: [*map(len, [T(x)])],
    lambda x: [*filter(None, [T(x), ""])],
    lambda x: [*filter(T(x).startswith, ["-"])],
    lambda x: sorted(["-", "0"], key=T(x).find),
    lambda x: functools.partial(T(x).replace, ".", "_")(),
    lambda x: functools.reduce(operator.add, [T(x), "a"]),
    lambda x: operator.eq(T(x), "0.1"),
    lambda x: operator.contains(T(x), "-"),
    lambda x: operator.concat(T(x), "-"),
    lambda x: operator.itemgetter(0)(T(x)),
    lambda x: copy.copy(T(x)),
    lambda x: copy.deepcopy([T(x)]),
    lambda x: json.dumps({"a": T(x)}),
    lambda x: json.dumps({T(x): 1}),
    lambda x: bisect.bisect(["-1", "0", "1"], T(x)),
    lambda x: collections.Counter([T(x)]),
    lambda x: collections.OrderedDict(a=T(x)),
    lambda x: dict([("a", T(x))]),
    lambda x: dict([(T(x), "a")]),
    lambda x: {**{"a": T(x)}},
    lambda x: list(zip([T(x)], "ab")),
    lambda x: list(itertools.chain([T(x)], ["a"])),
    lambda x: list(itertools.chain(T(x), "a")),
    lambda x: list(enumerate([T(x)])),
    lambda x: list(enumerate(T(x))),
    lambda x: tuple(reversed(T(x))),
    lambda x: set(T(x)),
    lambda x: frozenset([T(x)]),
    lambda x: string.Template("a $b").substitute(b=T(x)),
    lambda x: re.match("-", T(x)) is None,
    lambda x: re.sub(r"\.", "_", T(x)),
    lambda x: textwrap.indent(T(x), " "),
    lambda x: T(x).isdigit() or T(x)[:1] == "-",
    lambda x: (lambda **k: list(k))(**{"a" + T(x): 1}),
    lambda x: (lambda **k: k)(a=T(x)),
    lambda x: (lambda *a: a)(*[T(x)]),
    lambda x: (lambda a, *b: (a, b))(*T(x)),
    lambda x: isinstance(T(x), str) and T(x),
    lambda x: bool(T(x)) and not T(x),
    lambda x: T(x) or "a",
    lambda x: T(x) and "a",
    lambda x: "a" if not T(x).strip("-") else "b",
    lambda x: bytes(T(x), "ascii"),
    lambda x: T(x).encode(),
    lambda x: int(float(T(x))),
    lambda x: complex(T(x)),
    lambda x: ascii(T(x)),
    lambda x: repr([T(x)]),
    lambda x: f"{[T(x)]}",
    lambda x: f"{(T(x),)}",
    lambda x: f"{ {'a': T(x)} }",
    lambda x: "%s" % [T(x)],
    lambda x: "%(a)s" % {"a": T(x)},
    lambda x: "%s %s" % (T(x), [T(x)]),
    lambda x: "{0[0]} {0}".format([T(x)]),
    lambda x: "{a[b]}".format(a={"b": T(x)}),
    lambda x: T(x) * 2,
    lambda x: 2 * T(x),
    lambda x: T(x) * int(T(x) > "0"),
    lambda x: T(x).join(["a", "b"]),
    lambda x: T(x).join("ab"),
    lambda x: ",".join(T(x)),
    lambda x: ",".join((T(x), "a")),
    lambda x: ",".join({T(x): 1}),
    lambda x: ",".join(iter([T(x)])),
    lambda x: T(x).partition("."),
    lambda x: T(x).splitlines(),
    lambda x: T(x).rsplit(".", 1)[0],
    lambda x: T(x).translate({45: "m"}),
    lambda x: T(x).maketrans("a", "b") and T(x),
    lambda x: T(x).zfill(8),
    lambda x: T(x).expandtabs(),
    lambda x: T(x).__len__(),
    lambda x: T(x).__eq__("0.1"),
    lambda x: T(x).__hash__() == 1,
    lambda x: T(x).__class__,
    lambda x: T(x).__add__("a"),
    lambda x: T(x).__mod__(()),
    lambda x: T(x).__getitem__(0),
    lambda x: T(x).__contains__("-"),
    lambda x: T(x).__format__(">9"),
    lambda x: T(x).__str__(),
    lambda x: T(x).__iter__().__next__(),
    lambda x: T(x).__sizeof__(),
    lambda x: T(x).__repr__(),
    lambda x: x.sum().item().hex(),
    lambda x: x.sum().item().as_integer_ratio(),
    lambda x: x.sum().item().is_integer(),
    lambda x: str(x.sum()),
    lambda x: f"{x.sum()}",
    lambda x: repr(x.sum()),
    lambda x: str(x.sum().item() == 0.1),
    lambda x: str((x.sum().item(),)),
    lambda x: f"{(x.sum().item(),)}",
    lambda x: f"{[x.sum().item()]}",
    lambda x: str({"a": x.sum().item()}),
    lambda x: round(x.sum().item(), 1),
    lambda x: round(x.sum().item(), -1),
    lambda x: round(x.sum().item()),
    lambda x: round(x.sum().item(), None),
    lambda x: round(x.sum().item(), 0),
    lambda x: round(int(x.sum().item()), 1),
    lambda x: round(x.sum().item(), 20),
    lambda x: x * round(x.sum().item(), 1),
    lambda x: [T(x) is T(x), (lambda t: t is t)(T(x))],
    lambda x: (lambda t: [t, t][0] is t)(T(x)),
    lambda x: type(T(x)) is str,
    lambda x: T(x) == T(x),
    lambda x: T(x) != f"{x.sum().item():.1f}",
    lambda x: str(True) + T(x),
    lambda x: f"{True}{T(x)}{None}",
    lambda x: str(int(x.sum().item() > 0)),
    lambda x: f"{x.sum().item() > 0}",
    lambda x: f"{x.argmax().item()}",
    lambda x: "abc"[x.argmax().item() % 3],
    lambda x: f"{x.argmax()}",
    lambda x: (
        T(x)
        .casefold()
        .capitalize()
        .swapcase()
        .title()
        .ljust(9)
        .lstrip()
        .rstrip()
        .removeprefix("-")
        .removesuffix("1")
    ),
]


def same(got, want):
    if isinstance(want, torch.Tensor):
        return torch.equal(got, want)
    if type(got) is not type(want):
        return False
    if type(want) in (list, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got == want or want != want


def outcome(fn, x):
    try:
        return fn(x)
    except Exception as error:
        return repr(error)


@pytest.mark.once("each program is recorded many times")
def test_programs_are_as_eager():
    torch.manual_seed(0)
    drawn = [torch.randn(4) for _ in range(5)]
    calls = [*drawn, *drawn[:2], *(x.round() for x in drawn[:2])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mica.MicaWarning)
        for number, program in enumerate(PROGRAMS):
            compiled = mica.compile(program, exact=True)
            for x in calls:
                got, want = outcome(compiled, x), outcome(program, x)
                assert same(got, want), (number, got, want)

"""Every opcode of CPython 3.11 and what later ones have in their place."""

from __future__ import annotations

import asyncio
import contextlib
import dis
import sys
import traceback
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x

import mica

# By name: what makes the program, and whether a record serves it.
PROGRAMS: dict[str, tuple[Callable[[], Any], bool]] = {}


def program(served: bool) -> Callable[[Any], Any]:
    """Each makes a program anew, so that two of them share no state."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        PROGRAMS[make.__name__] = (make, served)
        return make

    return add


class Box:
    kind = "box"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __add__(self, other: Any) -> Box:
        return Box(self.value + other)

    def __matmul__(self, other: Any) -> Any:
        return self.value * other

    def __getitem__(self, key: Any) -> Any:
        return self.value if key == 0 else [][key]

    def __len__(self) -> int:
        return 2

    def __contains__(self, item: Any) -> bool:
        return item == 3

    def __enter__(self) -> Box:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return kind is KeyError


# ---- Operators.


@program(True)
def unary():
    return lambda a: (-a, +a, ~(a > 0), not a.shape, -3, ~5, not 0)


@program(True)
def binary():
    def f(a):
        n = a.shape[0]
        b = a + n - 1
        b = b * 2 / 3
        b **= 2
        b -= a
        b @= a.t()
        return b, n // 2, n % 2, n << 3, n >> 1, n & 2, n | 8, n ^ 1

    return f


@program(True)
def inplace():
    def f(a):
        n, b = 7, a.clone()
        n += 1
        n -= 3
        n *= 5
        n //= 2
        n %= 9
        n <<= 2
        n >>= 1
        n &= 30
        n |= 1
        n ^= 2
        n **= 2
        n /= 4
        b += n
        b *= a
        return b

    return f


@program(True)
def operators_of_a_class():
    return lambda a: (Box(a) + 1) @ 2 + Box(a)[0] * len(Box(a)) * (3 in Box(a))


@program(True)
def comparisons():
    def f(a):
        n = a.shape[0]
        c = (n is None, n < 3, n <= 3, n == 3, n != 3, n > 3, n >= 3, 1 < n < 5)
        return a if a is not None and n in (3, 4) else None, c, n not in c

    return f


@program(True)
def subscripts():
    def f(a):
        items, table = [a, 1, 2], {"k": a}
        items[0] = a + 1
        items[1:2] = [5, 6]
        del items[1]
        table["n"] = a[1:, ::2]
        del table["k"]
        return items, table, a[0], a[..., None], items[-1]

    return f


# ---- Making and taking apart.


@program(True)
def displays():
    def f(a):
        n = a.shape[0]
        return (
            (a, n),
            [a, n],
            {n, 2},
            {"a": a, n: 1},
            {n: a, **{"b": n}},
            [*range(n), a],
            (*"ab", n),
            {*range(n)},
            slice(0, n),
            f"{n} {n!r:>4}",
        )

    return f


@program(True)
def unpacking():
    def f(a):
        first, (second, third) = a, (a + 1, 2)
        head, *middle, last = [first, 1, 2, third]
        (u, v), w = second.split(2, dim=1), 3
        return head, middle, last, u, v, w

    return f


@program(True)
def swaps():
    def f(a):
        b, c = a + 1, a + 2
        b, c = c, b
        b, c, d, e = c, b, 1, 2
        b, c, d, e = e, d, c, b
        return b, c, d, e

    return f


@program(True)
def comprehensions():
    def f(a):
        rows = [row * i for i, row in enumerate(a) if i != 1]
        names = {i: row for i, row in enumerate(rows)}
        kinds = {i % 2 for i in range(5)}
        total = sum(row.sum() for row in rows)
        return (
            rows,
            names,
            kinds,
            total,
            [[i * j for i in "ab"] for j in (1, 2)],
        )

    return f


# ---- Jumps.


@program(True)
def jumps():
    def f(a):
        out = []
        for i in range(6):
            if i == 1:
                continue
            if i == 5:
                break
            j = i
            while j > 0:
                j -= 1
            else:
                out.append(a + i)
            while not (j is not None and j >= 2):
                j += 1
            k = None
            while k is None:
                k = j or i
            while k is not None:
                k = None
            while not j == 0:
                j -= 1
            while True:
                if out is None:
                    break
                if j:
                    continue
                break
        else:
            out.append(None)
        return out, (a and None) if out is None else 0, i and out or a

    return f


@program(True)
def either_or():
    def f(a):
        n = a.shape[0]
        b = n and a
        c = n - 3 or a + 1
        d = (n > 1 and n < 9) or 2
        e = a if n is None else c
        assert n, "never"
        return b, c, d, e, None if a is None else 1

    return f


# ---- Functions.


@program(True)
def calls():
    def callee(a, /, b, *rest, c=2, d: int = 3, **more):
        return a * b + c - d, rest, more

    def f(a):
        given, names = (2, 7), {"c": 5, "e": 6}
        return (
            callee(a, 2),
            callee(a, b=3, c=4),
            callee(a, *given),
            callee(a, *given, **names, **{"g": 1}),
            a.add(1).mul_(2),
            max(1, 2, key=lambda n: -n),
            torch.cat([a, a], dim=1),
        )

    return f


@program(True)
def closures():
    def f(a):
        n = 1
        m = 2

        def inner(b=3, *, c=4):
            nonlocal n
            n += 1

            def innermost():
                return a * n * m + b + c  # noqa: F821

            return innermost()

        y = inner(), inner(c=1), n
        del m
        return y

    return f


@program(True)
def generators():
    def numbers(a):
        yield a
        received = yield a + 1
        yield from (a * i for i in (2, 3))
        yield from [received]
        return a - 1

    def f(a):
        g = numbers(a)
        out = [next(g), next(g), g.send(5)]
        return out + list(g)

    return f


@program(True)
def classes():
    def f(a):
        scale = a.shape[0]

        class Inner:
            factor = scale
            name: str = "inner"

            def __init__(self, value):
                self.value = value
                self.extra = 1
                del self.extra

            def run(self):
                return self.value * self.factor

        class Outer(Inner):
            def run(self):
                return super().run() + 1

        return Outer(a).run(), hasattr(Outer(a), "extra")

    return f


@program(True)
def globals_():
    scope: dict[str, Any] = {"n": 2}
    exec("def f(a):\n global n\n n = 3\n return a * n\n", scope)
    return scope["f"]


@program(True)
def a_removed_global():
    scope: dict[str, Any] = {}
    exec(
        "def f(a):\n global n\n n = a + 1\n b = n * 2\n del n\n return b\n",
        scope,
    )
    return scope["f"]


@program(True)
def locals_that_go():
    def f(a):
        b = a + 1
        c = b
        del b
        return c

    return f


@program(True)
def imports():
    def f(a):
        import math
        import os.path as path
        from math import floor, pi

        return a * floor(pi), math.e, path.sep

    return f


@program(True)
def a_wide_function():
    """So many constants that arguments need EXTENDED_ARG."""
    scope: dict[str, Any] = {}
    lines = [f"    b = a + {i}.5" for i in range(300)]
    exec("def f(a):\n" + "\n".join(lines) + "\n    return b\n", scope)
    return scope["f"]


# ---- Blocks.


@program(True)
def with_blocks():
    def f(a):
        with Box(a) as b, contextlib.nullcontext(2) as n:
            c = b.value * n
        with contextlib.suppress(KeyError):
            raise KeyError("gone")
        with Box(a):
            {}["lost"]
        return c

    return f


@program(True)
def try_blocks():
    def f(a):
        out = []
        for kind in (KeyError, ValueError, None):
            try:
                if kind is not None:
                    raise kind("x")
            except KeyError as error:
                out.append(str(error))
            except (ValueError, TypeError):
                out.append(a)
            else:
                out.append(None)
            finally:
                out.append(a + len(out))
        try:
            try:
                raise KeyError("inner")
            except KeyError as error:
                raise ValueError("outer") from error
        except ValueError as error:
            out.append(type(error.__cause__).__name__)
        return out

    return f


@program(True)
def exception_groups():
    def f(a):
        seen = []
        try:
            raise ExceptionGroup("both", [KeyError("k"), ValueError("v")])
        except* KeyError:
            seen.append("key")
        except* ValueError:
            seen.append("value")
        return a + 1, seen

    return f


@program(True)
def match_blocks():
    def f(a):
        out = []
        for case in ([1, a], {"k": a, "m": 2}, (1, 2, 3), 7, "word"):
            match case:
                case [1, y]:
                    out.append(y * 2)
                case {"k": y, **rest}:
                    out.append((y, rest))
                case [first, *others]:
                    out.append((first, others))
                case 7 | 8:
                    out.append("number")
                case _:
                    out.append(None)
        return out

    return f


@program(False)
def match_classes():
    def f(a):
        match Box(a):
            case Box(value=y):
                return y * 2

    return f


@program(False)
def coroutines():
    async def numbers(a):
        for i in range(2):
            yield a * i

    class Later:
        async def __aenter__(self):
            return 3

        async def __aexit__(self, *error):
            return None

    async def work(a):
        out = [y async for y in numbers(a)]
        async for y in numbers(a):
            out.append(y)
        async with Later() as n:
            out.append(n)
        await asyncio.sleep(0)
        return out

    return lambda a: asyncio.run(work(a))


MODULE = "from math import *\nn: int = 2\nm = n + 1\ndel m\nb = a * n\n"


@program(False)
def a_modules_body():
    def f(a):
        scope: dict[str, Any] = {"a": a}
        exec(compile(MODULE, "<module>", "exec"), scope)
        return scope["b"], scope["pi"]

    return f


@program(False)
def a_shown_expression():
    def f(a):
        shown = []
        hook, sys.displayhook = sys.displayhook, shown.append
        try:
            exec(compile("1 + n", "<shown>", "single"), {"n": 2})
        finally:
            sys.displayhook = hook
        return a * shown[0]

    return f


# ---- What raises: the opcode, then a program whose run fails there.


def raising(source: str) -> Callable[[], Any]:
    def make() -> Any:
        scope: dict[str, Any] = {
            "torch": torch,
            "Box": Box,
            "contextlib": contextlib,
        }
        body = "\n".join("    " + line for line in source.splitlines())
        code = f"def f(a):\n    b = a * 2\n{body}\n    return b\n"
        exec(compile(code, "<raising>", "exec"), scope)
        return scope["f"]

    return make


RAISING = {
    "UNARY_NEGATIVE": "-'x'",
    "UNARY_POSITIVE": "+'x'",
    "UNARY_INVERT": "~1.5",
    "UNARY_NOT": "not torch.ones(2)",
    "BINARY_OP": "b + 'x'",
    "BINARY_OP by zero": "a.shape[0] // 0",
    "BINARY_OP of sizes": "b @ torch.ones(7)",
    "BINARY_SUBSCR": "[][3]",
    "BINARY_SUBSCR of a dict": "{}['k']",
    "BINARY_SUBSCR of a tensor": "b[99]",
    "STORE_SUBSCR": "(1, 2)[0] = 3",
    "DELETE_SUBSCR": "del {}['k']",
    "COMPARE_OP": "1 < 'x'",
    "CONTAINS_OP": "1 in 2",
    "GET_ITER": "for i in 3: pass",
    "FOR_ITER": "for i in (1 // n for n in (1, 0)): b = b + i",
    "UNPACK_SEQUENCE": "u, v = 1, 2, 3",
    "UNPACK_SEQUENCE of one": "u, v = 1",
    "UNPACK_EX": "u, v, *w = [1]",
    "LOAD_ATTR": "a.no_such_name",
    "LOAD_METHOD": "a.no_such_name()",
    "STORE_ATTR": "(1).real = 2",
    "DELETE_ATTR": "del Box(a).other",
    "LOAD_GLOBAL": "no_such_name",
    "DELETE_GLOBAL": "global lost\ndel lost",
    "LOAD_FAST": "del b",
    "LOAD_DEREF": "def g(): return c\ng()\nc = 1",
    "IMPORT_NAME": "import no_such_module",
    "IMPORT_FROM": "from math import no_such_name",
    "CALL": "a.shape()",
    "CALL with too many": "(lambda: 1)(2)",
    "CALL_FUNCTION_EX": "(lambda n: 1)(*[1, 2])",
    "CALL_FUNCTION_EX of names": "(lambda n: 1)(**{'m': 1})",
    "CALL of an operator": "torch.cat([a, torch.ones(1, 9)])",
    "BUILD_SET": "{[]}",
    "BUILD_MAP": "{[]: 1}",
    "DICT_MERGE": "dict(n=1, **{'n': 2})",
    "LIST_EXTEND": "[*3]",
    "SET_UPDATE": "{*[[]]}",
    "DICT_UPDATE": "{**3}",
    "FORMAT_VALUE": "f'{3:q}'",
    "POP_JUMP_FORWARD_IF_FALSE": "if torch.ones(2): pass",
    "JUMP_IF_TRUE_OR_POP": "torch.ones(2) or 1",
    "BEFORE_WITH": "with 3: pass",
    "WITH_EXCEPT_START": "with Box(a): raise ValueError('with')",
    "RAISE_VARARGS": "raise ValueError('raised', 3)",
    "RAISE_VARARGS with a cause": "raise ValueError('v') from KeyError('k')",
    "RAISE_VARARGS of nothing": "raise",
    "LOAD_ASSERTION_ERROR": "assert a.shape[0] == 9, 'nine'",
    "RERAISE": "try:\n    raise KeyError('k')\nfinally:\n    b = b + 1",
    "CHECK_EXC_MATCH": "try:\n    raise KeyError('k')\nexcept 3:\n    pass",
    "CHECK_EG_MATCH": "try:\n    raise KeyError('k')\nexcept* ValueError:\n"
    "    pass",
    "MATCH_KEYS": "match {'k': 1}:\n    case {'k': n}:\n        n.lost",
    "MATCH_CLASS": "match a:\n    case Box(1, 2, 3): pass\n"
    "match Box(a):\n    case Box(n): pass",
    "YIELD_VALUE": "def g():\n    yield 1\n    raise ValueError('late')\n"
    "list(g())",
    "SEND": "def g():\n    yield from [1, 1 // 0]\nlist(g())",
    "LOAD_BUILD_CLASS": "class Made(Box, 3): pass",
    "LOAD_CLASSDEREF": "n = 1\nclass Made:\n    m = n.lost",
    "LOAD_NAME": "class Made:\n    m = no_such_name",
    "MAKE_FUNCTION": "def g(n=1 // 0): pass",
}


def outcome(fn: Any, a: torch.Tensor) -> tuple[Any, ...]:
    """What a call gives: its value, or the exception with the user's lines."""
    try:
        return "value", fn(a)
    except Exception as error:
        lines = [
            (frame.name, frame.lineno)
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename in (__file__, "<raising>")
            and frame.name != "outcome"
        ]
        return type(error), error.args, lines, type(error.__cause__)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    make, served = PROGRAMS[name]
    compiled, plain = mica.compile(make()), make()
    for seed in range(4):
        want, got = outcome(plain, x(seed)), outcome(compiled, x(seed))
        assert want[0] == "value", want
        same(got, want)
    told = report(compiled)
    assert (told.hits == 3) is served, str(told)


@pytest.mark.parametrize("name", RAISING)
def test_exceptions(name: str) -> None:
    make = raising(RAISING[name])
    compiled, plain = mica.compile(make()), make()
    for seed in range(3):
        want, got = outcome(plain, x(seed)), outcome(compiled, x(seed))
        assert want[0] != "value"
        assert got == want
    assert report(compiled).hits == 0


def test_an_exception_in_each_program_that_is_served() -> None:
    """A later call raises what eager raises, after records were made."""
    for name, (make, served) in PROGRAMS.items():
        if not served:
            continue
        compiled, plain = mica.compile(make()), make()
        for seed in range(2):
            same(compiled(x(seed)), plain(x(seed)))
        for bad in (torch.ones(()), torch.ones(3, 4, dtype=torch.bool)):
            got, want = outcome(compiled, bad), outcome(plain, bad)
            if want[0] == "value":
                same(got, want)
            else:
                assert got == want, name
        same(compiled(x(5)), plain(x(5)))


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the corpus is of 3.11's opcodes"
)
def test_the_corpus_has_every_opcode() -> None:
    roots = [make.__code__ for make, _ in PROGRAMS.values()]
    roots += [make().__code__ for make, _ in PROGRAMS.values()]
    roots += [raising(source)().__code__ for source in RAISING.values()]
    roots += [
        compile(MODULE, "<module>", "exec"),
        compile("1 + n", "<shown>", "single"),
    ]
    seen = {
        instruction.opname
        for root in roots
        for code in codes(root)
        for instruction in dis.get_instructions(code, show_caches=True)
    }
    assert set(dis.opmap) - seen == set()

"""Small programs that between them have every kind of instruction.

Each function makes a program, to be called without arguments, that only needs
Python itself. `events.want` has what the stream tells of each.
"""

from __future__ import annotations

import math
import os.path
import sys
from collections.abc import Callable
from typing import Any

# Imported already: else their import would be part of the events.
assert math and os.path

PROGRAMS: dict[str, Callable[[], Callable[[], Any]]] = {}


def program(make: Callable[[], Any]) -> Callable[[], Any]:
    """Adds a program under its maker's name."""
    PROGRAMS[make.__name__] = make
    return make


class Box:
    """Has all operators that programs use."""

    kind = "box"

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Box(self.value + other)

    def __matmul__(self, other):
        return self.value * other

    def __getitem__(self, key):
        return self.value if key == 0 else [][key]

    def __len__(self):
        return 2

    def __contains__(self, item):
        return item == 3

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is KeyError


# ---- Operators.


@program
def unary():
    a = 3
    return lambda: (-a, +a, ~a, not a)


@program
def binary():
    def f():
        n, x = 7, 0.5
        b = n + x
        b = b * 2.0 / 3.0 - n
        b **= 2.0
        return b, n // 2, n % 2, n << 3, n >> 1, n & 2, n | 8, n ^ 1

    return f


@program
def inplace():
    def f():
        n = 7
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
        return n

    return f


@program
def operators_of_a_class():
    return lambda: (Box(5) + 1) @ 2 + Box(5)[0] * len(Box(5)) * (3 in Box(5))


@program
def comparisons():
    def f():
        n = 4
        c = (n is None, n < 3, n <= 3, n == 3, n != 3, n > 3, n >= 3, 1 < n < 5)
        return n if n is not None and n in (3, 4) else None, c, n not in c

    return f


@program
def subscripts():
    def f():
        items, table = [0, 1, 2], {"k": 3}
        items[0] = items[1] + 1
        del items[1]
        table["n"] = table["k"]
        del table["k"]
        return items, table, items[-1]

    return f


@program
def slices():
    def f():
        items, n = [0, 1, 2, 3], 2
        items[1:n] = [5, 6]
        del items[3:]
        return items[n:], items[:n], items[::n]

    return f


# ---- Making and taking apart.


@program
def displays():
    def f():
        n = 3
        return (
            (n, n),
            [n, 2],
            {n, 2},
            {"a": 1, n: 1},
            {n: 1, **{"b": n}},
            [*range(n), n],
            (*"ab", n),
            {*range(n)},
            slice(0, n),
            f"{n} {n!r:>4} {n:{n}}",
            "%s" % n,
        )

    return f


@program
def unpacking():
    def f():
        first, (second, third) = 0, (1, 2)
        head, *middle, last = [first, 1, 2, third]
        return head, middle, last, second

    return f


@program
def swaps():
    def f():
        b, c = 1, 2
        b, c = c, b
        b, c, d, e = c, b, 1, 2
        b, c, d, e = e, d, c, b
        return b, c, d, e

    return f


@program
def comprehensions():
    def f():
        rows = [row * 2 for row in (1, 2) if row != 1]
        names = {i: row for i, row in enumerate(rows)}
        kinds = {i % 2 for i in range(3)}
        return rows, names, kinds, [[i * j for i in "a"] for j in (1, 2)]

    return f


@program
def generator_expressions():
    return lambda: sum(row + 1 for row in (1, 2))


# ---- Jumps.


@program
def jumps():
    def f():
        out = []
        for i in range(4):
            if i == 1:
                continue
            if i == 3:
                break
            j = i
            while j > 0:
                j -= 1
            else:
                out.append(i)
            k = None
            while k is None:
                k = j or i or 1
            while k is not None:
                k = None
        return out

    return f


@program
def either_or():
    def f():
        n = 4
        b = n and "a"
        c = n - 4 or "c"
        d = (n > 1 and n < 9) or 2
        e = b if n is None else c
        assert n, "never"
        return b, c, d, e, None if b is None else 1

    return f


# ---- Attributes and variables.


@program
def attributes():
    def f():
        box = Box(1)
        box.value = box.value + 2.5
        box.extra = box.kind
        del box.extra
        return box.value, hasattr(box, "extra")

    return f


@program
def closures():
    def f():
        n = 1
        m = 2

        def inner(b=3, *, c=4):
            nonlocal n
            n += b

            def innermost():
                return n * m + c  # noqa: F821

            return innermost()

        y = inner(), inner(c=1), n
        del m
        return y

    return f


@program
def globals_():
    scope: dict[str, Any] = {"n": 2}
    exec(
        "def f():\n global n, m\n m = n\n n = 3\n del m\n return n\n",
        scope,
    )
    return scope["f"]


@program
def a_missing_global():
    return lambda: no_such_name  # noqa: F821


@program
def increments():
    scope: dict[str, Any] = {"n": 2, "Box": Box}
    exec(
        """
def make():
    box, table, cell = Box(1), {"k": 1}, 1
    def f():
        global n
        nonlocal cell
        n += 1
        cell -= 2
        box.value += 1
        box.value = box.value + 2
        box.value = 3 + box.value
        table["k"] += 1
        return n, cell, box.value, table["k"]
    return f
""",
        scope,
    )
    return scope["make"]()


# ---- Calls.


@program
def calls():
    def callee(a, /, b, *rest, c=2, d=3, **more):
        return rest, more

    def f():
        given, names = (2, 7), {"c": 5, "e": 6}
        return (
            callee(1, 2),
            callee(1, b=3, c=4),
            callee(1, *given),
            callee(1, *given, **names, **{"g": 1}),
            "abc".upper().lower(),
            max(1, 2, key=abs),
            "abc".encode(encoding="ascii"),
            dict(k=1),
        )

    return f


@program
def unpacked_iterators():
    def numbers():
        yield 1
        yield 2

    def two(a, b):
        return a

    return lambda: (max(*numbers()), two(*numbers()), max(*map(abs, [1, 2])))


@program
def methods():
    def f():
        box = Box(5)
        add = box.__add__
        return add(1).value, Box.__len__(box), box.__len__()

    return f


@program
def generators():
    def numbers():
        yield 0
        received = yield 1
        yield from (2, 3)
        yield received
        return 4

    def f():
        g = numbers()
        out = [next(g), next(g), g.send(5)]
        return out + list(g)

    return f


@program
def a_class_body():
    scale = 3

    def f():
        class Inner:
            factor = scale
            name: str = "inner"

            def run(self):
                return self.factor

            twice = factor + factor
            size = len(name)

        return Inner().run(), Inner.twice

    return f


@program
def supers():
    class Inner:
        name = "inner"

        def run(self):
            return 1

    class Outer(Inner):
        def run(self):
            return super().run() + 1

        def named(self):
            return super(Outer, self).name, super(Outer, self).run()

    return lambda: (Outer().run(), Outer().named())


@program
def imports():
    def f():
        import os.path as path
        from math import floor, pi

        return floor(pi), path.sep

    return f


@program
def a_wide_function():
    """So much of everything that arguments need EXTENDED_ARG."""
    lines = [
        *(f"v{i} = {i}.5" for i in range(300)),
        "if v0 < 0:",
        *(f"    g{i}" for i in range(300)),
        "for i in (1, 2):",
        *(f"    v{i}" for i in range(300)),
        "    v299 = v299 + 7000.5",
        "Wide.value = v299",
        "return Wide.value, -v298",
    ]
    body = "\n".join(f"    {line}" for line in lines)
    scope: dict[str, Any] = {"Wide": type("Wide", (), {})}
    exec(f"def f():\n{body}\n", scope)
    return scope["f"]


# ---- Blocks.


@program
def with_blocks():
    def f():
        with Box(1) as b, Box(2) as n:
            c = b.value * n.value
        with Box(1):
            {}["lost"]
        return c

    return f


@program
def try_blocks():
    def f():
        out = []
        for kind in (KeyError, ValueError, None):
            try:
                if kind is not None:
                    raise kind("x")
            except KeyError as error:
                out.append(str(error))
            except (ValueError, TypeError):
                out.append(1)
            else:
                out.append(None)
            finally:
                out.append(len(out))
        try:
            try:
                raise KeyError("inner")
            except KeyError as error:
                raise ValueError("outer") from error
        except ValueError as error:
            out.append(error.__cause__)
        return out

    return f


@program
def exception_groups():
    def f():
        seen = []
        try:
            raise ExceptionGroup("both", [KeyError("k"), ValueError("v")])
        except* KeyError:
            seen.append("key")
        except* ValueError:
            seen.append("value")
        return seen

    return f


@program
def an_error():
    def inner(n):
        return 1 // n

    def f():
        [inner(n) for n in (1, 0)]

    return f


@program
def match_blocks():
    def f():
        out = []
        for case in ([1, 5], {"k": 4, "m": 2}, (1, 2, 3), 7, "word"):
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


# ---- What no event stands for.


@program
def match_classes():
    def f():
        match Box(1):
            case Box(value=y):
                return y * 2

    return f


@program
def coroutines():
    async def numbers():
        yield 1

    class Later:
        async def __aenter__(self):
            return 3

        async def __aexit__(self, *error):
            return None

    async def work():
        out = [y async for y in numbers()]
        async for y in numbers():
            out.append(y)
        async with Later() as n:
            out.append(n)
        return out

    def f():
        # By hand: a loop's own steps aren't the matter.
        try:
            work().send(None)
        except StopIteration as error:
            return error.value

    return f


@program
def a_modules_body():
    source = "from math import *\nn: int = 2\nm = n + 1\ndel m\n"
    code = compile(source, "<module>", "exec")
    return lambda: exec(code, {})


@program
def a_shown_expression():
    code = compile("1 + n", "<shown>", "single")
    return lambda: exec(code, {"n": 2})


if sys.version_info >= (3, 12):

    @program
    def type_parameters():
        scope: dict[str, Any] = {}
        source = """
def f():
    class Made:
        def run[T: int](self, a: T) -> T:
            return a
    return Made().run(1), Made.run.__type_params__[0].__bound__
"""
        exec(source, scope)
        return scope["f"]

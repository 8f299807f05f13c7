"""Whatever a frame is amid when it is cut: loops, contexts, handlers, cells."""

from __future__ import annotations

import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from e2e.capture.calls_in_pieces import LOG, in_pieces, note, under_no_grad

import mica


def test_a_loop_goes_on_with_the_same_pieces():
    def fn(a):
        for i in range(3):
            a = torch.tanh(a * 2)
            note(i)
            a = a + 1
        return a * a

    compiled = in_pieces(fn, graphs=7)
    assert len([p for p in report(compiled).pieces if p.graphs]) == 3


def test_iterators_are_new_at_each_call():
    def fn(a):
        for i in reversed(range(3)):
            a = a * 2 + i
            for j, b in zip(range(2), enumerate("xy"), strict=True):
                note((i, j, b))
                a = a - 1
        return a

    in_pieces(fn)


def test_an_iterator_is_no_result():
    def fn(a):
        return a * 2, reversed(range(3))

    compiled = mica.compile(fn)
    for i in range(4):
        got, numbers = compiled(x(i))
        same(got, x(i) * 2)
        assert list(numbers) == [2, 1, 0]


def test_break_continue_and_else():
    def fn(a, n):
        out = []
        for i in range(n):
            if i == 1:
                note("skipped")
                continue
            b = a * i
            note(i)
            if i == 4:
                break
            out.append(b + 1)
        else:
            a = a - 1
        return a, out

    in_pieces(fn, lambda i: (x(i), 2 + i))


def test_while_and_changed_containers():
    def fn(a):
        held = [a]
        while len(held) < 4:
            held.append(held[-1] * 2)
            note(len(held))
        return held

    in_pieces(fn)


class Context:
    def __init__(self, name, swallows=False):
        self.name, self.swallows = name, swallows

    def __enter__(self):
        LOG.append(("in", self.name))
        return self.name

    def __exit__(self, kind, *_):
        LOG.append(("out", kind))
        return self.swallows


def test_within_a_context():
    def fn(a):
        with Context("c") as name:
            b = a * 2
            note(name)
            c = b + a
        return c.exp()

    in_pieces(fn)


def test_within_no_grad():
    def fn(a):
        with torch.no_grad():
            b = a * 2
            note("c")
            c = b + a
        return c.exp()

    with torch.enable_grad():
        in_pieces(fn, graphs=3)


def test_a_context_swallows_an_exception_of_a_step():
    def fail(a):
        note("raises")
        raise KeyError("k")

    def fn(a):
        b = a + 1
        with Context("c", swallows=True):
            b = b * 2
            fail(b)
            b = b * 100
        return b - a

    in_pieces(fn)


def test_within_try():
    def fn(a, fails):
        b = a * 2
        try:
            b = b + 1
            note("in")
            if fails:
                raise ValueError("why")
            b = b * 3
        except ValueError as error:
            note(str(error))
            b = b - 1
        finally:
            note("finally")
        return b.cos()

    in_pieces(fn, lambda i: (x(i), False))
    in_pieces(fn, lambda i: (x(i), True))
    in_pieces(fn, lambda i: (x(i), i % 2 == 0))


def lines_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[2:]
        lines = [(f.filename, f.name, f.lineno) for f in frames]
        return type(error), str(error), lines[-3:]


def raises(a: torch.Tensor, where: str) -> torch.Tensor:
    b = a * 2
    if where == "head":
        raise RuntimeError("head")
    note(1 // (where != "step"))
    c = b @ a
    if where == "tail":
        raise RuntimeError("tail")
    return c


@pytest.mark.parametrize("where", ["head", "step", "tail", "op"])
def test_exceptions_have_their_lines(where):
    def fn(a, where):
        return raises(a, where)

    compiled = mica.compile(fn)
    for i in range(3):
        same(compiled(x(i, 4, 4), "none"), fn(x(i, 4, 4), "none"))
    assert report(compiled).last_graphs == 2
    given = (x(0, 3, 4), "none") if where == "op" else (x(0, 4, 4), where)
    for _ in range(3):
        LOG.clear()
        want = lines_of(lambda: fn(*given))
        effects = list(LOG)
        LOG.clear()
        assert lines_of(lambda: compiled(*given)) == want
        assert effects == LOG
    same(compiled(x(9, 4, 4), "none"), fn(x(9, 4, 4), "none"))


def test_closures_and_cells():
    scale = 3.0

    def fn(a):
        total = a * scale

        def add(v):
            nonlocal total
            total = total + v
            return total

        b = add(a)
        note("cell")
        c = add(b)
        return total, c, add

    def checked(a):
        total, c, add = fn(a)
        return total, c, add(a)

    in_pieces(checked)


def test_a_function_made_at_each_call_keeps_nothing_alive():
    class Held:
        k = 2.0

    def fn(a, held):
        def scaled(v):
            note("scaled")
            return v * held.k

        return scaled(a) + torch.relu(a)

    compiled = mica.compile(fn)
    for i in range(5):
        held = Held()
        same(compiled(x(i), held), fn(x(i), held))
        told = weakref.ref(held)
        del held
        assert told() is None


def test_a_lasting_closure_becomes_graphs():
    scale = 3.0

    def scaled(v):
        w = v * scale
        note("scaled")
        return torch.tanh(w) * 2

    in_pieces(lambda a: scaled(a) + torch.relu(a), graphs=3)


def test_recursion():
    def down(a, n):
        b = a * 2
        note(n)
        if n > 0:
            b = b + down(b, n - 1)
        return torch.tanh(b)

    # Three of them only count n down, which varies.
    in_pieces(lambda a: down(a, 3), graphs=11)


def test_defaults_and_arguments_of_all_kinds():
    def fn(a, b=2, /, *rest, c=1.5, **more):
        d = a * b + c
        note((len(rest), sorted(more)))
        for r in rest:
            d = d + r
        return d, {k: v * 2 for k, v in more.items()}

    def call(a, i):
        if i % 2:
            return fn(a)
        return fn(a, 3, a + 1, a + 2, c=2.5, k=a)

    in_pieces(call, lambda i: (x(i), i))


def test_deleted_and_unbound_variables():
    def fn(a, has):
        b = a + 1
        if has:
            c = b * 2
        del a
        note("between")
        try:
            return c + b
        except UnboundLocalError as error:
            return b, str(error)

    in_pieces(fn, lambda i: (x(i), True), graphs=2)
    in_pieces(fn, lambda i: (x(i), False))


def test_generators_run_eagerly():
    def fn(a):
        def numbers():
            for i in range(3):
                note(i)
                yield a * i

        return sum(numbers()) * 2

    in_pieces(fn)


def test_nested_calls_and_expressions():
    def deep(a, b):
        c = a * b
        note("deep")
        return c + a

    def fn(a):
        return [deep(a, 2) * deep(a + 1, b=3).sum(), {"k": deep(a, 4)}]

    in_pieces(fn, graphs=8)


def test_methods_and_super():
    class Base:
        def run(self, a):
            note("base")
            return a * 2

    class Derived(Base):
        def run(self, a):
            b = a + 1
            c = super().run(b)
            return c - b

    derived = Derived()
    in_pieces(lambda a: derived.run(a).relu())


def test_a_step_whose_method_is_of_a_new_tensor():
    def fn(a):
        b = a + 1
        c = b.double().numpy()
        note(c.sum())
        return b * 2

    in_pieces(fn)


def test_code_that_cannot_be_taken_apart_runs_eagerly():
    source = "def fn(a):\n    b = a + 1\n    note(1)\n    match b:\n"
    source += "        case [_, *rest]:\n            b = b * 2\n"
    source += "        case int():\n            b = b * 3\n    return b\n"
    names: dict[str, Any] = {"note": note}
    exec(compile(source, __file__, "exec"), names)
    in_pieces(names["fn"])


def test_what_a_context_left_on_the_stack_makes_no_new_records():
    with torch.no_grad():
        compiled = in_pieces(under_no_grad, graphs=3)
    assert [(len(p.graphs), p.hits) for p in report(compiled).pieces] == [
        (1, 4),
        (1, 4),
        (1, 4),
    ]


def test_cells_of_pieces_are_looked_into():
    def fn(a):
        b = a * 2
        note("before")
        c = b + 1
        kinds = [type(eval("b")).__name__, type(eval("c")).__name__]

        def both():
            return b + c

        note(kinds, sorted(sys._getframe().f_locals))
        return both() * len(kinds)

    in_pieces(fn, calls=4)


@pytest.mark.parametrize("kind", ["locals()", "vars()", "exec('n = 1')"])
def test_who_asks_for_the_dict_of_its_variables_runs_eagerly(kind):
    names: dict[str, Any] = {"note": note}
    source = "def fn(a):\n    n = 0\n    b = a + 1\n    note(1)\n"
    source += f"    d = {kind}\n    note(list(d or ()))\n    c = b * 2\n"
    source += f"    e = {kind}\n    note(list(d or ()), d is e)\n"
    source += "    return c * len(d or 'x'), lambda: (b, c)\n"
    exec(compile(source, __file__, "exec"), names)
    program = names["fn"]
    told = report(in_pieces(lambda a: program(a)[0], calls=4))
    assert told.last_graphs == 0, str(told)
    (whole,) = told.unsplit
    assert "asks for a dict of its variables" in whole.reason
    assert str(whole) in told.details("pieces")

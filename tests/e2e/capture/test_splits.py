"""Programs that aren't one graph are served by several, around what is cut."""

from __future__ import annotations

import copy
import gc
import logging
import os
import sys
import threading
import time
import traceback
import typing
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from torch import nn

import mica

LOG: list[Any] = []


def note(value: Any) -> None:
    """An effect that no record has: it is cut out."""
    LOG.append((os.getpid() > 0, value))


def in_pieces(
    fn: Callable[..., Any],
    args: Callable[[int], tuple[Any, ...]] | None = None,
    graphs: int | None = None,
    calls: int = 6,
) -> Any:
    """Calls compiled and plain in turn; results and effects must agree.

    Args:
      fn: The program.
      args: Of call number i.
      graphs: Runs of pieces as graphs in the last call.
      calls: How many.
    """
    compiled = mica.compile(fn)
    for i in range(calls):
        given = args(i) if args is not None else (x(i),)
        mine = copy.deepcopy(given)
        LOG.clear()
        want = fn(*given)
        effects = list(LOG)
        LOG.clear()
        got = compiled(*mine)
        same(got, want)
        same(LOG, effects)
        same(mine, given)
    told = report(compiled)
    if graphs is not None:
        assert told.last_graphs == graphs, str(told)
        assert told.split_calls >= calls - 2, str(told)
    return compiled


def middle(a: torch.Tensor) -> torch.Tensor:
    b = torch.relu(a) + 1
    note("here")
    return b * 2 - a


def test_an_unknown_call_in_the_middle_leaves_two_graphs():
    compiled = in_pieces(middle, graphs=2)
    told = report(compiled)
    assert {cut.name for cut in told.cuts} == {"middle", "note"}
    line = middle.__code__.co_firstlineno + 2
    assert told.cuts[0].at == f"{__file__}:{line}"
    assert "posix.getpid" in told.cuts[0].reason
    assert f"cut at {__file__}:{line} in middle" in str(told)
    assert "piece: middle from" in str(told)


def test_every_call_after_the_second_is_served():
    compiled = mica.compile(middle)
    for i in range(5):
        compiled(x(i))
    told = report(compiled)
    pieces = [p for p in told.pieces if p.graphs]
    assert [p.hits for p in pieces] == [3, 3], str(told)
    assert [len(p.graphs) for p in pieces] == [1, 1]


def test_the_first_call_has_its_effects_once():
    compiled = mica.compile(middle)
    LOG.clear()
    compiled(x())
    assert len(LOG) == 1
    compiled(x())
    assert len(LOG) == 2


def test_fullgraph_raises_and_cuts_nothing():
    compiled = mica.compile(middle, fullgraph=True)
    for _ in range(2):
        with pytest.raises(mica.CaptureError, match="getpid"):
            compiled(x())
    assert not report(compiled).cuts


def test_values_of_tensors_reach_the_step():
    def fn(a):
        b = a * 2
        note(round(float(b.sum()), 3))
        return torch.tanh(b)

    in_pieces(fn)


def test_a_printed_tensor(capsys):
    def fn(a):
        b = a + 1
        print(b, file=sys.stdout, flush=os.getpid() > 0)
        return b * b

    compiled = mica.compile(fn)
    for i in range(5):
        want = fn(x(i))
        text = capsys.readouterr().out
        same(compiled(x(i)), want)
        assert capsys.readouterr().out == text
    assert report(compiled).last_graphs == 2


def test_logging_of_a_value(caplog):
    caplog.set_level(logging.INFO)

    def fn(a):
        b = torch.sigmoid(a)
        logging.getLogger("mica.test").info("mean %.4f", b.mean().item())
        return b - a

    compiled = mica.compile(fn)
    for i in range(5):
        want = fn(x(i))
        same(compiled(x(i)), want)
        first, second = caplog.messages[-2:]
        assert first == second
        caplog.clear()
    assert report(compiled).last_graphs >= 2, str(report(compiled))


def test_time_is_read_at_each_call():
    seen = []

    def fn(a):
        b = a.cos()
        start = time.perf_counter()
        c = b @ b.t()
        seen.append(time.perf_counter() - start)
        return c

    compiled = mica.compile(fn)
    for i in range(6):
        same(compiled(x(i)), fn(x(i)))
    assert len(seen) == 12
    assert all(t >= 0 for t in seen)
    assert report(compiled).last_graphs >= 1, str(report(compiled))


def test_numpy_on_a_value():
    def fn(a):
        b = a * 3
        c = np.fft.fft(b.numpy()).real.astype(np.float32)
        return torch.from_numpy(c) + b

    in_pieces(fn, calls=4)


def test_numbers_that_no_graph_has():
    def fn(a):
        b = torch.relu(a * 2)
        c = torch.fft.fft(b).abs()
        return c.sum() + b.mean()

    compiled = in_pieces(fn)
    assert report(compiled).last_graphs >= 1, str(report(compiled))


class Noting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, a):
        b = self.linear(a)
        note("inner")
        return torch.relu(b)


class Outer(nn.Module):
    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.layers = nn.ModuleList(layers)
        self.last = nn.Linear(4, 4)

    def forward(self, a):
        a = self.first(a).tanh()
        for layer in self.layers:
            a = layer(a) + a
        return self.last(a).sigmoid()


def test_a_cut_in_a_submodule():
    model = nn.Sequential(nn.Linear(4, 4), Noting(), nn.Linear(4, 4)).eval()
    compiled = in_pieces(model, graphs=4)
    assert all(not p.left_eager for p in report(compiled).pieces)


def test_a_cut_in_a_module_of_a_loop():
    model = Outer(nn.Linear(4, 4), Noting(), nn.ReLU()).eval()
    in_pieces(model, graphs=9)


def test_a_module_that_is_cut_reads_its_weights_anew():
    model = Noting().eval()
    compiled = in_pieces(model, graphs=2)
    with torch.no_grad():
        model.linear.weight.add_(1)
    same(compiled(x()), model(x()))
    model.linear.weight.data = torch.zeros(4, 4)
    same(compiled(x()), model(x()))


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


def test_recursion():
    def down(a, n):
        b = a * 2
        note(n)
        if n > 0:
            b = b + down(b, n - 1)
        return torch.tanh(b)

    in_pieces(lambda a: down(a, 3), graphs=8)


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


def test_state_that_counts():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0
            self.linear = nn.Linear(4, 4)

        def forward(self, a):
            b = self.linear(a).relu()
            self.count += 1
            return self.linear(b) * self.count

    torch.manual_seed(0)
    mine, theirs = Counting().eval(), Counting().eval()
    theirs.load_state_dict(mine.state_dict())
    compiled = mica.compile(mine)
    for i in range(8):
        same(compiled(x(i)), theirs(x(i)))
        assert mine.count == theirs.count


def test_lists_that_grow():
    held = []

    def fn(a):
        b = a * 2 + 1
        held.append(len(held))
        return b.tanh() * 3

    compiled = mica.compile(fn)
    for i in range(8):
        same(compiled(x(i)), fn(x(i)))
    assert held == list(range(16))


def test_what_comes_free_of_the_cut_is_one_graph_again():
    state = {"noisy": True}

    def fn(a):
        b = a * 2
        if state["noisy"]:
            note("noise")
        return b + 1

    compiled = in_pieces(fn, graphs=2)
    state["noisy"] = False
    for i in range(4):
        same(compiled(x(i)), fn(x(i)))
    assert report(compiled).hits > 0, str(report(compiled))
    state["noisy"] = True
    for i in range(4):
        LOG.clear()
        same(compiled(x(i)), fn(x(i)))
        assert len(LOG) == 2


def test_gradients_are_those_of_eager():
    linear = nn.Linear(4, 4)

    def fn(a):
        b = linear(a).relu()
        note("grad")
        return linear(b).sum()

    compiled = mica.compile(fn)
    with torch.enable_grad():
        for i in range(5):
            grads = []
            for f in (fn, compiled):
                linear.zero_grad()
                f(x(i)).backward()
                assert linear.weight.grad is not None
                grads.append(linear.weight.grad.clone())
            same(grads[0], grads[1])


def test_objects_die_as_they_should():
    class Thing:
        pass

    things = []

    def fn(a, thing):
        b = a * 2
        note("x")
        things.append(weakref.ref(thing))
        return b + 1

    compiled = mica.compile(fn)
    for i in range(6):
        compiled(x(i), Thing())
    gc.collect()
    assert things[-1]() is None or report(compiled).split_calls
    del compiled
    gc.collect()
    assert all(ref() is None for ref in things)


def test_reference_counts_stay():
    marker = object()
    key = "kept" * 3
    inputs = x()

    def fn(a, m):
        b = a * 2
        local = m
        for i in range(2):
            note(i)
            b = b + 1
        return b, local, key

    compiled = mica.compile(fn)
    for _ in range(6):
        compiled(inputs, marker)
    before = [sys.getrefcount(o) for o in (marker, key, inputs)]
    for _ in range(50):
        compiled(inputs, marker)
        LOG.clear()
    after = [sys.getrefcount(o) for o in (marker, key, inputs)]
    assert after == before


def test_a_compiled_callable_dies_with_its_pieces():
    def fn(a):
        b = a * 2
        note("x")
        return b

    compiled = mica.compile(fn)
    for i in range(4):
        compiled(x(i))
    gone = weakref.ref(fn)
    del fn, compiled
    gc.collect()
    assert gone() is None


def test_the_interpreter_is_left_as_it_was():
    compiled = in_pieces(middle, graphs=2)
    calls = []

    def look(frame, event, _):
        calls.append((frame.f_code.co_name, event))

    sys.setprofile(look)
    try:
        compiled(x())
    finally:
        sys.setprofile(None)
    assert ("note", "call") in calls
    assert sys.gettrace() is None

    def traced(frame, event, _):
        lines.append(frame.f_lineno)
        return traced

    lines: list[int] = []
    sys.settrace(traced)
    try:
        compiled(x())
    finally:
        sys.settrace(None)
    first = middle.__code__.co_firstlineno
    assert {first + 1, first + 2, first + 3} <= set(lines)


def test_torch_compile_beside_it():
    inner = torch.compile(lambda a: a * 2 + 1, backend="eager")

    def fn(a):
        b = a + 1
        note("x")
        return inner(b) * 3

    try:
        in_pieces(fn)
        same(inner(x()), x() * 2 + 1)
    finally:
        torch._dynamo.reset()


def test_reset_forgets_the_cuts():
    compiled = in_pieces(middle, graphs=2)
    mica.reset(compiled)
    told = report(compiled)
    assert not told.cuts
    assert not told.pieces
    assert told.split_calls == 0


def test_code_that_cannot_be_taken_apart_runs_eagerly():
    source = "def fn(a):\n    b = a + 1\n    note(1)\n    match b:\n"
    source += "        case [_, *rest]:\n            b = b * 2\n"
    source += "        case int():\n            b = b * 3\n    return b\n"
    names: dict[str, Any] = {"note": note}
    exec(compile(source, __file__, "exec"), names)
    in_pieces(names["fn"])


def test_what_a_context_left_on_the_stack_makes_no_new_records():
    def fn(a):
        b = a * 2
        note(1)
        with torch.no_grad():
            c = b + 1
            note(2)
            d = c * b
        return d

    with torch.no_grad():
        compiled = in_pieces(fn, graphs=3)
    assert [(len(p.graphs), p.hits) for p in report(compiled).pieces] == [
        (1, 4),
        (1, 4),
        (1, 4),
    ]


class Loud:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(("del", self.name))


def test_what_nobody_reads_any_more_lives_on():
    def fn(a):
        loud = Loud("r")
        b = a * 2
        note(1)
        loud = None
        c = b + 1
        note(2)
        for k in range(2):
            held = Loud(k)
            c = c + 1
            note("k")
        held = [Loud("nested")]
        note(3)
        return c if loud is None else held

    in_pieces(fn)


def test_a_weak_reference_to_what_nobody_reads():
    class Thing:
        pass

    def fn(a):
        thing = Thing()
        thing.b = a * 2
        weak = weakref.ref(thing)
        note(1)
        c = a + 1
        note(2)
        return weak().b + c

    in_pieces(fn)


def test_a_generator_that_nobody_reads_is_closed_at_the_end():
    def numbers(a):
        b = a * 2
        try:
            yield b
            yield b + 1
        finally:
            note("closed")

    def fn(a):
        stream = numbers(a)
        b = next(stream) + next(stream)
        note("between")
        return b * 2

    def half(a):
        stream = numbers(a)
        b = next(stream)
        note("between")
        c = b * next(stream)
        note("then")
        return c

    in_pieces(fn)
    in_pieces(half)


def test_a_training_step_in_pieces():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.drop = nn.Dropout(0.3)
            self.last = nn.Linear(4, 2)

        def forward(self, a):
            b = self.first(a).tanh()
            note(float(b.detach().mean()))
            return self.last(self.drop(b))

    def step(net, optimizer, a):
        optimizer.zero_grad()
        loss = net(a).square().mean()
        note("forward")
        loss.backward()
        note("backward")
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        note("step")
        return loss.detach()

    torch.manual_seed(0)
    mine, theirs = Net(), Net()
    theirs.load_state_dict(mine.state_dict())
    sides = []
    for net in (mine, theirs):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        sides.append((net, optimizer))
    compiled = mica.compile(lambda a: step(*sides[0], a), exact=True)
    with torch.enable_grad():
        for i in range(10):
            seen = []
            for fn in (compiled, lambda a: step(*sides[1], a)):
                torch.manual_seed(i)
                LOG.clear()
                loss = fn(x(i))
                seen.append((loss, loss.requires_grad, list(LOG)))
                seen[-1] += (torch.rand(1),)
            same(*seen)
            same(dict(mine.named_parameters()), dict(theirs.named_parameters()))
    assert report(compiled).split_calls >= 6


def test_threads_share_the_pieces():
    linear = nn.Linear(4, 4).eval()

    def fn(a):
        b = linear(a)
        for k in range(3):
            b = torch.tanh(b) + k
            os.getpid()
            try:
                b = b * 2
                os.getppid()
            finally:
                b = b - 1
        return b

    compiled = mica.compile(fn)
    errors = []

    def work(number):
        try:
            with torch.no_grad():
                for i in range(30):
                    rows = 3 if (number + i) % 5 else 5
                    a = x(number * 1000 + i, rows, 4)
                    same(compiled(a), fn(a))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert report(compiled).split_calls > 0


def test_a_module_that_the_first_call_imports_is_no_cut(tmp_path, monkeypatch):
    name = f"imported_{os.getpid()}"
    text = "import os\n\nN = os.getpid()\nM = eval(compile('2', '', 'eval'))\n"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    source = f"def fn(a):\n    import {name}\n    return a * {name}.M + 1\n"
    names: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), names)
    compiled = mica.compile(names["fn"])
    for i in range(4):
        same(compiled(x(i)), x(i) * 2 + 1)
    told = report(compiled)
    assert told.hits >= 1, str(told)
    assert not told.split_calls, str(told)


def under_no_grad(a):
    b = a * 2
    note(1)
    with torch.no_grad():
        c = b + 1
        note(2)
        d = c * b
    return d


def test_fail_on_recompile_takes_what_pieces_serve():
    compiled = mica.compile(under_no_grad)
    with mica.stance("fail_on_recompile"):
        with pytest.raises(mica.CaptureError, match="no record"):
            compiled(x())
    for i in range(3):
        compiled(x(i))
    with mica.stance("fail_on_recompile"), torch.enable_grad():
        with pytest.raises(mica.CaptureError, match="grad"):
            compiled(x(3))
        assert torch.is_grad_enabled()
    with mica.stance("fail_on_recompile"):
        same(compiled(x(4)), under_no_grad(x(4)))
        LOG.clear()
        # The function runs to its end, eagerly, before it is told.
        with pytest.raises(
            mica.CaptureError, match=r"f32\[3,4\], got f32\[7,3\]"
        ):
            compiled(x(5, 7, 3))
        assert len(LOG) == 2
        same(compiled(x(6)), under_no_grad(x(6)))


def test_check_looks_into_pieces():
    compiled = mica.compile(under_no_grad)
    for i in range(3):
        compiled(x(i))
    with mica.stance("check"):
        for i in range(3):
            LOG.clear()
            same(compiled(x(i)), under_no_grad(x(i)))
            assert len(LOG) == 4


def test_check_names_a_difference_in_a_piece():
    count = [0.0]

    def noisy(a):
        count[0] += 1.0
        return a + count[0]

    mica.annotate(noisy, "pure")
    modes = []

    def fn(a):
        b = a * 2
        note(1)
        with torch.set_grad_enabled(not torch.is_grad_enabled()):
            c = noisy(b)
            note(2)
        modes.append(c)
        return c * 2

    compiled = mica.compile(fn)
    for i in range(3):
        compiled(x(i))
    mode = torch.is_grad_enabled()
    done = len(modes)
    with mica.stance("check"):
        LOG.clear()
        with pytest.raises(mica.CheckError, match="the record has"):
            compiled(x(3))
    # What eager did stays, to the end.
    assert torch.is_grad_enabled() is mode
    assert [number for _, number in LOG] == [1, 2]
    assert len(modes) == done + 1


def test_check_in_a_piece_sees_that_eager_raises():
    calls = []

    def moody():
        calls.append(0)
        if len(calls) > 3:
            raise ValueError("no")

    mica.annotate(moody, "pure")

    def fn(a):
        b = a * 2
        note(1)
        try:
            moody()
            c = b + 1
        finally:
            note("last")
        return c

    compiled = mica.compile(fn)
    for i in range(3):
        compiled(x(i))
    calls += [0, 0, 0]
    with mica.stance("check"):
        LOG.clear()
        with pytest.raises(mica.CheckError, match="eager raises ValueError"):
            compiled(x(3))
    assert LOG[-1][1] == "last"


def test_a_type_that_the_first_call_makes_is_no_cut():
    def fn(a):
        kind = typing.Optional["torch.never_before"]
        return a * 2 if kind is not None else a

    compiled = mica.compile(fn)
    for i in range(4):
        same(compiled(x(i)), x(i) * 2)
    told = report(compiled)
    assert not told.split_calls, str(told)
    assert told.hits >= 1, str(told)


def test_what_is_disabled_has_no_pieces():
    inner = Outer(nn.ReLU()).eval()
    run = mica.disable(lambda a: inner(a) + 1)

    def fn(a):
        b = a * 2
        note("disabled")
        return run(b) * 2

    compiled = in_pieces(fn, graphs=2)
    assert {piece.name for piece in report(compiled).pieces} == {
        fn.__qualname__
    }

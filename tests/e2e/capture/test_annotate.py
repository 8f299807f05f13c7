"""mica.annotate: what users know of callables."""

import contextlib
import gc
import io
import queue
import time
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import mica


def served(fn):
    told = mica.explain(fn)
    return told.hits if told.graphs else 0


def refusal(fn):
    return " ".join(map(str, mica.explain(fn).refusals))


@pytest.mark.once("an annotation stays")
def test_an_unknown_function_in_c_is_refused_until_annotated():
    def program(x):
        time.get_clock_info("time")
        return x + 1

    fn = mica.compile(program)
    fn(torch.ones(1))
    assert "get_clock_info" in refusal(fn)
    mica.annotate(time.get_clock_info, "pure")
    fn = mica.compile(program)
    for _ in range(3):
        assert fn(torch.ones(1)).item() == 2.0
    assert served(fn) == 2


def test_a_pure_function_in_python_is_not_looked_into():
    seen = []

    def opaque(n):
        seen[len(seen) :] = [n]  # A change of older state would be refused.
        return n + 1

    fn = mica.compile(lambda x, n: x * opaque(n))
    fn(torch.ones(1), 2)
    assert "changes state" in refusal(fn) or not mica.explain(fn).graphs
    mica.annotate(opaque)
    fn = mica.compile(lambda x, n: x * opaque(n))
    assert fn(torch.ones(1), 2).item() == 3.0
    assert fn(torch.ones(1), 2).item() == 3.0
    assert fn(torch.ones(1), 4).item() == 5.0
    assert served(fn) == 1
    assert seen == [2, 2, 4]


def test_what_torch_does_in_a_pure_function_is_recorded():
    @mica.annotate(kind="pure")
    def scaled(x):
        time.time()  # Refused, if it were followed.
        return x.mul(2).relu()

    fn = mica.compile(lambda x: scaled(x) + 1)
    for value in (1.0, 5.0, -3.0):
        x = torch.full((2,), value)
        assert torch.equal(fn(x), scaled(x) + 1)
    assert served(fn) == 2


def test_a_pure_function_replaced_is_a_miss():
    class Box:
        pass

    box = Box()
    box.f = mica.annotate(lambda: 1)
    fn = mica.compile(lambda x: x + box.f())
    fn(torch.zeros(1))
    box.f = lambda: 5
    assert fn(torch.zeros(1)).item() == 5.0
    box.f.__code__ = (lambda: 7).__code__
    assert fn(torch.zeros(1)).item() == 7.0


def test_host_calls_are_made_again_in_order():
    log = []

    def note(*args):
        log.append(
            tuple(float(a) if not isinstance(a, str) else a for a in args)
        )

    def other(text):
        log.append(text)

    mica.annotate(note, "host")
    mica.annotate(other, "host")

    def program(x):
        y = x.sum()
        note("sum", y.item())
        other("between")
        note("tensor", y * 2)
        return y

    fn = mica.compile(program)
    for value in (1.0, 2.0, 3.0):
        fn(torch.full((2,), value))
    assert log == [
        entry
        for s in (2.0, 4.0, 6.0)
        for entry in (("sum", s), "between", ("tensor", 2 * s))
    ]
    # A float that was a constant becomes an input once it varied.
    assert served(fn) >= 1


def test_print_of_tensors_and_numbers_is_served():
    def program(x):
        y = x * 2
        print("y is", y)
        return y

    fn = mica.compile(program)
    texts = []
    for value in (1.0, 2.0, 3.0):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            fn(torch.full((2,), value))
        texts.append(out.getvalue())
    assert served(fn) == 2
    assert texts == [f"y is tensor([{v}., {v}.])\n" for v in (2, 4, 6)]


def test_a_tensor_written_after_a_host_call_is_refused():
    seen = []
    note = mica.annotate(lambda t: seen.append(t.clone()), "host")

    def program(x):
        y = x + 1
        note(y)
        y.add_(1)
        return y

    fn = mica.compile(program)
    for _ in range(2):
        fn(torch.zeros(1))
    assert [s.item() for s in seen] == [1.0, 1.0]
    assert "world outside was given it" in refusal(fn)


def test_a_host_call_whose_result_is_used_is_refused():
    tick = mica.annotate(lambda: 3, "host")
    fn = mica.compile(lambda x: x + tick())
    for _ in range(2):
        assert fn(torch.zeros(1)).item() == 3.0
    assert "returns" in refusal(fn)


def test_a_host_call_given_a_list_is_refused():
    note = mica.annotate(lambda items: None, "host")

    def program(x):
        note([x])
        return x + 1

    fn = mica.compile(program)
    fn(torch.zeros(1))
    assert "a list" in refusal(fn)


def test_host_calls_of_bound_methods():
    class Writer:
        def __init__(self):
            self.lines = []

        def add(self, name, value, step=0):
            self.lines.append((name, float(value), step))

    mica.annotate(Writer.add, "host")
    writer = Writer()

    def program(x):
        loss = x.square().mean()
        writer.add("loss", loss, step=3)
        return loss

    fn = mica.compile(program)
    for value in (1.0, 2.0, 3.0):
        fn(torch.full((2,), value))
    assert writer.lines == [("loss", v * v, 3) for v in (1.0, 2.0, 3.0)]
    assert served(fn) == 2


def test_a_host_call_that_raises_passes_its_error_on():
    armed = []

    def note(text):
        if armed:
            raise ValueError(text)

    mica.annotate(note, "host")

    def program(x):
        note("stop")
        return x + 1

    fn = mica.compile(program)
    fn(torch.zeros(1))
    fn(torch.zeros(1))
    armed.append(1)
    with pytest.raises(ValueError, match="stop"):
        fn(torch.zeros(1))
    armed.clear()
    assert fn(torch.zeros(1)).item() == 1.0


def test_what_ends_the_graph_does_so():
    stop = mica.annotate(lambda x: x, "ends_graph")
    fn = mica.compile(lambda x: stop(x) + 1)
    for _ in range(2):
        assert fn(torch.zeros(1)).item() == 1.0
    assert "annotated to end the graph" in refusal(fn)
    assert not mica.explain(fn).graphs


def test_values_read_are_guarded():
    def peek(t):
        return int(np.asarray(t.detach())[0])

    mica.annotate(peek, "pure", reads=[0])
    fn = mica.compile(lambda x: x * peek(x))
    assert fn(torch.tensor([2.0])).item() == 4.0
    assert fn(torch.tensor([2.0])).item() == 4.0
    assert fn(torch.tensor([3.0])).item() == 9.0
    assert served(fn) == 1
    big = mica.compile(lambda x: x * peek(x))
    big(torch.ones(100))
    assert "large tensor" in refusal(big)


def test_a_float_that_comes_of_a_value_read_is_not_that_value():
    positive = mica.annotate(lambda t: max(t.item(), 0.0), "pure", reads=[0])
    fn = mica.compile(lambda x: x.new_ones(1) * positive(x))
    assert fn(torch.tensor([2.0])).item() == 2.0
    for value in (-1.0, 3.0, -5.0, 4.0):
        assert fn(torch.tensor([value])).item() == max(value, 0.0)


def test_a_tensor_written_past_torch_is_refused():
    def fill(t):
        t.numpy()[:] = 5.0

    mica.annotate(fill, "pure", changes=[0])

    def program(x):
        y = x + 1
        fill(y)
        return y

    fn = mica.compile(program)
    for _ in range(2):
        assert fn(torch.zeros(2)).tolist() == [5.0, 5.0]
    assert "past torch" in refusal(fn)


def test_annotations_live_as_long_as_their_functions():
    function = mica.annotate(lambda: 1, "ends_graph")
    alive = weakref.ref(function)
    del function
    gc.collect()
    assert alive() is None


def test_wrong_annotations_are_errors():
    with pytest.raises(ValueError):
        mica.annotate(len, "magic")
    with pytest.raises(TypeError, match="bound method"):
        mica.annotate([].append, "pure") if False else mica.annotate(
            torch.nn.Linear(1, 1).forward, "pure"
        )
    with pytest.raises(TypeError):
        mica.annotate(3)


def test_a_method_in_c_gets_what_it_is_bound_to_once():
    mica.annotate(queue.SimpleQueue.put, "host")
    told: Any = queue.SimpleQueue()

    def program(a):
        put = told.put
        put(5)
        told.put(6)
        return a + 1

    compiled = mica.compile(program)
    for _ in range(3):
        compiled(torch.ones(2))
    assert mica.explain(compiled).hits == 2
    assert [told.get() for _ in range(told.qsize())] == [5, 6] * 3

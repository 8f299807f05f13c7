"""The records of a callable: order, bound, statistics, what is told."""

import gc
import itertools
import xml.etree.ElementTree

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell

import mica


def double(x, k=2):
    return x * k


def outcome(fn, *args, **kwargs):
    return call_and_tell(fn, *args, **kwargs)[1]


def outcomes(fn, sizes):
    return [outcome(fn, torch.ones(size)) for size in sizes]


def sizes_of(fn):
    return [
        dict(record.program.inputs)["x"][4:-1] for record in mica.records(fn)
    ]


def test_exact_sequence_of_hits_and_misses():
    fn = mica.compile(double, dynamic=False)
    assert outcomes(fn, [2, 2, 3, 2, 3, 3, 4, 2]) == list("chchhhch")
    assert sizes_of(fn) == ["2", "4", "3"]  # Most recently hit first.
    assert [r.hits for r in mica.records(fn)] == [3, 0, 2]


def test_the_bound_drops_what_was_hit_least_recently():
    fn = mica.compile(double, dynamic=False)
    for size in range(2, 18):  # 16 records.
        assert outcome(fn, torch.ones(size)) == "c"
        assert outcome(fn, torch.ones(size)) == "h"
    assert outcome(fn, torch.ones(2)) == "h"
    assert outcome(fn, torch.ones(30)) == "c"
    told = mica.explain(fn)
    assert len(told.graphs) == 16 and told.dropped == 1
    assert sizes_of(fn)[:2] == ["30", "2"]
    assert outcome(fn, torch.ones(2)) == "h"
    assert outcome(fn, torch.ones(3)) == "c"  # It was the oldest.
    assert mica.explain(fn).dropped == 2
    mica.reset(fn)
    assert mica.explain(fn).dropped == 0 and not mica.records(fn)


def test_misses_are_counted_by_reason():
    class Net(torch.nn.Module):
        scale = 2

        def forward(self, x, k=1):
            if x.sum() > 0:
                return x * self.scale * k
            return x - self.scale * k

    net = Net()
    fn = mica.compile(net)
    x = torch.ones(2)
    fn(x)
    fn(x, k=2)  # An input.
    fn(torch.ones(3), k=2)
    net.scale = 3
    fn(x, k=2)  # State.
    with torch.enable_grad():
        fn(x, k=2)
    fn(-x, k=2)  # Grad mode, as the most recent record sees it.
    fn(x, k=2)
    told = mica.explain(fn)
    assert told.misses_by_kind["input"] >= 2
    assert sum(told.misses_by_kind.values()) == sum(
        reason.count for reason in told.misses
    )
    assert told.misses_by_kind["torch state"] >= 1
    mica.reset(fn)
    assert mica.explain(fn).misses_by_kind == {}


def test_each_miss_is_told_with_a_line(monkeypatch, capfd):
    monkeypatch.setenv("MICA_LOGS", "recompiles,guards")
    fn = mica.compile(double)
    fn(torch.ones(2))
    err = capfd.readouterr().err
    assert "mica guard double: x is f32[2]" in err
    fn(torch.ones(2))
    assert capfd.readouterr().err == ""
    fn(torch.ones(3))
    lines = capfd.readouterr().err.splitlines()
    told = [line for line in lines if line.startswith("mica recompiles")]
    assert len(told) == 1
    assert told[0].startswith(
        "mica recompiles double, record 2: x: recorded f32[2], got"
    )
    assert f"({__file__}:" in told[0]


def test_a_dropped_record_is_told(monkeypatch, capfd):
    monkeypatch.setenv("MICA_LOGS", "recompiles")
    fn = mica.compile(double, dynamic=False)
    for size in range(2, 19):
        fn(torch.ones(size))
    err = capfd.readouterr().err
    assert err.count("mica drops the record of double") == 1
    assert err.count("mica recompiles double") == 16


# ---- mark_dynamic ----


def test_marked_sizes_count_as_one():
    fn = mica.compile(double, dynamic=False)
    for size in range(2, 40):
        x = torch.ones(size)
        if size == 2:
            mica.mark_dynamic(x, 0)
        assert outcome(fn, x) == "c"
    told = mica.explain(fn)
    assert len(told.graphs) == 38 and told.dropped == 0
    assert not told.given_up
    assert outcomes(fn, range(2, 40)) == ["h"] * 38
    # Other records count as before.
    for k in range(3, 21):
        fn(torch.ones(2), k)
    told = mica.explain(fn)
    assert not told.given_up


def test_without_a_mark_ever_new_sizes_are_given_up():
    fn = mica.compile(double, dynamic=False)
    for size in range(2, 40):
        fn(torch.ones(size))
    assert mica.explain(fn).given_up


def test_sizes_that_vary_are_one_record():
    fn = mica.compile(double)
    told = [outcome(fn, torch.ones(size)) for size in range(2, 80)]
    assert told == ["c", "c"] + ["h"] * 76
    assert not mica.explain(fn).given_up


def test_sizes_that_are_a_record_each_count_as_one():
    functions = (torch.sin, torch.cos, torch.tanh, torch.relu, torch.abs)
    pairs = list(itertools.product(functions, (*functions, torch.sigmoid)))

    def looped(x):
        total = torch.zeros(x.shape[1])
        for t in range(x.shape[0]):
            # Not followed: no two rounds are alike.
            first, second = pairs[t]
            total = second(first(total)) + x[t]
        return total

    with mica.options.set(capture_budget=1e6):
        fn = mica.compile(looped)
    sizes = range(2, 31)
    for size in sizes:
        x = torch.randn(size, 4)
        torch.testing.assert_close(fn(x), looped(x))
    told = mica.explain(fn)
    assert told.captures == len(told.graphs) == 29
    assert not told.given_up and "calls" in told.fixed_sizes
    for size in sizes:
        x = torch.randn(size, 4)
        torch.testing.assert_close(fn(x), looped(x))
    assert mica.explain(fn).hits == 29


def test_marked_sizes_have_a_bound_too():
    fn = mica.compile(double, dynamic=False)
    for size in range(2, 70):
        x = torch.ones(size, 2)
        mica.mark_dynamic(x, -2)
        fn(x)
    told = mica.explain(fn)
    assert len(told.graphs) == 64 and told.dropped == 4
    assert torch.equal(fn(torch.ones(69, 2)), torch.full((69, 2), 2.0))


def test_only_the_marked_size_is_expected_to_vary():
    fn = mica.compile(double, dynamic=False)
    x = torch.ones(2, 2)
    mica.mark_dynamic(x, 0)
    fn(x)
    for size in range(3, 22):
        fn(torch.ones(2, size))
    assert len(mica.records(fn)) == 16


def test_marks_are_forgotten_with_tensors_and_by_reset():
    fn = mica.compile(double, dynamic=False)
    x = torch.ones(2)
    mica.mark_dynamic(x, 0)
    fn(x)
    mica.reset(fn)
    del x
    gc.collect()
    for size in range(2, 20):
        fn(torch.ones(size))
    assert len(mica.records(fn)) == 16


def test_wrong_marks_are_errors():
    with pytest.raises(IndexError, match="dim 1 of a tensor of 1"):
        mica.mark_dynamic(torch.ones(2), 1)
    with pytest.raises(TypeError):
        mica.mark_dynamic([1], 0)


# ---- explain ----


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)
        self.scale = 2
        self.seen = None

    def forward(self, x, y, rate=1.0):
        self.seen = x + y
        x.mul_(2)
        return self.fc(x) * self.scale * rate


def test_guards_tell_what_they_protect_and_where():
    net = Net()
    fn = mica.compile(net)
    x = torch.ones(1, 2)
    fn(x, x, 0.5)
    fn(x, x, 0.25)
    fn(x, x, 0.75)
    told = mica.explain(fn)
    graph = told.graphs[0]
    by_text = {claim.text: claim for claim in graph.claims}
    assert by_text["y is the same object as x"].protects == (
        "which arguments are one object"
    )
    assert "memory layout" in by_text["x is f32[1,2]"].protects
    scale = by_text["scale == 2"]
    assert "constant of the Program" in scale.protects
    assert scale.line == f"{__file__}:{Net.forward.__code__.co_firstlineno + 3}"
    assert graph.promotions == ["rate"]
    assert len(graph.guards) == len(graph.claims)
    text = told.details()
    assert "which arguments are one object:" in text
    assert "promoted scalars: rate" in text
    assert "sets seen" in text


def test_what_is_written_is_told_to_lie_apart():
    net = Net()
    fn = mica.compile(net)
    fn(torch.ones(1, 2), torch.ones(1, 2))
    texts = [claim.text for claim in mica.records(fn)[0].guards]
    assert "x, which is written, lies apart from the rest" in texts


def test_refusals_tell_how_to_mend_them():
    def program(x):
        return x * len(list(open(__file__)))  # noqa: SIM115

    told = mica.explain(program)(torch.ones(1))
    (reason,) = told.refusals
    assert f"{__file__}:" in reason.text and reason.mend


def test_drawings_are_svg_documents():
    net = Net()
    fn = mica.compile(net)
    fn(torch.ones(1, 2), torch.ones(1, 2))
    graph = mica.explain(fn).graphs[0]
    for text, words in (
        (graph.svg(), ["fc.weight", "addmm", "result", "sets x"]),
        (graph.state_svg(), ["scale == 2", "sets seen", "fc.weight"]),
    ):
        root = xml.etree.ElementTree.fromstring(text)
        assert root.tag.endswith("svg")
        shown = " ".join(root.itertext())
        for word in words:
            assert word in shown, (word, shown)

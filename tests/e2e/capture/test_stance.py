"""mica.stance, mica.disable, mica.reset and mica.records."""

import contextlib
import copy
import io
import threading

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import pure_until, report, same
from e2e.training import make_step
from torch import nn

import mica


def double(x):
    return x * 2


def counts(fn):
    told = mica.explain(fn)
    return told.hits, told.captures, told.eager_calls


def test_force_eager_runs_as_if_nothing_were_compiled():
    fn = mica.compile(double)
    x = torch.ones(3)
    fn(x)
    with mica.stance("force_eager"):
        fn(x)
        fn(torch.ones(4))
    assert counts(fn) == (0, 1, 2)
    fn(x)
    assert counts(fn) == (1, 1, 2)


def test_a_stance_is_a_function_too():
    fn = mica.compile(double)
    mica.stance("force_eager")
    try:
        fn(torch.ones(3))
    finally:
        mica.stance("default")
    assert counts(fn) == (0, 0, 1)


def test_stances_nest():
    with mica.stance("force_eager"):
        with mica.stance("check"):
            pass
        fn = mica.compile(double)
        fn(torch.ones(2))
    assert counts(fn) == (0, 0, 1)


def test_an_unknown_stance_is_an_error():
    with pytest.raises(ValueError, match='no stance "fast"'):
        mica.stance("fast")
    fn = mica.compile(double)
    fn(torch.ones(2))
    assert counts(fn) == (0, 1, 0)


def test_fail_on_recompile_serves_and_raises():
    calls = []

    def program(x, scale):
        calls.append(0)
        return x * scale

    def clean(x, scale):
        return x * scale

    fn = mica.compile(clean)
    with mica.stance("fail_on_recompile"):
        with pytest.raises(mica.CaptureError, match="has no record"):
            fn(torch.ones(2), 1)
    fn(torch.ones(2), 1)
    with mica.stance("fail_on_recompile"):
        assert fn(torch.ones(2), 1).tolist() == [1.0, 1.0]
        with pytest.raises(
            mica.CaptureError, match=r"scale: recorded 1, got 2"
        ):
            fn(torch.ones(2), 2)
    assert fn(torch.ones(2), 2).tolist() == [2.0, 2.0]


def test_fail_on_recompile_raises_where_a_number_was_read():
    def program(x):
        if x.sum() > 0:
            x.add_(1)
            return x * 2
        return x * 3

    fn = mica.compile(program)
    fn(torch.ones(2))
    x = -torch.ones(2)
    with mica.stance("fail_on_recompile"):
        with pytest.raises(mica.CaptureError, match="reads from a tensor"):
            fn(x)
    assert x.tolist() == [-1.0, -1.0]


# ---- check ----


def checked(program, *args, calls=3, **kwargs):
    fn = mica.compile(program)
    fn(*args, **kwargs)
    with mica.stance("check"):
        results = [fn(*args, **kwargs) for _ in range(calls)]
    assert mica.explain(fn).hits == calls
    return results


def test_check_lets_right_records_pass():
    x = torch.randn(4, 4)
    for result in checked(lambda x: (x @ x, bool(x.sum() > 1e9)), x):
        torch.testing.assert_close(result[0], x @ x)


def test_check_makes_each_effect_once():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(()))
            self.last = None

        def forward(self, x):
            self.total += x.sum()
            self.last = x * 2
            print("ran")
            return self.last

    module = Counter()
    x = torch.ones(3)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        results = checked(module, x)
    assert module.total.item() == 12.0
    assert module.last is results[-1]
    assert out.getvalue() == "ran\n" * 4


def test_check_writes_inputs_once_and_keeps_version_counters():
    x = torch.zeros(3)
    checked(lambda x: x.add_(1), x, calls=2)
    assert x.tolist() == [3.0, 3.0, 3.0]
    assert x._version == 3


@torch.enable_grad()
def test_check_trains_as_eager_does():
    def make():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
        return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    x = torch.randn(5, 3)

    def train(run, net, optimizer, stance):
        step = run(make_step(optimizer, lambda x: net(x).square().mean()))
        for number in range(8):
            with mica.stance(stance if number > 3 else "default"):
                step(x)
        return step

    net, optimizer = make()
    train(lambda f: f, net, optimizer, "default")
    other, other_optimizer = make()
    step = train(mica.compile, other, other_optimizer, "check")
    assert mica.explain(step).hits >= 4
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_check_draws_random_numbers_once():
    torch.manual_seed(0)
    want = [torch.rand(3) for _ in range(4)]
    torch.manual_seed(0)
    fn = mica.compile(lambda: torch.rand(3))
    fn()
    with mica.stance("check"):
        for number in want[1:]:
            assert torch.equal(fn(), number)


def test_check_names_a_result_that_differs():
    class Box:
        scale = 2.0

    # The user's word for it is wrong: it is pure of what the guards can't see.
    state = {"n": 0}

    def secret():
        state["n"] += 1
        return state["n"]

    mica.annotate(secret, "pure")
    fn = mica.compile(lambda x: x * secret())
    fn(torch.ones(2))
    with mica.stance("check"):
        with pytest.raises(mica.CheckError, match="state|result"):
            fn(torch.ones(2))


def test_check_names_an_element_that_differs():
    count = [0.0]

    def noisy(x):
        count[0] += 1.0
        return x + count[0]

    mica.annotate(noisy, "pure")

    def program(x):
        return {"y": noisy(x)}

    fn = mica.compile(program)
    fn(torch.ones(2))
    with (
        mica.stance("check", rtol=1e-3),
        pytest.raises(mica.CheckError) as info,
    ):
        fn(torch.ones(2))
    assert "program" in str(info.value)
    assert "the record has" in str(info.value)


def test_check_sees_what_eager_prints_and_the_record_does_not():
    def loud(x):
        print("loud")
        return x

    mica.annotate(loud, "pure")
    fn = mica.compile(lambda x: loud(x) * 2)
    fn(torch.ones(2))
    with mica.stance("check"):
        with pytest.raises(mica.CheckError, match="eager 'loud"):
            fn(torch.ones(2))


def test_check_sees_that_eager_raises():
    _, moody = pure_until(1)

    def program(x):
        moody()
        return x * 2

    fn = mica.compile(program)
    fn(torch.ones(2))
    with mica.stance("check"):
        with pytest.raises(mica.CheckError, match="eager raises ValueError"):
            fn(torch.ones(2))


def test_check_records_what_misses():
    fn = mica.compile(double)
    with mica.stance("check"):
        fn(torch.ones(2))
        fn(torch.ones(2))
        fn(torch.ones(3))
    assert counts(fn) == (1, 2, 0)


# ---- disable ----


def test_a_disabled_function_ends_the_graph():
    inner = mica.compile(double)

    @mica.disable
    def aside(x):
        return inner(x) + 1

    fn = mica.compile(lambda x: aside(x) * 3)
    x = torch.ones(2)
    for _ in range(3):
        assert fn(x).tolist() == [9.0, 9.0]
    assert "aside, which mica.disable keeps out of graphs" in str(
        mica.explain(fn)
    )
    assert mica.explain(inner).hits == 0
    assert mica.explain(inner).captures == 0


def test_fullgraph_raises_at_a_disabled_function():
    aside = mica.disable(double)
    fn = mica.compile(lambda x: aside(x), fullgraph=True)
    with pytest.raises(mica.CaptureError, match="mica.disable"):
        fn(torch.ones(2))


def test_a_disabled_function_that_c_code_calls_ends_the_graph():
    aside = mica.disable(double)
    fn = mica.compile(lambda x: list(map(aside, [x])))
    for _ in range(2):
        assert fn(torch.ones(1))[0].item() == 2.0
    assert not mica.explain(fn).graphs
    assert "mica.disable" in str(mica.explain(fn))


def test_a_disabled_block_runs_compiled_callables_eagerly():
    fn = mica.compile(double)
    fn(torch.ones(2))
    with mica.disable():
        fn(torch.ones(2))
        other = []

        def call():
            with torch.no_grad():
                other.append(fn(torch.ones(2)))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert counts(fn) == (1, 1, 1)  # The other thread's call was served.


def test_a_disabled_block_in_a_program_ends_the_graph():
    def program(x):
        with mica.disable():
            return x * 2

    fn = mica.compile(program)
    for _ in range(2):
        fn(torch.ones(2))
    assert "mica.disable()" in str(mica.explain(fn))
    assert not mica.explain(fn).graphs


def test_disabled_functions_keep_name_and_exceptions():
    @mica.disable
    def fails(x):
        """Says no."""
        raise KeyError("no")

    assert fails.__name__ == "fails" and fails.__doc__ == "Says no."
    with pytest.raises(KeyError):
        fails(1)
    fn = mica.compile(double)
    fn(torch.ones(1))
    fn(torch.ones(1))
    assert counts(fn)[0] == 1  # The block was left.


# ---- reset and records ----


def test_reset_forgets_all():
    one, two = mica.compile(double), mica.compile(lambda x: x + 1)
    for fn in (one, two):
        fn(torch.ones(2))
        fn(torch.ones(2))
    mica.reset()
    assert counts(one) == counts(two) == (0, 0, 0)
    assert mica.records(one) == []
    one(torch.ones(2))
    assert counts(one) == (0, 1, 0)


def test_records_are_data():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)
            self.seen = None

        def forward(self, x):
            self.seen = x + 1
            return self.fc(x)

    net = Net()
    fn = mica.compile(net)
    x = torch.ones(1, 2)
    with torch.no_grad():
        fn(x)
        fn(x)
        fn(torch.ones(3, 2))
        first, second = mica.records(fn)
    assert (first.hits, second.hits) == (0, 1)
    assert [e.text for e in first.effects] == ["sets seen"]
    assert __file__ in first.effects[0].line
    assert __file__ in first.line
    assert any(g.text.startswith("x is f32[3,2]") for g in first.guards)
    lines = [g.line for g in first.guards if g.text.startswith("fc")]
    assert any(__file__ in line for line in lines)
    assert dict(first.program.inputs) == {"x": "f32[3,2]"}
    assert first.program.tensors["fc.weight"] is net.fc.weight
    with pytest.raises(TypeError):
        mica.records(net)


def test_check_puts_arrays_and_data_back():
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    twin = copy.deepcopy(layer)

    def program(layer, array):
        torch.from_numpy(array).mul_(2)
        layer.weight.data = layer.weight.data * 0.5
        return layer(torch.from_numpy(array))

    f = mica.compile(lambda array: program(layer, array))
    with torch.no_grad():
        for _ in range(2):
            f(np.ones((2, 4), "f"))
            program(twin, np.ones((2, 4), "f"))
        with mica.stance("check"):
            for _ in range(2):
                array, other = np.ones((2, 4), "f"), np.ones((2, 4), "f")
                same(f(array), program(twin, other))
                assert array.tolist() == other.tolist()
                same(layer.weight, twin.weight)
    assert report(f).hits == 3

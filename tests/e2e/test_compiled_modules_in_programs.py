"""Compiled modules where other things run: backends, stances, programs."""

from __future__ import annotations

import functools
import gc
import subprocess
import sys
import weakref

import pytest
import torch
from e2e.modules_to_compile import (
    Net,
    Outer,
    agree,
    hits,
    made,
    plain,
    x,
)
from torch import nn

import mica

BY_THE_BACKEND = """
import copy, torch, mica
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, a):
        return self.fc(a).relu()

for wrap in (lambda net: net, mica.compile):
    one, twin = wrap(Net()), Net()
    twin.load_state_dict(one.state_dict())
    one.compile(backend="mica")
    with torch.no_grad():
        for i in range(4):
            x = torch.randn(3, 4)
            torch.testing.assert_close(one(x), twin(x))
    assert list(one.state_dict()) == list(twin.state_dict())
    torch.testing.assert_close(copy.deepcopy(one)(x), twin(x))
    assert sum(part.hits for part in mica.backend.explanations()) >= 2
"""


def test_modules_compile_by_the_backend(tmp_path):
    # In a process of its own: Dynamo keeps what it made for the next tests.
    script = tmp_path / "by_the_backend.py"
    script.write_text(BY_THE_BACKEND)
    subprocess.run([sys.executable, str(script)], check=True)


@pytest.mark.filterwarnings("ignore:Dynamo does not know")
def test_under_torch_compile():
    torch._dynamo.reset()
    outer = made(Outer, mica.compile)
    t = torch.compile(outer, backend="eager")
    with torch.no_grad():
        for i in range(3):
            torch.testing.assert_close(t(x(i)), made(Outer, plain)(x(i)))
    torch._dynamo.reset()


def test_stances_hold_for_compiled_modules():
    net = Net()
    m = mica.compile(net)
    agree(m, net)
    with torch.no_grad():
        for stance in ("check", "force_eager", "fail_on_recompile"):
            with mica.stance(stance):
                torch.testing.assert_close(m(x()), net(x()))
        with (
            mica.stance("fail_on_recompile"),
            pytest.raises(mica.CaptureError, match="Net"),
        ):
            m(x()[:2])


def test_a_refused_module_that_holds_itself_dies():
    class Refused(Net):
        def forward(self, a):
            import time

            time.sleep(0)
            return super().forward(a)

    m = mica.compile(Refused())
    m.step = m._call_impl
    for _ in range(3):
        m.step(x())
        m(x())
    ref = weakref.ref(m)
    del m
    gc.collect()
    assert ref() is None


def walks(m, a):
    for name, parameter in m.named_parameters():
        a = a + parameter.sum() * len(name)
    for module in m.modules():
        a = a + len(module._parameters)
    return a


def sets_attributes(m, a):
    m.scale = m.scale + 1
    m.last = a * 2
    return m.generate(a) + m.last


def sets_a_property(m, a):
    m.twice = m.twice + 1
    return m(a)


def writes_buffers(m, a):
    m.shift.add_(1)
    m.shift = m.shift * 1.5
    return m(a)


def looks_at_types(m, a):
    if isinstance(m, Net) and m.__class__.__name__ == type(m).__name__:
        return m(a)
    return a


def is_itself(m, a):
    return m(a) if m == m and m in [m] and {m: 2}[m] == 2 else a


def changes_its_mode(m, a):
    m.train(not m.training)
    return m(a) * (2 if m.training else 1)


def sums_its_state(m, a):
    return sum(v.sum() for v in m.state_dict().values()) + a


def calls_forward(m, a):
    return m.forward(a) + m(a)


@pytest.mark.parametrize(
    "program",
    [
        walks,
        sets_attributes,
        sets_a_property,
        writes_buffers,
        looks_at_types,
        is_itself,
        changes_its_mode,
        sums_its_state,
        calls_forward,
    ],
    ids=lambda program: program.__name__,
)
@pytest.mark.parametrize("stance", ["default", "check"])
def test_programs_over_compiled_modules_are_served(program, stance):
    found = []
    for wrap in (plain, mica.compile):
        m = made(lambda: wrap(Net()))
        run = functools.partial(program, m)
        fn = run if wrap is plain else mica.compile(lambda a: run(a))
        results = []
        with torch.no_grad(), mica.stance(stance):
            for i in range(8):
                if i == 6:
                    m.scale = 7.0
                results.append(fn(x(i)))
        attributes = {k: v for k, v in vars(m).items() if k[0] != "_"}
        found.append((results, list(vars(m)), attributes, m.state_dict()))
    assert found[0][1] == found[1][1]
    torch.testing.assert_close(found[1][0], found[0][0])
    torch.testing.assert_close(dict(found[1][2]), dict(found[0][2]))
    torch.testing.assert_close(dict(found[1][3]), dict(found[0][3]))
    assert hits(fn) >= 4, str(mica.explain(fn))


def test_a_training_step_over_a_compiled_module_is_one_graph():
    losses = []
    for wrap in (plain, mica.compile):
        m = made(lambda: wrap(Net()))
        optimizer = torch.optim.Adam(m.parameters(), lr=0.1)

        def step(a):
            m.zero_grad()
            loss = m(a).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        fn = wrap(step)
        losses.append([fn(x(i)) for i in range(8)])
    torch.testing.assert_close(losses[1], losses[0])
    assert hits(fn) >= 5 and mica.explain(fn).split_calls == 0

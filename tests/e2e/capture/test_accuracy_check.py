"""At its first hit, a record's kernels are held to ATen's."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

import mica

torch.manual_seed(0)
WEIGHT = torch.randn(64, 64) / 8
CALLS = 4


def chaos(x: torch.Tensor) -> torch.Tensor:
    """Doubles a difference of its input at each of its steps."""
    for _ in range(40):
        x = 3.99 * x * (1 - x)
    return x


def sensitive(x: torch.Tensor) -> torch.Tensor:
    return chaos(torch.sigmoid(x @ WEIGHT.to(x.dtype)))


def graph_of(compiled):
    (graph,) = mica.explain(compiled).graphs
    return graph


def sensitive_sum(x: torch.Tensor) -> torch.Tensor:
    """The same in float64, where products are ATen's anyway."""
    return chaos(torch.sigmoid(x.sum(1) / 8))


@pytest.mark.parametrize(
    ("program", "dtype"),
    [(sensitive, torch.float32), (sensitive_sum, torch.float64)],
)
def test_what_multiplies_a_rounding_runs_atens_kernels(program, dtype):
    compiled = mica.compile(program)
    for _ in range(CALLS):
        x = torch.randn(8, 64, dtype=dtype)
        assert torch.equal(compiled(x), program(x))
    graph = graph_of(compiled)
    assert graph.hits == CALLS - 1
    assert graph.inaccuracy.startswith("result 0 would differ by")
    assert set(graph.ops) == set(graph.opaque)
    assert graph.inaccuracy in str(mica.explain(compiled))


def test_products_in_float64_are_eagers():
    def program(x: torch.Tensor) -> torch.Tensor:
        return chaos((x @ WEIGHT.double()).clamp(0.1, 0.9))

    compiled = mica.compile(program)
    for _ in range(CALLS):
        x = torch.randn(8, 64, dtype=torch.float64)
        assert torch.equal(compiled(x), program(x))
    assert graph_of(compiled).inaccuracy == ""


def test_it_is_logged():
    code = """
        from tests.e2e.capture.test_accuracy_check import *
        compiled = mica.compile(sensitive)
        for _ in range(3):
            compiled(torch.randn(8, 64))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "MICA_LOGS": "recompiles"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [
        line for line in done.stderr.splitlines() if "ATen's kernels" in line
    ]
    assert "mica runs sensitive by ATen's kernels" in line


def test_what_does_not_keeps_its_kernels():
    net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)).eval()
    compiled = mica.compile(net)
    with torch.no_grad():
        for _ in range(CALLS):
            compiled(torch.randn(8, 64))
    graph = graph_of(compiled)
    assert graph.inaccuracy == ""
    assert not graph.opaque


def test_small_results_beside_large_ones_are_eagers_too():
    def large(x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = (x * 300) @ WEIGHT - 0.5 * x
        return x

    compiled = mica.compile(large)
    for _ in range(CALLS):
        x = torch.randn(256, 64)
        got, want = compiled(x), large(x)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert want.std() > 1e9


@pytest.mark.parametrize(
    "program",
    [
        lambda x: sensitive(x) * 1e12,
        lambda x: sensitive(x).masked_fill(x > 0, -1e9),
        lambda x: sensitive(x).masked_fill(x > -1.5, torch.finfo().min),
    ],
    ids=["large", "half masked", "almost all masked"],
)
def test_errors_beside_large_numbers_are_seen(program):
    compiled = mica.compile(program)
    for _ in range(CALLS):
        x = torch.randn(1024, 64)
        assert torch.equal(compiled(x), program(x))
    assert graph_of(compiled).inaccuracy


def test_what_happens_to_be_equal_is_checked_again():
    def scaled(x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x @ WEIGHT)
        return torch.where(steps > 0, chaos(y), torch.zeros(()))

    compiled = mica.compile(scaled)
    with torch.no_grad():
        for steps in (0, 0, 0, 1, 1):
            x = torch.randn(8, 64)
            given = compiled(x, torch.tensor(steps))
            assert torch.equal(given, scaled(x, torch.tensor(steps)))
    assert graph_of(compiled).inaccuracy


def test_by_choice_it_is_not_compared():
    compiled = mica.compile(sensitive, exact=False)
    for _ in range(CALLS):
        compiled(torch.randn(8, 64))
    graph = graph_of(compiled)
    assert not graph.inaccuracy
    assert not graph.opaque


class Counting(nn.Module):
    """Draws, counts and tells."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(64))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen += x.mean(0)
        noise = torch.rand_like(x)
        print("called", self.calls)
        return sensitive(x + noise)


def test_it_has_no_effect_of_its_own(capsys):
    torch.manual_seed(1)
    eager, net = Counting(), Counting()
    compiled = mica.compile(net)
    for _ in range(CALLS):
        x = torch.randn(8, 64)
        state = torch.get_rng_state()
        want = eager(x)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        assert torch.equal(compiled(x), want)
        assert torch.equal(torch.get_rng_state(), after)
    assert mica.explain(compiled).hits >= 2
    assert net.calls == eager.calls
    assert torch.equal(net.seen, eager.seen)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0::2] == lines[1::2]


def test_a_gradient_that_is_rounding_alone_does_not_count():
    def step(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    compiled = mica.compile(step)
    with torch.enable_grad():
        for _ in range(CALLS):
            compiled(torch.randn(2, 3, 8, 8))
    graphs = mica.explain(compiled).graphs
    assert any(graph.hits for graph in graphs)
    assert not any(graph.inaccuracy for graph in graphs)


def test_frozen_weights_that_change_are_packed_again():
    net = nn.Sequential(nn.Linear(64, 64), nn.Sigmoid()).eval()
    compiled = mica.compile(lambda x: chaos(net(x)), frozen=True)
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(8, 64)
            assert torch.equal(compiled(x), chaos(net(x)))
            net[0].weight.mul_(1.5)
    assert graph_of(compiled).inaccuracy


def in_place(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x @ WEIGHT


def in_part(x: torch.Tensor) -> torch.Tensor:
    x[2:4] += 1
    return x @ WEIGHT


@pytest.mark.parametrize(
    ("program", "runs"),
    [
        (lambda x: torch.softmax(x @ WEIGHT, 1), 2),
        (in_place, 2),  # What it writes waits until the call is sure of it.
        # What was written or drawn at once is taken back before ATen's run.
        (in_part, 3),
        (lambda x: torch.softmax(x @ WEIGHT + torch.randn(64), 1), 3),
    ],
)
def test_the_run_that_is_compared_is_the_calls(program, runs, tmp_path):
    compiled = mica.compile(program)
    compiled(torch.randn(8, 64))
    x = torch.randn(8, 64)
    twin = x.clone()
    state = torch.get_rng_state()
    path = tmp_path / "trace.json"
    with mica.trace(path):
        served = compiled(x)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    torch.testing.assert_close(served, program(twin))
    assert torch.equal(x, twin)
    assert torch.equal(after, torch.get_rng_state())
    events = json.loads(path.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X" and e["cat"] == "run"]
    computed = [e for e in spans if e["name"].startswith("run @")]
    assert len(computed) == runs
    assert graph_of(compiled).hits == 1


def test_two_threads_at_once():
    compiled = mica.compile(sensitive)
    compiled(torch.randn(8, 64))
    inputs = [torch.randn(8, 64) for _ in range(64)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(compiled, inputs))
    for x in inputs:
        assert torch.equal(compiled(x), sensitive(x))

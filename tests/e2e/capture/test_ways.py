"""Programs whose way data decide: records of several ways become one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mica

pytestmark = pytest.mark.once("calls take ways of their own")

CALLS = 80
TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture(autouse=True)
def _any_budget() -> Any:
    with mica.options.set(capture_budget=1e6):
        yield


def run(
    function: Callable[..., Any], *, inputs: int = 1, calls: int = CALLS
) -> Any:
    """Calls a function and its compiled twin alike; returns the report."""
    generator = torch.Generator().manual_seed(0)
    compiled: Any = mica.compile(function)
    with torch.no_grad():
        for _ in range(calls):
            args = [
                torch.randn(2, 4, generator=generator) for _ in range(inputs)
            ]
            want, got = function(*args), compiled(*args)
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    return mica.explain(compiled)


class Layers(nn.Module):
    """A gate for each of its layers."""

    def __init__(self, count: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))
        self.gate = nn.Linear(4, count)


class Gated(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = self.gate(x)[0] > 0
        for i, layer in enumerate(self.layers):
            if keep[i]:
                x = torch.relu(x + layer(x))
            else:
                x = torch.relu(x)
        return x * 2


class Skipped(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = self.gate(x)[0] > 0
        x = x * 2
        for i, layer in enumerate(self.layers):
            if keep[i]:
                x = x + layer(x)
        return x


class Returning(Layers):
    def one(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = layer(x)
        if x.sum() > 0:
            return x
        return -x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.one(layer, x)
        return x + 1


def is_positive(x: torch.Tensor) -> bool:
    return bool(x.sum() > 0)


class Asking(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            if is_positive(x):
                x = x * 2
        return x


class Exiting(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if x.max().item() > 0.6:
                return x
        return x * 2


class Nested(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        for layer in self.layers:
            if x.sum() > 0:
                y = layer(x)
                if y.max() > x.max():
                    x = y
                else:
                    x = x - y
            else:
                x = layer(-x)
        return x


@pytest.mark.parametrize(
    ("kind", "most"),
    [(Gated, 5), (Skipped, 8), (Returning, 6), (Asking, 6), (Nested, 12)],
)
def test_each_way_of_a_fork_is_watched_once(kind: Any, most: int) -> None:
    report = run(kind(5).eval())
    assert len(report.graphs) == 1
    assert report.graphs[0].num_ways == report.captures
    assert 2 <= report.captures <= most
    assert report.hits == CALLS - report.captures
    assert "forks" in str(report)


def test_a_way_that_ends_early() -> None:
    report = run(Exiting(5).eval(), calls=150)
    assert len(report.graphs) == 1
    assert report.captures <= 6


def test_once_all_ways_of_forks_are_known_none_is_watched() -> None:
    model = Gated(8).eval()
    compiled: Any = mica.compile(model)
    generator = torch.Generator().manual_seed(3)
    seen: set[tuple[bool, ...]] = set()
    with torch.no_grad():
        for call in range(400):
            x = torch.randn(2, 4, generator=generator)
            seen.add(tuple((model.gate(x)[0] > 0).tolist()))
            torch.testing.assert_close(compiled(x), model(x))
            if call == 60:
                captures = mica.explain(compiled).captures
    assert mica.explain(compiled).captures == captures < 10
    assert len(seen) > 50


def test_a_flag_that_is_asked_later() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        first, second = False, False
        if x[0, 0] > 0:
            x, first = x + 1, True
        if x[0, 1] > 0:
            x, second = x + 2, True
        return x * 10 if first and second else x

    run(f)


def test_a_number_that_a_branch_changes() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        count = 1
        for i in range(4):
            if x[0, i] > 0:
                count += 1
        return x * count

    run(f)


def test_lists_and_dicts_that_a_branch_changes() -> None:
    def f(x: torch.Tensor) -> tuple[Any, ...]:
        seen, box = [x], {"t": x}
        for i in range(3):
            if x[0, i] > 0:
                seen.append(x * i)
            else:
                box["t"] = box["t"] + 1
        return torch.stack(seen).sum(0), len(seen), box["t"]

    run(f)


def test_what_a_caller_still_has_isnt_taken_for_another() -> None:
    def maybe(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 3
        return x

    def f(x: torch.Tensor) -> torch.Tensor:
        start = x + 1
        once = maybe(start)
        twice = maybe(once)
        return start + 10 * once + 100 * twice

    run(f)


def test_results_are_the_arguments_or_each_other() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = x
        if y.sum() > 0:
            a = x * 2
        b = a
        if x.sum() > 0:
            b = a * 3
        return a, b

    compiled: Any = mica.compile(f)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(CALLS):
            x, y = (torch.randn(2, generator=generator) for _ in range(2))
            want, got = f(x, y), compiled(x, y)
            assert (got[0] is x) == (want[0] is x)
            assert (got[1] is got[0]) == (want[1] is want[0])
            torch.testing.assert_close(got, want)


def test_an_argument_that_a_helper_gives_back() -> None:
    def gives(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if (a - b).sum() > 0:
            return a * 0.5
        return b

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = gives(x, y)
        if y.sum() > 0:
            return x + 1, z
        return z, x

    compiled: Any = mica.compile(f)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(CALLS):
            x, y = (torch.randn(3, generator=generator) for _ in range(2))
            want, got = f(x, y), compiled(x, y)
            torch.testing.assert_close(got, want)
            for one, other in zip(want, got, strict=True):
                assert (one is x, one is y) == (other is x, other is y)


def test_a_write_in_place_in_a_branch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = y + 1
        if x.sum() > 0:
            y.add_(z)
        return y + z

    run(f)


def test_a_write_to_an_argument_in_a_branch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x.mul_(2)
        return x + 1

    compiled: Any = mica.compile(f)
    with torch.no_grad():
        for i in range(30):
            x = torch.full((2,), float((-1) ** (i // 2)) * (i + 1))
            y = x.clone()
            torch.testing.assert_close(compiled(x), f(y))
            torch.testing.assert_close(x, y)


def test_state_that_a_branch_changes() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                self.calls += 1
                x = self.norm(x)
            return x * 2

    model, twin = Counting(), Counting()
    compiled: Any = mica.compile(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(40):
            x = torch.randn(3, 4, generator=generator)
            torch.testing.assert_close(compiled(x), twin(x))
    assert model.calls == twin.calls
    torch.testing.assert_close(model.state_dict(), twin.state_dict())


def test_draws_in_a_branch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x + torch.rand(2, 4)
        return torch.nn.functional.dropout(x, 0.5)

    compiled: Any = mica.compile(f)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for call in range(40):
            x = torch.randn(2, 4, generator=generator)
            torch.manual_seed(call)
            want = f(x)
            torch.manual_seed(call)
            torch.testing.assert_close(compiled(x), want)


def test_what_is_printed_in_a_branch(capsys: pytest.CaptureFixture) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            print("positive")
            x = x * 2
        return x + 1

    compiled: Any = mica.compile(f)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(20):
            x = torch.randn(2, generator=generator)
            f(x)
            want = capsys.readouterr().out
            compiled(x)
            assert capsys.readouterr().out == want


def test_weights_that_change_are_seen_on_each_way() -> None:
    model = Gated(4).eval()
    compiled: Any = mica.compile(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for call in range(60):
            if call == 30:
                model.layers[2].weight.mul_(2)
            if call == 45:
                model.layers[1] = nn.Linear(4, 4)
            x = torch.randn(2, 4, generator=generator)
            torch.testing.assert_close(compiled(x), model(x))


def test_sizes_that_vary_keep_ways_apart() -> None:
    model = Gated(3).eval()
    compiled: Any = mica.compile(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for call in range(80):
            x = torch.randn(2 + call % 7, 4, generator=generator)
            torch.testing.assert_close(compiled(x), model(x))
    report = mica.explain(compiled)
    assert report.captures <= 2 * 2**3 + 4
    assert all(graph.num_ways == 1 for graph in report.graphs)


def test_gradients_keep_ways_apart() -> None:
    model = Gated(3)
    compiled: Any = mica.compile(model)
    generator = torch.Generator().manual_seed(0)
    parameters = list(model.parameters())
    with torch.enable_grad():
        for _ in range(20):
            x = torch.randn(2, 4, generator=generator, requires_grad=True)
            want = torch.autograd.grad(
                model(x).sum(), parameters, allow_unused=True
            )
            got = torch.autograd.grad(
                compiled(x).sum(), parameters, allow_unused=True
            )
            for one, other in zip(want, got, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    torch.testing.assert_close(other, one)
    assert all(g.num_ways == 1 for g in mica.explain(compiled).graphs)


@pytest.mark.parametrize("options", [{"frozen": True}, {"exact": True}])
def test_options(options: dict[str, bool]) -> None:
    model = Gated(4).eval()
    compiled: Any = mica.compile(model, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(40):
            x = torch.randn(2, 4, generator=generator)
            want, got = model(x), compiled(x)
            torch.testing.assert_close(got, want)
            assert "exact" not in options or torch.equal(got, want)
    assert mica.explain(compiled).captures <= 6


def test_random_programs() -> None:
    command = [sys.executable, str(TOOLS / "way_fuzz.py"), "--json"]
    done = subprocess.run(
        [*command, "--programs", "30", "--calls", "40", "--seed", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["programs"] == 30 and told["differences"] == 0
    assert told["hits"] > told["calls"] / 2
    assert told["joined"] > 10

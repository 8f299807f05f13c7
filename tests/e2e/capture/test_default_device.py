"""The CPU as default device: a mode that changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from e2e.capture.other_processes import run_apart
from e2e.capture.two_worlds import check_training, with_grad
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import mica

_grad = pytest.fixture(autouse=True)(with_grad)


@pytest.fixture
def cpu_by_default() -> Iterator[None]:
    torch.set_default_device("cpu")
    try:
        yield
    finally:
        torch.set_default_device(None)


def num_modes() -> int:
    return torch._C._len_torch_function_stack()


def served(program, *args) -> mica.CallableExplanation:
    """Compares four calls with eager's, and the modes left by each."""
    compiled = mica.compile(program)
    before = num_modes()
    for _ in range(4):
        want = program(*args)
        got = compiled(*args)
        torch.testing.assert_close(got, want)
        assert num_modes() == before
    return mica.explain(compiled)


def mixed(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    y = F.gelu(F.linear(x, torch.eye(4))) + torch.zeros(4) * scale
    return F.dropout(torch.cat([y, torch.ones(1, 4)]), 0.5, training=False)


@pytest.mark.usefixtures("cpu_by_default")
def test_programs_are_one_graph():
    explanation = served(mixed, torch.randn(2, 4))
    assert explanation.hits == 3 and len(explanation.graphs) == 1
    assert "aten.gelu" in explanation.graphs[0].calls


@pytest.mark.once("eager steps under a mode keep references to None")
@pytest.mark.usefixtures("cpu_by_default")
def test_training_steps_are_served():
    def make_net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(6, 4), torch.randint(2, (6,))

    assert check_training(make_net, draw, exact=False) >= 5


def test_other_modes_are_another_record():
    compiled = mica.compile(mixed)
    x = torch.randn(2, 4)
    for _ in range(3):
        compiled(x)
    hits = mica.explain(compiled).hits
    torch.set_default_device("cpu")
    try:
        for _ in range(3):
            compiled(x)
        assert mica.explain(compiled).hits == hits + 2
        torch.set_default_device("meta")
        assert compiled(torch.randn(2, 4)).device.type == "meta"
    finally:
        torch.set_default_device(None)
    torch.testing.assert_close(compiled(x), mixed(x))


@pytest.mark.usefixtures("cpu_by_default")
def test_a_mode_of_the_users_above_it_runs_eagerly():
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is F.gelu else result

    compiled = mica.compile(mixed)
    x = torch.randn(2, 4)
    for _ in range(2):
        compiled(x)
        with Doubles():
            torch.testing.assert_close(compiled(x), mixed(x))


def in_block(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    with device:
        y = x + F.relu(torch.arange(4.0) - 1)
        with torch.device("cpu"):
            y = y * torch.full((4,), 3.0)
    return y - torch.ones(4)


@pytest.mark.parametrize("is_default", [False, True])
def test_blocks_of_the_cpu_are_one_graph(is_default: bool):
    torch.set_default_device("cpu" if is_default else None)
    try:
        explanation = served(in_block, torch.randn(2, 4), torch.device("cpu"))
    finally:
        torch.set_default_device(None)
    assert explanation.hits == 3 and len(explanation.graphs) == 1


def test_blocks_of_another_device_are_not_served():
    compiled = mica.compile(in_block)
    for _ in range(3):
        compiled(torch.randn(2, 4), torch.device("cpu"))
    x = torch.randn(2, 4, device="meta")

    def whole(x: torch.Tensor, device: torch.device) -> torch.Tensor:
        with device:
            return torch.zeros(3)

    either = mica.compile(whole)
    for device in ("cpu", "meta", "cpu", "meta", "cpu"):
        got = either(x, torch.device(device))
        assert got.device.type == device and num_modes() == 0


def left_by_error(x: torch.Tensor) -> torch.Tensor:
    try:
        with torch.device("cpu"):
            x = x + torch.ones(4)
            raise ValueError
    except ValueError:
        return x * torch.zeros(4) + 1


def returned_from(x: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        with torch.device("cpu"):
            x = x + torch.full((4,), float(i))
            if i == 1:
                return x
    return x


@pytest.mark.parametrize("is_default", [False, True])
def test_what_a_program_raises_is_raised(is_default: bool):
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + torch.ones(4)
        with torch.device("cpu"):
            return y * nowhere  # noqa: F821

    torch.set_default_device("cpu" if is_default else None)
    try:
        compiled = mica.compile(program)
        for _ in range(3):
            with pytest.raises(NameError, match="nowhere"):
                compiled(torch.randn(2, 4))
            assert num_modes() == is_default
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("program", [left_by_error, returned_from])
def test_blocks_that_are_left_early(program):
    served(program, torch.randn(2, 4))


def asks_for_modes(x: torch.Tensor) -> torch.Tensor:
    return x + num_modes()


def asks_for_device(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(4, device=torch.get_default_device())


def sets_default(x: torch.Tensor) -> torch.Tensor:
    torch.set_default_device(None)
    y = x + torch.ones(4)
    torch.set_default_device("cpu")
    return y * torch.ones(4)


def breaks_inside(x: torch.Tensor) -> torch.Tensor:
    y = x + torch.ones(4)
    with torch.device("cpu"):
        y = y * torch.full((4,), 2.0)
        os.umask(os.umask(0o022))  # Not known to be free of effects.
        y = y * torch.full((4,), 2.0)
    return y + torch.ones(4)


@pytest.mark.usefixtures("cpu_by_default")
@pytest.mark.parametrize(
    "program", [asks_for_modes, asks_for_device, sets_default, breaks_inside]
)
def test_who_looks_at_modes_sees_them(program):
    served(program, torch.randn(2, 4))


def replace(name: str, patched_first: bool) -> None:
    def program(x: Tensor) -> Tensor:
        x = x.clone().add_(1.0).reshape(2, 2)[:1]
        return x * x.norm()

    def check(count: int) -> None:
        for seed in range(count):
            x = torch.full((4,), float(seed + 1))
            with torch.device("cpu"):
                assert torch.equal(compiled(x), program(x))

    def negated(*args: Any, **kwargs: Any) -> Any:
        return -before(*args, **kwargs)

    compiled = mica.compile(program)
    before = getattr(Tensor, name)
    if not patched_first:
        check(3)
        assert mica.explain(compiled).hits == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, name, negated)
        check(3)
    check(3)
    # A callable that was refused at its first call runs eagerly from then on.
    assert mica.explain(compiled).hits == (0 if patched_first else 5)


@pytest.mark.parametrize("name", ["__getitem__", "add_", "reshape", "norm"])
@pytest.mark.parametrize("patched_first", [False, True])
def test_a_method_that_is_replaced_runs_as_often_as_in_eager(
    name: str, patched_first: bool
):
    # Who once had a __getitem__ is a sequence to CPython for good.
    run = run_apart if name == "__getitem__" else _run_here
    run(replace, name, patched_first)


def _run_here(function: Callable[..., None], *args: Any) -> None:
    function(*args)


@pytest.mark.usefixtures("cpu_by_default")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__slotnames__", []),  # Copying a tensor leaves it.
        ("tag", 1.0),
        ("twice", lambda x: x * 2),
        ("fresh", property(lambda x: x + 1)),
    ],
)
def test_what_a_program_adds_to_tensors_changes_nothing(
    name: str, value: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Tensor, name, value, raising=False)
    assert served(mixed, torch.randn(2, 4)).hits == 3

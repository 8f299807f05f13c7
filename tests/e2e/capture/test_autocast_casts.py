"""What autocast casts and keeps until its block ends is eager's at a hit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import mica


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield


Results = list[torch.Tensor]
Call = Callable[[torch.Tensor], torch.Tensor]


class _World:
    """A layer, a program that runs it, and what comes of a few blocks."""

    def __init__(
        self, block: Callable[[_World], Results], **modes: Any
    ) -> None:
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.call: Call = lambda x: self.layer(x).float().pow(2).mean()
        self.block, self.modes = block, modes

    def run(self) -> list[Results]:
        results = []
        for _ in range(5):
            self.layer.zero_grad()
            with torch.autocast(
                "cpu", **({"dtype": torch.bfloat16} | self.modes)
            ):
                results.append(self.block(self))
        return [[t.detach().clone() for t in some] for some in results]

    def write(self) -> None:
        with torch.no_grad():
            self.layer.weight.add_(1)


def _equal(
    block: Callable[[_World], Results], *, hits: int, **modes: Any
) -> None:
    wanted = _World(block, **modes).run()
    world = _World(block, **modes)
    compiled = mica.compile(world.call, exact=True)
    world.call = compiled
    got = world.run()
    torch.testing.assert_close(got, wanted, rtol=0, atol=0)
    assert mica.explain(compiled).hits >= hits


def _writes_between(world: _World) -> Results:
    first = world.call(torch.ones(2, 4))
    world.write()
    return [first, world.call(torch.ones(2, 4))]


def _casts_for_eager(world: _World) -> Results:
    first = world.call(torch.ones(2, 4))
    world.write()
    return [first, world.layer(torch.ones(2, 4))]


def _finds_eagers(world: _World) -> Results:
    first = world.layer(torch.ones(2, 4))
    world.write()
    return [first, world.call(torch.ones(2, 4))]


def _goes_back(world: _World) -> Results:
    loss = world.call(torch.ones(2, 4)) + world.call(3 * torch.ones(2, 4))
    loss.backward()
    assert world.layer.weight.grad is not None
    return [loss, world.layer.weight.grad]


def _goes_back_twice(world: _World) -> Results:
    world.call(torch.ones(2, 4)).backward()
    world.write()
    loss = world.call(torch.ones(3, 4))
    loss.backward()
    assert world.layer.weight.grad is not None
    return [loss, world.layer.weight.grad]


def _is_first_without_gradients(world: _World) -> Results:
    with torch.no_grad():
        first = world.call(torch.ones(2, 4))
    world.write()
    second = world.call(torch.ones(2, 4))
    second.backward()
    assert world.layer.weight.grad is not None
    return [first, second, world.layer.weight.grad]


@pytest.mark.parametrize(
    "block",
    [
        _writes_between,
        _casts_for_eager,
        _finds_eagers,
        _goes_back,
        _goes_back_twice,
        _is_first_without_gradients,
    ],
)
@pytest.mark.parametrize("modes", [{}, {"cache_enabled": False}])
def test_the_cast_that_a_block_keeps_is_used(block, modes):
    _equal(block, hits=4, **modes)


def test_a_weight_may_be_an_argument():
    def run(compiles: bool) -> list[Results]:
        weight = torch.full((4, 4), 0.3, requires_grad=True)

        def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return functional.linear(x, w).float().sum()

        call = mica.compile(program, exact=True) if compiles else program
        results = []
        for _ in range(4):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                first = call(torch.ones(2, 4), weight)
                with torch.no_grad():
                    weight.add_(1)
                results.append([first.detach(), call(torch.ones(2, 4), weight)])
        return results

    torch.testing.assert_close(run(True), run(False), rtol=0, atol=0)


def test_a_programs_own_block_is_open_where_another_is():
    def block(world: _World) -> Results:
        first = world.call(torch.ones(2, 4))
        world.write()
        return [first, world.call(torch.ones(2, 4))]

    def run(compiles: bool) -> list[Results]:
        world = _World(block, enabled=False)
        layer = world.layer

        def program(x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return layer(x).float().sum()

        world.call = mica.compile(program, exact=True) if compiles else program
        alone = [world.call(torch.ones(2, 4)).detach() for _ in range(3)]
        return [alone, *world.run()]

    torch.testing.assert_close(run(True), run(False), rtol=0, atol=0)


def test_a_weight_that_is_written_before_it_is_cast_is_refused():
    layer = nn.Linear(4, 4)

    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            layer.weight.mul_(2)
        return layer(x)

    compiled = mica.compile(program, fullgraph=True)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(mica.CaptureError, match="before autocast casts it"),
    ):
        compiled(torch.ones(2, 4))


def test_a_cast_by_hand_is_kept_by_nobody():
    def block(world: _World) -> Results:
        first = world.call(torch.ones(2, 4))
        world.write()
        return [
            first,
            world.call(torch.ones(2, 4)),
            world.layer(torch.ones(2, 4)),
        ]

    def run(compiles: bool) -> list[Results]:
        world = _World(block)
        weight = world.layer.weight

        def program(x: torch.Tensor) -> torch.Tensor:
            return x.bfloat16() @ weight.bfloat16()

        world.call = mica.compile(program, exact=True) if compiles else program
        return world.run()

    torch.testing.assert_close(run(True), run(False), rtol=0, atol=0)


@pytest.mark.once("torch.fx keeps the code of each graph")
def test_what_is_exported_casts_its_weights_itself(tmp_path):
    layer = nn.Linear(4, 4)
    x = torch.ones(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted = layer(x)
        program = mica.capture(layer, (x,))
        mica.export(layer, (x,), tmp_path / "layer")
        (fx,) = mica.to_fx(layer, (x,))(x)
    assert "aten._to_copy" in str(program)
    torch.testing.assert_close(fx, wanted, rtol=0, atol=0)
    assert torch.is_autocast_cache_enabled()

"""Gradients that a program asks for, or adds to, are guarded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import World, check

import mica


def _reads(world: Any, x: torch.Tensor) -> Any:
    return x * 2 if world.t.grad is None else x * world.t.grad


def _steps(world: Any, x: torch.Tensor) -> Any:
    world.optimizer.step()
    return x * 2


def _clears(world: Any, x: torch.Tensor) -> Any:
    world.optimizer.zero_grad()
    return x * 2


@pytest.mark.parametrize("program", [_reads, _steps, _clears])
@pytest.mark.parametrize("kind", ["plain", "leaf", "result"])
def test_a_gradient_that_a_program_asks_for_is_guarded(program, kind):
    def make() -> Any:
        world: Any = World()
        world.root = torch.ones(3, requires_grad=True)
        world.t = torch.ones(3, requires_grad=kind == "leaf")
        if kind == "result":
            world.t = world.root * 1
            world.t.retain_grad()
        leaf = torch.ones(3, requires_grad=True)
        world.optimizer = torch.optim.SGD([leaf], lr=0.25)
        world.optimizer.param_groups[0]["params"][0] = world.t
        world.program = lambda x: program(world, x)
        return world

    def step(give: Any) -> Callable[[Any, Any], Any]:
        def go(world: Any, fn: Any) -> Any:
            if give == "none":
                world.t.grad = None
            elif give and kind == "result":
                world.t.sum().backward(retain_graph=True)
            elif give:
                world.t.grad = torch.full((3,), give)
            try:
                result = fn(torch.ones(3)).detach()
            except RuntimeError as error:  # It writes what autograd tracks.
                result = str(error)
            grad = world.t.grad
            return result, world.t.detach(), grad is None or grad.detach()

        return go

    given = [None, None, 2.0, None, 3.0, None, "none", None, 2.0, None]
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hits = check(make, *map(step, given))
    assert hits >= (0 if kind == "result" else 5)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v**3

    @staticmethod
    def backward(ctx, gradient):
        (v,) = ctx.saved_tensors
        return gradient * v * v.detach()


def decayed(a, b, x):
    a.data.mul_(0.5)
    (a * a * x).sum().backward()


def normed(a, b, x):
    (a * a.data.norm() * x).sum().backward()


def cubed(a, b, x):
    a.data.mul_(0.5)
    Cubed.apply(a).sum().backward()


def stepped(a, b, x):
    decayed(a, b, x)
    a.data.add_(a.grad, alpha=-0.1)


def of_a_view(a, b, x):
    a.data.mul_(0.5)
    v = a.view(-1)[:2]
    (v * v).sum().backward()


def of_two(a, b, x):
    a.data.mul_(0.5)
    (a * 2 + b * 3 * x).sum().backward()


def asked_for(a, b, x):
    b.data.mul_(0.5)
    (gradient,) = torch.autograd.grad((a * a.data.abs()).sum(), [a])
    a.grad = gradient if a.grad is None else a.grad + gradient


def later(a, b, x):
    a.data.mul_(0.5)
    return (a * a * x).sum()


@pytest.mark.parametrize(
    "program",
    [decayed, normed, cubed, stepped, of_a_view, of_two, asked_for, later],
)
@pytest.mark.parametrize("second", ["apart", "shared", "a part", "both"])
def test_gradients_of_leaves_that_are_first_used_by_their_data(program, second):
    def make():
        world = World()
        memory = torch.tensor([1.0, 2.0, 4.0, 3.0, 5.0, 6.0])
        first, rest = memory[:3], memory[3:]
        if second != "a part":
            first, rest = first.clone(), rest.clone()
        world.a = torch.nn.Parameter(first)
        world.b = torch.nn.Parameter(
            world.a.data if second == "shared" else rest
        )
        if second == "both":
            world.b = world.a
        world.program = lambda x: program(world.a, world.b, x)
        return world

    def call(world, fn):
        loss = fn(torch.ones(3))
        if loss is not None:
            loss.backward()
        tensors = [world.a, world.b, world.a.grad, world.b.grad]
        return ["none" if t is None else t.detach().clone() for t in tensors]

    with torch.enable_grad():
        check(make, *[call] * 6)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Saving(Doubled):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 * x


def sums(x, p, v):
    y = x + v
    (y * p).sum().backward()
    return y


def products(x, p, v):
    y = x * v
    (y * p).sum().backward()
    return y


def losses(x, p, v):
    loss = (x + v).sum()
    loss.backward()
    return loss


def copies(x, p, v):
    y = (x + v).clone()
    y[0] = v[1]
    y.sum().backward()
    return y


def doubled(x, p, v):
    y = Doubled.apply(x + v)
    y.sum().backward()
    return y


def saving(x, p, v):
    y = Saving.apply(x + v)
    y.sum().backward()
    return y


def unused(x, p, v):
    y = x * p
    torch.autograd.grad(y.sum(), v, allow_unused=True)
    return y


def behind(x, p, v):
    y = x * v
    (y * p).sum().backward()
    return y + 1


@pytest.mark.parametrize(
    "program",
    [sums, products, losses, copies, doubled, saving, unused, behind],
)
def test_a_second_pass_raises_where_tensors_were_saved(program):
    def make():
        world = World()
        world.p = torch.nn.Parameter(torch.tensor([1.0, 2.0, 4.0]))
        world.v = torch.nn.Parameter(torch.zeros(3))
        world.program = lambda x: program(x, world.p, world.v)
        return world

    def call(world, fn):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        raised = ""
        try:
            fn(x).sum().backward()
        except RuntimeError as error:
            raised = str(error)
        grads = [world.p.grad, world.v.grad, x.grad]
        return raised, ["none" if g is None else g.clone() for g in grads]

    with torch.enable_grad():
        assert check(make, *[call] * 4) == 2


def test_how_new_gradients_lie_is_guarded():
    def make() -> Any:
        torch.manual_seed(0)
        return torch.nn.Linear(3, 2)

    eager, own = make(), make()

    def step(layer: Any, x: torch.Tensor) -> None:
        layer.zero_grad()
        layer(x[:1].expand(3)).sum().backward()

    fast: Any = mica.compile(lambda x: step(own, x))
    x = torch.ones(3)
    with torch.enable_grad():
        for enabled in (True, True, True, False, False, True, True):
            torch._C._set_grad_layout_enforcement_enabled(enabled)
            try:
                step(eager, x)
                fast(x)
            finally:
                torch._C._set_grad_layout_enforcement_enabled(True)
            for one, other in zip(
                eager.parameters(), own.parameters(), strict=True
            ):
                assert one.grad.stride() == other.grad.stride()
                assert torch.equal(one.grad, other.grad)

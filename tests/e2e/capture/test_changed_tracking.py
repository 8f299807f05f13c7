"""A program may say of older tensors whether autograd follows them."""

from __future__ import annotations

import copy

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, same, x
from e2e.capture.two_worlds import World, check
from torch import nn
from torch.nn import functional as F

import mica


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def tracked(tensor):
    return tensor.requires_grad, tensor.is_leaf, tensor.grad


def physics() -> World:
    """A loss of second derivatives by what came in as data."""
    world = World()
    world.net = net()
    world.optimizer = torch.optim.Adam(world.net.parameters(), 1e-2)

    def program(a, b):
        a.requires_grad_(True)
        b.requires_grad = True
        u = world.net(torch.cat([a, b], 1))
        ones = torch.ones_like(u)
        du = torch.autograd.grad(u, a, ones, create_graph=True)[0]
        ddu = torch.autograd.grad(du, a, ones, create_graph=True)[0]
        db = torch.autograd.grad(u, b, ones, create_graph=True)[0]
        loss = (db + u * du - 0.1 * ddu).pow(2).mean()
        world.optimizer.zero_grad()
        loss.backward()
        world.optimizer.step()
        return loss.item()

    world.program = program
    return world


def test_arguments_are_left_as_eager_leaves_them():
    def step(seed):
        def take(world, call):
            a, b = x(seed, 5, 1), x(seed + 50, 5, 1)
            loss = call(a, b)
            return loss, tracked(a), tracked(b), world.net.state_dict()

        return take

    assert check(physics, *map(step, range(6))) == 4


def adversary() -> World:
    world = World()
    world.net = net()

    def program(data):
        data.requires_grad = True
        loss = world.net(data).square().mean()
        world.net.zero_grad()
        loss.backward()
        return data + 0.1 * data.grad.sign()

    world.program = program
    return world


def test_a_gradient_of_an_argument_that_came_in_without():
    def step(seed):
        def take(world, call):
            data = x(seed, 3, 2)
            moved = call(data)
            (moved * 2).sum().backward()  # Goes on as it does in eager.
            return (
                moved,
                tracked(data),
                [p.grad for p in world.net.parameters()],
            )

        return take

    hits = check(adversary, *map(step, range(5)))
    assert hits == 3


@pytest.mark.parametrize("way", ["method", "attribute", "module"])
def test_what_is_frozen_and_thawed(way):
    """As in GANs: the critic is frozen while the other one trains."""

    def make() -> World:
        world = World()
        torch.manual_seed(0)
        world.one, world.other = nn.Linear(2, 2), nn.Linear(2, 1)
        parts = (world.one, world.other)
        world.optimizers = [torch.optim.SGD(p.parameters(), 0.1) for p in parts]

        def follow(module, flag):
            if way == "module":
                module.requires_grad_(flag)
                return
            for p in module.parameters():
                if way == "method":
                    p.requires_grad_(flag)
                else:
                    p.requires_grad = flag

        def program(a):
            for p in world.optimizers:
                p.zero_grad()
            follow(world.other, False)
            world.other(world.one(a)).mean().backward()
            follow(world.other, True)
            world.other(world.one(a).detach()).square().mean().backward()
            for p in world.optimizers:
                p.step()
            return world.one.weight.detach().clone()

        world.program = program
        return world

    def step(seed):
        def take(world, call):
            result = call(x(seed, 3, 2))
            own = [*world.one.parameters(), *world.other.parameters()]
            return result, [(p.detach().clone(), *tracked(p)) for p in own]

        return take

    assert check(make, *map(step, range(6))) >= 4


def test_what_stays_frozen():
    """From some step on, as who fine-tunes in phases does it."""

    def make() -> World:
        world = World()
        world.net = net()
        world.optimizer = torch.optim.SGD(world.net.parameters(), 0.1)

        def program(a, epoch):
            for p in world.net[0].parameters():
                p.requires_grad = epoch >= 4
            world.optimizer.zero_grad()
            loss = world.net(a).square().mean()
            loss.backward()
            world.optimizer.step()
            return loss.item()

        world.program = program
        return world

    def step(epoch):
        def take(world, call):
            loss = call(x(epoch, 3, 2), epoch)
            return loss, [tracked(p) for p in world.net.parameters()]

        return take

    assert check(make, *map(step, range(10))) >= 5


def test_results_lead_back_to_the_argument():
    """The pass comes after the call."""

    def make() -> World:
        world = World()
        world.net = net()

        def program(a):
            before = a * 2  # Autograd doesn't follow this one.
            a.requires_grad_()
            return world.net(a), before, a.view(-1)

        world.program = program
        return world

    def step(seed):
        def take(world, call):
            a = x(seed, 3, 2)
            out, before, view = call(a)
            (out.sum() + view.square().sum()).backward()
            grads = [p.grad.clone() for p in world.net.parameters()]
            return out, before, view, tracked(a), grads

        return take

    assert check(make, *map(step, range(5))) == 4


def test_an_argument_that_is_told_not_to():
    def program(a, w):
        w.requires_grad_(False)
        return F.linear(a, w)

    def step(seed):
        def take(_, call):
            w = x(seed, 4, 2).requires_grad_()
            out = call(x(seed, 3, 2), w)
            return out, tracked(w)

        return take

    def make() -> World:
        world = World()
        world.program = program
        return world

    assert check(make, *map(step, range(4))) == 3


def test_eager_s_error_where_it_is_no_leaf():
    def program(w):
        (w.requires_grad_(False) if w.dim() else w).sum()
        return w + 1

    compiled = mica.compile(program)
    for _ in range(3):
        w = torch.ones(2, requires_grad=True) * 2
        with pytest.raises(RuntimeError, match="leaf"):
            compiled(w)


def test_a_run_that_does_not_fit_leaves_the_argument_alone():
    """What data decide comes out otherwise: eager begins with what came in."""

    def program(a):
        before = a.requires_grad
        a.requires_grad_()
        return (a * 2 if a.sum() > 0 else a * 3), before

    compiled = mica.compile(program)
    letters = ""
    for sign in (1, 1, -1, 1, -1, 1):
        a = torch.ones(3) * sign
        (out, before), letter = call_and_tell(compiled, a)
        letters += letter
        same((out, before), program(torch.ones(3) * sign))
        assert a.requires_grad and not before
    assert "h" in letters


def test_the_effect_is_told_and_checked():
    def program(a):
        return a.requires_grad_().square()

    compiled = mica.compile(program)
    for seed in range(2):
        compiled(x(seed))
    assert "sets a.requires_grad" in compiled_effects(compiled)
    with mica.stance("check"):
        a = x(3)
        out = compiled(a)
        assert a.requires_grad and out.requires_grad


def compiled_effects(compiled) -> str:
    return mica.explain(compiled).details("effects")


def test_a_copy_of_the_module_is_frozen_alone():
    def make() -> World:
        world = World()
        world.net = net()

        def program(a):
            twin = copy.deepcopy(world.net).requires_grad_(False)
            return world.net(a) - twin(a * 2)

        world.program = program
        return world

    def step(seed):
        def take(world, call):
            out = call(x(seed, 3, 2))
            out.sum().backward()
            return out, [tracked(p) for p in world.net.parameters()]

        return take

    check(make, *map(step, range(4)))

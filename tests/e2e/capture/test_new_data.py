"""A program may give older tensors other data, by `tensor.data = …`."""

from __future__ import annotations

import copy

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, same, x
from e2e.capture.two_worlds import World, check
from torch import nn

import mica


@pytest.fixture(autouse=True)
def _grad():
    with torch.enable_grad():
        yield


def world_of(program) -> World:
    world = World()
    torch.manual_seed(0)
    world.net, world.slow = nn.Linear(4, 4), nn.Linear(4, 4)
    world.kept = {}

    def run(a):
        return program(world, a)

    world.program = run
    return world


def numbers(world):
    return copy.deepcopy(
        [
            p.detach()
            for p in (*world.net.parameters(), *world.slow.parameters())
        ]
    )


def learn(world, loss):
    loss.backward()
    with torch.no_grad():
        for p in world.net.parameters():
            p -= 0.1 * p.grad
            p.grad = None


def pairs(world):
    return zip(world.net.parameters(), world.slow.parameters(), strict=True)


def slow_copy(world, a):
    learn(world, world.net(a).square().mean())
    for p, slow in pairs(world):
        slow.data = slow.data * 0.9 + p.data * 0.1
    return world.slow(a).detach()


def momentum_encoder(world, a):
    with torch.no_grad():
        for p, slow in pairs(world):
            slow.data = slow.data * 0.9 + p.data * 0.1
        wanted = world.slow(a)
    return (world.net(a) - wanted).square().mean()


def clamped(world, a):
    world.net.weight.data = world.net.weight.data.clamp(-0.1, 0.1)
    return world.net(a)


def added_to(world, a):
    for p in world.net.parameters():
        p.data -= 0.01 * p.data.sign()
    return world.net(a).detach()


def put_back(world, a):
    world.net(a).square().mean().backward()
    weight = world.net.weight
    backup = weight.data.clone()
    weight.data.add_(0.1 * weight.grad / weight.grad.norm())
    loss = world.net(a).square().mean()
    learn(world, loss)
    weight.data = backup
    return loss.item()


def swapped_in(world, a):
    weight = world.net.weight
    if "w" not in world.kept:
        world.kept["w"] = weight.data.clone()
    world.kept["w"] = 0.1 * weight.data + 0.9 * world.kept["w"]
    backup = weight.data
    weight.data = world.kept["w"]
    result = world.net(a).detach()
    weight.data = backup
    return result


def set_twice(world, a):
    world.net.weight.data = world.net.weight.data * 2
    world.net.weight.data = world.net.weight.data - 1
    world.net.weight.data.mul_(0.25)
    return world.net(a).detach(), world.net.weight.data


def of_argument(world, a):
    a.data = a.data * 2
    return a.sum(), world.net(a).detach()


@pytest.mark.parametrize(
    ("program", "hits"),
    [
        (slow_copy, 4),
        (momentum_encoder, 4),
        (clamped, 4),
        (added_to, 4),
        (put_back, 4),
        (swapped_in, 3),
        (set_twice, 4),
        (of_argument, 4),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_is_served(program, hits):
    def step(seed):
        def take(world, call):
            a = x(seed)
            result = call(a)
            return result, a, numbers(world)

        return take

    # Each is watched once more at its first other object or place.
    assert check(lambda: world_of(program), *map(step, range(5))) >= hits - 1


def test_new_data_is_shared_as_in_eager():
    """What was put there, and the tensor, are written together."""

    def share(world, a):
        world.slow.weight.data = world.net.weight.data
        with torch.no_grad():
            world.net.weight.mul_(0.9)
        return world.slow(a).detach()

    def step(seed):
        def take(world, call):
            result = call(x(seed))
            with torch.no_grad():
                world.net.weight.add_(1)
            return result, numbers(world)

        return take

    assert check(lambda: world_of(share), *map(step, range(5))) > 0


def test_result_is_shared():
    def give(world, a):
        new = world.net.weight.data * 0.5
        world.net.weight.data = new
        return new, a * 2

    def take(world, call):
        new, _ = call(x(0))
        new.add_(1)
        shares = new.data_ptr() == world.net.weight.data_ptr()
        return new, shares, numbers(world)

    assert check(lambda: world_of(give), take, take, take) == 2


def test_old_memory_that_others_show_stays():
    def replace(world, a):
        old = world.net.weight.data
        world.net.weight.data = old + 1
        return old, old.view(-1), world.net(a).detach()

    def take(world, call):
        view = world.net.weight.data
        return call(x(0)), view, numbers(world)

    assert check(lambda: world_of(replace), take, take, take) == 2


def test_backward_pass_that_needs_old_data():
    """autograd keeps the transposed weight, which still shows the old data."""

    def run(world, a):
        hidden = world.net(a * world.net.bias)
        world.net.weight.data = world.net.weight.data * 0.5
        return hidden.square().sum()

    def take(world, call):
        call(x(0)).backward()
        gradients = [p.grad.clone() for p in world.net.parameters()]
        world.net.zero_grad()
        return gradients, numbers(world)

    check(lambda: world_of(run), take, take, take, take)


def test_frozen_weights_are_told_apart():
    torch.manual_seed(0)
    net = nn.Linear(4, 4)

    def program(a):
        net.weight.data = net.weight.data * 0.5
        return net(a)

    twin = copy.deepcopy(net)
    f = mica.compile(program, frozen=True)
    with torch.no_grad():
        for seed in range(4):
            got = f(x(seed))
            twin.weight.data = twin.weight.data * 0.5
            same(got, twin(x(seed)))


def test_another_kind_of_data_breaks_the_graph():
    torch.manual_seed(0)
    net = nn.Linear(4, 4)

    def program(a):
        is_double = net.weight.dtype == torch.float64
        data = net.weight.data
        net.weight.data = data.float() if is_double else data.double()
        return a * 2

    f = mica.compile(program)
    with pytest.warns(mica.MicaWarning, match="of another kind"):
        told = [call_and_tell(f, x(0))[1] for _ in range(5)]
    assert "h" not in told
    assert net.weight.dtype == torch.float64


def test_explains_what_is_set():
    world = world_of(clamped)
    f = mica.compile(world.program)
    f(x(0))
    f(x(1))
    assert ".data" in str(mica.explain(f).details("effects"))


def test_autocast_keeps_casts_of_the_old_data():
    """Found by tools/guard_fuzz.py: eager goes on with the cast that it has."""

    def program(world, a):
        world.net.weight.data = world.net.weight.data * 0.5
        return world.net(a)

    def take(world, call):
        results = []
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for seed in range(3):
                results.append(call(x(seed)).detach().float())
        return results, numbers(world)

    check(lambda: world_of(program), take, take, take)

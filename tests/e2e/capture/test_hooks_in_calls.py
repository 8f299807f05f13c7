"""Hooks that a program registers and removes within a call, or finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e2e.capture.two_worlds import (
    Body,
    Step,
    World,
    call,
    check,
    with_grad,
)
from e2e.capture.two_worlds import drawn as x
from torch import Tensor, nn

_grad = pytest.fixture(autouse=True)(with_grad)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def world(body: Body, **state: Any) -> Callable[[], Any]:
    def make() -> Any:
        new: Any = World()
        new.net = net()
        vars(new).update(state)
        new.program = lambda a: body(new, a)
        return new

    return make


def served(body: Body, *steps: Step, **state: Any) -> int:
    return check(world(body, **state), *(steps or map(call, range(6))))


def gradients(w: Any) -> list[Any]:
    found = [p.grad for p in w.net.parameters()]
    return [None if g is None else g.clone() for g in found]


def hidden(w: Any, a: Tensor) -> Tensor:
    w.net.zero_grad()
    return torch.relu(w.net[0](a))


# On modules, forward.


def features(w: Any, a: Tensor) -> Any:
    found = {}

    def keep(_module: Any, _inputs: Any, output: Tensor) -> None:
        found["hidden"] = output.detach()

    handle = w.net[1].register_forward_hook(keep)
    result = w.net(a).detach()
    handle.remove()
    return result, found["hidden"]


def inputs_changed(w: Any, a: Tensor) -> Any:
    handle = w.net[2].register_forward_pre_hook(lambda _, i: (i[0] * 2,))
    result = w.net(a).detach()
    handle.remove()
    return result


def output_changed(w: Any, a: Tensor) -> Any:
    handle = w.net[0].register_forward_hook(lambda _m, _i, o: o + 1)
    try:
        return w.net(a).detach()
    finally:
        handle.remove()


def in_a_block(w: Any, a: Tensor) -> Any:
    found: list[Tensor] = []
    with w.net[1].register_forward_hook(
        lambda _m, _i, o: found.append(o.detach())
    ) as handle:
        w.net(a)
        handle.remove()
        w.net(a)
    return found, found[0].sum()


def in_order(w: Any, a: Tensor) -> Any:
    layer = w.net[1]
    first = layer.register_forward_hook(lambda _m, _i, o: o * 2)
    second = layer.register_forward_hook(lambda _m, _i, o: o + 1, prepend=True)
    third = layer.register_forward_pre_hook(lambda _, i: i[0] * 3)
    one = w.net(a).detach()
    first.remove()
    two = w.net(a).detach()
    second.remove()
    third.remove()
    return one, two, w.net(a).detach()


def with_keywords(w: Any, a: Tensor) -> Any:
    first = w.net[0].register_forward_pre_hook(
        lambda _, args, names: ((args[0] + 1,), names),
        with_kwargs=True,
        prepend=True,
    )
    second = w.net[0].register_forward_hook(
        lambda _m, _a, _n, o: o * 2, with_kwargs=True, always_call=True
    )
    result = w.net(a).detach()
    first.remove()
    second.remove()
    return result


def on_all_modules(w: Any, a: Tensor) -> Any:
    found: list[Tensor] = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda _m, _i, o: found.append(o.detach())
    )
    try:
        return w.net(a).detach(), found
    finally:
        handle.remove()


def dicts_are_read(w: Any, a: Tensor) -> Any:
    layer = w.net[1]
    handle = layer.register_forward_hook(lambda _m, _i, o: o * 2)
    count, has = len(layer._forward_hooks), handle.id in layer._forward_hooks
    handle.remove()
    return count, has, len(layer._forward_hooks), w.net(a).detach()


@pytest.mark.parametrize(
    "body",
    [
        features,
        inputs_changed,
        output_changed,
        in_a_block,
        in_order,
        with_keywords,
        on_all_modules,
        dicts_are_read,
    ],
)
def test_hooks_on_modules_are_part_of_the_graph(body: Body) -> None:
    assert served(body) >= 4


# On gradients.


def class_activations(w: Any, a: Tensor) -> Any:
    outputs: list[Tensor] = []
    found: list[Tensor] = []
    first = w.net[0].register_forward_hook(lambda _m, _i, o: outputs.append(o))
    second = w.net[0].register_full_backward_hook(
        lambda _m, _i, o: found.append(o[0])
    )
    w.net.zero_grad()
    w.net(a)[:, 0].sum().backward()
    first.remove()
    second.remove()
    weights = found[0].mean(0)
    return torch.relu((weights * outputs[0]).sum(1)).detach()


def scaled(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    h.register_hook(lambda g: g * 0.5)
    w.net[2](h).sum().backward()
    return gradients(w)


def reversed_at_a_leaf(w: Any, a: Tensor) -> Any:
    a = a.clone().requires_grad_()
    a.register_hook(lambda g: -g)
    w.net.zero_grad()
    w.net(a).sum().backward()
    return a.grad


def clipped(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    h.register_hook(lambda g: g.clamp(-0.1, 0.1))
    loss = w.net[2](h).pow(2).mean()
    loss.backward()
    return loss.detach(), gradients(w)


def kept_in_a_list(w: Any, a: Tensor) -> Any:
    found: list[Tensor] = []
    h = hidden(w, a)
    h.register_hook(found.append)
    w.net[2](h).pow(2).mean().backward()
    return found[0]


def kept_in_an_attribute(w: Any, a: Tensor) -> Any:
    def keep(g: Tensor) -> None:
        w.found = g

    h = hidden(w, a)
    h.register_hook(keep)
    w.net[2](h).pow(2).mean().backward()
    return w.found


def numbers_are_kept(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    h.register_hook(lambda g: w.norms.append(g.norm().item()))
    w.net[2](h).sum().backward()
    return a


def on_parameters(w: Any, a: Tensor) -> Any:
    w.net.zero_grad()
    handles = [
        p.register_hook(lambda g: g.clamp(-0.05, 0.05))
        for p in w.net.parameters()
    ]
    w.net(a).pow(2).mean().backward()
    for handle in handles:
        handle.remove()
    return gradients(w)


def after_accumulation(w: Any, a: Tensor) -> Any:
    def step(p: Tensor) -> None:
        with torch.no_grad():
            p.sub_(p.grad, alpha=0.1)
        p.grad = None

    handles = [
        p.register_post_accumulate_grad_hook(step) for p in w.net.parameters()
    ]
    w.net(a).pow(2).mean().backward()
    for handle in handles:
        handle.remove()
    return [p.detach().clone() for p in w.net.parameters()]


def on_a_node(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    h.grad_fn.register_hook(lambda i, _: (i[0] * 2,))
    h.grad_fn.register_prehook(lambda o: (o[0] + 1,))
    w.net[2](h).pow(2).mean().backward()
    return gradients(w)


def by_autograd_grad(w: Any, a: Tensor) -> Any:
    a = a.clone().requires_grad_()
    h = torch.relu(w.net[0](a))
    h.register_hook(lambda g: g * 3)
    return torch.autograd.grad(w.net[2](h).sum(), a)


def removed_before(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    h.register_hook(lambda g: g * 3).remove()
    w.net[2](h).sum().backward()
    return gradients(w)


def written_in_place(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    h.register_hook(lambda g: g.mul_(2))
    h.register_hook(lambda g: g + 1)
    w.net[2](h).sum().backward()
    return gradients(w)


def called_twice(w: Any, a: Tensor) -> Any:
    found: list[Tensor] = []
    h = hidden(w, a)
    h.register_hook(lambda g: found.append(g))
    loss = w.net[2](h).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return gradients(w), found


def by_a_number_that_varies(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    scale = w.scale
    h.register_hook(lambda g: g * scale)
    w.net[2](h).sum().backward()
    w.scale = scale + 0.25
    return gradients(w)


def on_whole_layers(w: Any, a: Tensor) -> Any:
    w.net.zero_grad()
    first = w.net[0].register_full_backward_pre_hook(lambda _, o: (o[0] * 2,))
    second = w.net[2].register_full_backward_hook(
        lambda _m, i, _o: (i[0] * 0.5,)
    )
    w.net(a).pow(2).sum().backward()
    first.remove()
    second.remove()
    return gradients(w)


def none_at_first(w: Any, a: Tensor) -> Any:
    w.net.zero_grad()
    weight = w.net[0].weight
    had = bool(weight._backward_hooks)
    handle = weight.register_hook(lambda g: g * 2)
    w.net(a).sum().backward()
    handle.remove()
    return gradients(w), had


@pytest.mark.parametrize(
    "body",
    [
        scaled,
        reversed_at_a_leaf,
        clipped,
        kept_in_a_list,
        kept_in_an_attribute,
        on_parameters,
        after_accumulation,
        on_a_node,
        by_autograd_grad,
        removed_before,
        written_in_place,
        called_twice,
        none_at_first,
    ],
)
def test_hooks_on_gradients_are_part_of_the_graph(body: Body) -> None:
    assert served(body) >= 3


def test_numbers_that_hooks_use_and_leave() -> None:
    assert served(by_a_number_that_varies, scale=0.5) >= 3
    steps = [*map(call, range(5)), lambda w, _: list(w.norms)]
    assert check(lambda: world(numbers_are_kept, norms=[])(), *steps) >= 3


# Those of others.


def trained(w: Any, a: Tensor) -> Any:
    w.net.zero_grad()
    w.net(a).pow(2).mean().backward()
    return gradients(w)


def test_hooks_that_come_and_go_between_calls() -> None:
    def on_weight(w: Any, program: Any) -> Any:
        w.first = w.net[0].weight.register_hook(lambda g: g * 3)
        return program(x(9))

    def after(w: Any, program: Any) -> Any:
        def double(p: Any) -> None:
            p.grad.mul_(2)

        w.second = w.net[2].weight.register_post_accumulate_grad_hook(double)
        return program(x(9))

    def remove(name: str) -> Step:
        def step(w: Any, program: Any) -> Any:
            getattr(w, name).remove()
            return program(x(10))

        return step

    some = [call(0), call(1), call(2)]
    hits = served(
        trained,
        *some,
        on_weight,
        *some,
        after,
        *some,
        remove("first"),
        *some,
        remove("second"),
        *some,
    )
    assert hits >= 8


def test_hooks_of_modules_that_come_and_go_between_calls() -> None:
    def add(w: Any, program: Any) -> Any:
        w.handle = w.net[1].register_forward_hook(lambda _m, _i, o: o + 1)
        return program(x(9))

    def remove(w: Any, program: Any) -> Any:
        w.handle.remove()
        return program(x(9))

    some = [call(0), call(1)]
    for body in (features, output_changed):
        assert served(body, *some, add, *some, remove, *some) >= 5


def test_own_hooks_join_those_that_are_there() -> None:
    def body(w: Any, a: Tensor) -> Any:
        w.net.zero_grad()
        handle = w.net[0].weight.register_hook(lambda g: g + 1)
        w.net(a).pow(2).mean().backward()
        handle.remove()
        return gradients(w)

    def make() -> Any:
        new = world(body, scale=2.0)()
        new.net[0].weight.register_hook(lambda g: g * new.scale)
        return new

    def change(w: Any, program: Any) -> Any:
        w.scale += 3.0
        return program(x(3))

    some = [call(0), call(1), call(2)]
    assert check(make, *some, change, *some, change, *some) >= 4


def test_layers_with_hooks_of_their_own() -> None:
    def make() -> Any:
        new = world(trained)()
        new.net[0].register_forward_hook(lambda _m, _i, o: o * 2)
        new.net[2].register_full_backward_hook(lambda _m, i, _o: (i[0] * 3,))
        return new

    assert check(make, *map(call, range(6))) >= 4


# What goes wrong.


def test_hooks_that_raise() -> None:
    def look(g: Tensor) -> None:
        if g.abs().max() > 0.35:
            raise ValueError("large")

    def body(w: Any, a: Tensor) -> Any:
        h = w.net[0](a)
        w.net.zero_grad()
        h.register_hook(look)
        w.net[2](torch.relu(h)).sum().backward()
        return gradients(w)

    def step(seed: int) -> Step:
        def run(_: Any, program: Any) -> Any:
            try:
                return program(x(seed))
            except ValueError as error:
                return str(error)

        return run

    served(body, *map(step, range(10)))


def test_a_hook_that_an_exception_leaves_behind() -> None:
    def body(w: Any, a: Tensor) -> Any:
        handle = w.net[1].register_forward_hook(lambda _m, _i, o: o * 2)
        if w.fails:
            raise ValueError("no")
        result = w.net(a).detach()
        handle.remove()
        return result

    def fail(w: Any, program: Any) -> Any:
        w.fails = True
        with pytest.raises(ValueError, match="no"):
            program(x(0))
        w.fails = False
        return program(x(1))

    some = [call(0), call(1), call(2)]
    assert served(body, *some, fail, *some, fail, *some, fails=False) >= 3


def stays(w: Any, a: Tensor) -> Any:
    w.handle = w.net[1].register_forward_hook(lambda _m, _i, o: o * 2)
    return w.net(a).detach()


def removed_by_the_next_call(w: Any, a: Tensor) -> Any:
    if w.handle is not None:
        w.handle.remove()
    return stays(w, a)


def number_is_used(w: Any, a: Tensor) -> Any:
    handle = w.net[1].register_forward_hook(lambda _m, _i, o: o * 2)
    result = w.net(a).detach()
    handle.remove()
    return result, handle.id > 0


def appended_by_code_in_c(w: Any, a: Tensor) -> Any:
    h = hidden(w, a)
    h.register_hook(w.found.append)
    w.net[2](h).sum().backward()
    return len(w.found)


def used_up(w: Any, a: Tensor) -> Any:
    w.net.zero_grad()
    loss = w.net(a).sum()
    loss.register_hook(lambda g: g * 2)
    loss.backward()
    return loss.detach(), gradients(w), loss


@pytest.mark.parametrize(
    "body",
    [
        stays,
        removed_by_the_next_call,
        number_is_used,
        appended_by_code_in_c,
        used_up,
        # In pieces: lists of hooks are made of dicts by their numbers.
        class_activations,
        on_whole_layers,
    ],
)
def test_what_stays_of_hooks_is_as_in_eager(body: Body) -> None:
    def make() -> Any:
        return world(body, handle=None, found=[])()

    check(make, *map(call, range(5)))


def test_hooks_on_results() -> None:
    def body(w: Any, a: Tensor) -> Any:
        h = w.net[0](a)
        h.register_hook(lambda g: w.called.append(1) or g * 2)
        return h

    def step(seed: int) -> Step:
        def run(w: Any, program: Any) -> Any:
            w.net.zero_grad()
            program(x(seed)).sum().backward()
            return gradients(w), len(w.called)

        return run

    def make() -> Any:
        return world(body, called=[])()

    check(make, *map(step, range(5)))

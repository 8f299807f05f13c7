"""Whole training steps as one record: losses, weights, gradients and optimizer
state after each step are eager's, and later steps are hits."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mica

Step = Callable[..., Any]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.b = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.tanh(self.a(x)))


class World:
    """A model with its optimizer, twice alike: for eager and for Mica."""

    def __init__(
        self, make_optimizer: Callable[[Any], Any] | None = None
    ) -> None:
        torch.manual_seed(0)
        self.net = Net()
        self.opt = (make_optimizer or (lambda p: torch.optim.SGD(p, lr=0.1)))(
            list(self.net.parameters())
        )
        self.scale = 1.0
        self.seen: Any = None

    def snapshot(self) -> list[Any]:
        params = list(self.net.parameters())
        state = [self.opt.state.get(p, {}) for p in params]
        return [
            [p.detach().clone() for p in params],
            [None if p.grad is None else p.grad.clone() for p in params],
            [{k: v for k, v in sorted(s.items())} for s in state],
            self.seen,
        ]


def close(a: Any, b: Any, at: str = "") -> None:
    assert type(a) is type(b), (at, a, b)
    if isinstance(a, torch.Tensor):
        assert a.shape == b.shape and a.dtype == b.dtype, at
        assert a.requires_grad == b.requires_grad, at
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6, msg=at)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), at
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            close(x, y, f"{at}[{i}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), at
        for key in a:
            close(a[key], b[key], f"{at}[{key!r}]")
    elif isinstance(a, float):
        assert a == pytest.approx(b, rel=2e-5, abs=2e-6, nan_ok=True), at
    else:
        assert a == b, at


def check(
    make_step: Callable[[World], Step],
    make_optimizer: Callable[[Any], Any] | None = None,
    calls: int = 6,
    hits: int | None = None,
    after: Callable[[World, int], None] | None = None,
    args: Callable[[int], tuple[Any, ...]] | None = None,
) -> Any:
    """Runs a step in two worlds, eagerly and compiled, and compares all."""
    eager, ours = World(make_optimizer), World(make_optimizer)
    step, compiled = make_step(eager), mica.compile(make_step(ours))
    for i in range(calls):
        generator = torch.Generator().manual_seed(i)
        given = (
            args(i)
            if args is not None
            else (
                torch.randn(5, 6, generator=generator),
                torch.randint(0, 3, (5,), generator=generator),
            )
        )
        torch.manual_seed(i)
        want = step(*copy.deepcopy(given))
        torch.manual_seed(i)
        got = compiled(*copy.deepcopy(given))
        close(got, want, f"call {i}")
        close(ours.snapshot(), eager.snapshot(), f"state after call {i}")
        if after is not None:
            after(eager, i)
            after(ours, i)
    report = mica.explain(compiled)
    if hits is not None:
        assert report.hits == hits, str(report)
    return report


def plain(world: World) -> Step:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        world.opt.zero_grad()
        loss = F.cross_entropy(world.net(x), y)
        loss.backward()
        world.opt.step()
        return loss

    return step


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "tensor_rate": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01)),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "foreach sgd": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True
    ),
    "fused sgd": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, fused=True
    ),
    "fused adam": lambda p: torch.optim.Adam(
        p, lr=0.01, weight_decay=0.01, maximize=True, fused=True
    ),
    "fused adamw": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "groups": lambda p: torch.optim.AdamW(
        [{"params": p[:2]}, {"params": p[2:], "lr": 0.003}], lr=0.01
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    check(plain, OPTIMIZERS[name], hits=4)


def test_steps_over_lists() -> None:
    """Adam's numbers are items of lists."""
    check(plain, lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True), hits=4)


def test_parameters_that_are_parts_of_one_storage() -> None:
    def make_optimizer(params: list[nn.Parameter]) -> torch.optim.Optimizer:
        flat = torch.cat([p.detach().flatten() for p in params])
        grads = torch.zeros_like(flat)
        start = 0
        for p in params:
            end = start + p.numel()
            p.data = flat[start:end].view_as(p)
            p.grad = grads[start:end].view_as(p)
            start = end
        return torch.optim.AdamW(params, lr=0.01)

    def make_step(world: World) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            world.opt.zero_grad(set_to_none=False)
            loss = F.cross_entropy(world.net(x), y)
            loss.backward()
            world.opt.step()
            return loss

        return step

    check(make_step, make_optimizer)


@pytest.mark.parametrize("name", ["momentum", "adamw", "fused adamw"])
def test_arguments_that_are_the_weights(name: str) -> None:
    """The batch is a weight that the step updates."""
    labels = torch.arange(8) % 3

    def run(compiles: bool) -> list[Any]:
        world = World(OPTIMIZERS[name])
        step = plain(world)
        if compiles:
            step = mica.compile(step)
        seen = []
        for _ in range(5):
            batch = world.net.a.weight.data
            seen.append((step(batch, labels).item(), batch.clone()))
        # Overlaps it without being it.
        for _ in range(5):
            batch = world.net.a.weight.data[1:6]
            seen.append((step(batch, labels[:5]).item(), batch.clone()))
        return [seen, world.snapshot()]

    close(run(compiles=True), run(compiles=False))


@pytest.mark.parametrize("name", ["momentum", "adamw", "groups"])
def test_a_schedule_makes_no_new_records(name: str) -> None:
    schedulers: dict[int, Any] = {}

    def after(world: World, i: int) -> None:
        if i == 0:
            schedulers[id(world)] = torch.optim.lr_scheduler.CosineAnnealingLR(
                world.opt, 50
            )
        schedulers[id(world)].step()

    # The scheduler wraps step(): one more record than without.
    report = check(plain, OPTIMIZERS[name], calls=12, after=after)
    assert report.hits >= 8, str(report)
    assert report.captures <= 4, str(report)


def test_results_of_many_kinds() -> None:
    def make(world: World) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            world.opt.zero_grad()
            out = world.net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            world.opt.step()
            lr = world.opt.param_groups[0]["lr"]
            return {
                "loss": loss.item(),
                "pair": (lr, loss.item(), loss.detach()),
                "out": out,
                "text": "done",
                "right": (out.argmax(1) == y).sum(),
            }

        return step

    def after(world: World, i: int) -> None:
        world.opt.param_groups[0]["lr"] *= 0.9

    check(make, calls=6, hits=4, after=after)


def test_a_released_loss_raises_what_eager_raises() -> None:
    world = World()
    step = mica.compile(plain(world))
    for _ in range(3):
        loss = step(torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1]))
        with pytest.raises(
            RuntimeError, match="backward through the graph a second"
        ):
            loss.backward()
    assert mica.explain(step).hits >= 1


def test_gradients_accumulate_over_calls() -> None:
    def make(world: World) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = F.cross_entropy(world.net(x), y)
            loss.backward()
            return loss.detach()

        return step

    check(make, hits=4)


@pytest.mark.parametrize("to_none", [True, False])
def test_zero_grad_afterwards(to_none: bool) -> None:
    def make(world: World) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = F.cross_entropy(world.net(x), y)
            loss.backward()
            world.opt.step()
            world.opt.zero_grad(set_to_none=to_none)
            return loss.detach()

        return step

    check(make, hits=5 if to_none else 4)


def test_gradients_seen_and_changed_by_the_user() -> None:
    def make(world: World) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            world.opt.zero_grad()
            F.cross_entropy(world.net(x), y).backward()
            norm = nn.utils.clip_grad_norm_(world.net.parameters(), 0.05)
            world.net.a.weight.grad.mul_(2)
            world.net.b.bias.grad = torch.ones(3)
            world.opt.step()
            return norm, world.net.a.bias.grad

        return step

    check(make, hits=4)


def test_a_hit_needs_gradients_as_recorded() -> None:
    def after(world: World, i: int) -> None:
        if i == 2:
            for p in world.net.parameters():
                p.grad = None
        if i == 4:
            world.net.a.weight.requires_grad_(False)

    check(plain, calls=9, after=after)


def test_hooks_on_gradients() -> None:
    handles: list[Any] = []

    def triple(p: torch.Tensor) -> None:
        p.grad.mul_(3)

    def after(world: World, i: int) -> None:
        if i == 3:
            handles.append(world.net.a.weight.register_hook(lambda g: g * 2))
        if i == 5:
            handles.pop().remove()
        if i == 6:
            handles.append(
                world.net.b.bias.register_post_accumulate_grad_hook(triple)
            )

    check(plain, calls=10, after=after)


def test_leaves_that_become_results() -> None:
    def step(x: torch.Tensor) -> None:
        (x * x).sum().backward()

    compiled = mica.compile(step)
    for i in range(5):
        w = torch.ones(3, requires_grad=True)
        compiled(w if i < 3 else w * 2)
        if i < 3:
            close(w.grad, torch.full((3,), 2.0))
        else:
            close(w.grad, torch.full((3,), 8.0))


def test_frozen_layers_and_several_losses() -> None:
    def make(world: World) -> Step:
        for p in world.net.a.parameters():
            p.requires_grad_(False)

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            world.opt.zero_grad()
            out = world.net(x)
            one, two = F.cross_entropy(out, y), out.square().mean()
            one.backward(retain_graph=True)
            two.backward()
            world.opt.step()
            return one.detach() + two.detach()

        return step

    check(make, hits=4)


def test_autograd_grad() -> None:
    def make(world: World) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            loss = F.cross_entropy(world.net(x), y)
            grads = torch.autograd.grad(loss, list(world.net.parameters()))
            with torch.no_grad():
                for p, g in zip(world.net.parameters(), grads, strict=True):
                    p -= 0.1 * g
            return grads

        return step

    check(make, hits=5)


def test_double_backward_is_part_of_the_graph() -> None:
    def make(world: World) -> Step:
        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            world.opt.zero_grad()
            loss = F.cross_entropy(world.net(x), y)
            (g,) = torch.autograd.grad(
                loss, [world.net.a.weight], create_graph=True
            )
            (loss + g.square().sum()).backward()
            world.opt.step()
            return loss.item()

        return step

    check(make, hits=4)


def test_a_loss_that_is_no_scalar_raises() -> None:
    world = World()

    def step(x: torch.Tensor) -> None:
        world.net(x).backward()

    compiled = mica.compile(step)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="scalar outputs"):
            compiled(torch.randn(5, 6))


def test_arguments_that_come_with_a_graph() -> None:
    def make(world: World) -> Step:
        def step(h: torch.Tensor) -> None:
            world.net.b(h).sum().backward()

        return step

    world, twin = World(), World()
    compiled, eager = mica.compile(make(world)), make(twin)
    for i in range(3):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(i))
        compiled(world.net.a(x))
        eager(twin.net.a(x))
        close(world.snapshot(), twin.snapshot())


def test_gradients_of_arguments() -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        (x * w).square().sum().backward()
        return w * 1.0 if not w.requires_grad else w.detach() + 1

    compiled = mica.compile(step)
    for i in range(4):
        a = torch.full((3,), float(i + 1))
        w, v = (
            torch.ones(3, requires_grad=True),
            torch.ones(3, requires_grad=True),
        )
        close(compiled(a, w), step(a, v))
        close(w.grad, v.grad)


# Promoted scalars. Each of these may use a number in a way that a Program
# can't follow; a hit that ignored it would be wrong.


def follow(
    use: Callable[[World, torch.Tensor, float], Any], **kwargs: Any
) -> Any:
    def make(world: World) -> Step:
        def step(x: torch.Tensor) -> Any:
            return use(world, x, world.scale)

        return step

    def after(world: World, i: int) -> None:
        world.scale *= 0.7

    def args(i: int) -> tuple[Any, ...]:
        return (torch.randn(3, 4, generator=torch.Generator().manual_seed(i)),)

    return check(make, calls=8, after=after, args=args, **kwargs)


NUMBER_USES: dict[str, Callable[[World, torch.Tensor, float], Any]] = {
    "product": lambda w, x, s: x * s,
    "reflected": lambda w, x, s: (1 - s) - x / s + s**x,
    "arithmetic": lambda w, x, s: x * (1 - s**2) / math.sqrt(s + 1) - -s,
    "keyword": lambda w, x, s: torch.add(x, x, alpha=s),
    "equal to a constant": lambda w, x, s: torch.clamp(x, min=s - 1.0, max=1.0),
    "twice": lambda w, x, s: torch.clamp(x, s, s),
    "two of one value": lambda w, x, s: torch.clamp(x, s * 1.0, s * 1.0),
    "slope": lambda w, x, s: F.leaky_relu(x, s),
    "derived in C++": lambda w, x, s: F.threshold(F.elu(x, s), s, 0.5),
    "dropout": lambda w, x, s: F.dropout(x, s / 2, True),
    "branch": lambda w, x, s: x + 1 if s > 0.3 else x - 1,
    "truth": lambda w, x, s: x if s else -x,
    "int": lambda w, x, s: x * int(s * 10),
    "round": lambda w, x, s: x * round(s, 1),
    "text": lambda w, x, s: {f"{s:.2f}": x + 1},
    "key": lambda w, x, s: {s: x + 1},
    "set": lambda w, x, s: [{s, 1}, x + 1],
    "tuple": lambda w, x, s: ((s, (s, 2)), x + 1),
    "minimum": lambda w, x, s: x * min(s, 0.2),
    "list": lambda w, x, s: sum([x * v for v in [s, s + 1]]),
    "tensor": lambda w, x, s: x + torch.tensor([s, s, s, s]),
    "full": lambda w, x, s: x + torch.full((3, 4), s),
    "fill": lambda w, x, s: torch.zeros(3, 4).fill_(s) + x,
    "item": lambda w, x, s: x * x.sum().item() * s,
    "item alone": lambda w, x, s: x.sum().item() + s,
    "integer item": lambda w, x, s: x + (x > s).sum().item(),
    "slice": lambda w, x, s: x[: int(s * 4)],
    "attribute": lambda w, x, s: x * s.real,
    "hex": lambda w, x, s: x * float.fromhex(s.hex()),
    "divided by zero": lambda w, x, s: x * (1 / (s * 0 + 2)),
    "tracked": lambda w, x, s: grad_of(lambda v: (v * s).sum(), x),
    "tracked scalar": lambda w, x, s: grad_of(
        lambda v: (v**s).sum(), x.abs() + 1
    ),
    "tracked alpha": lambda w, x, s: grad_of(
        lambda v: torch.add(x, v, alpha=s), x
    ),
    "tracked slope": lambda w, x, s: grad_of(lambda v: F.leaky_relu(v, s), x),
}


def grad_of(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Any:
    v = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(f(v).sum(), [v])
    return g


@pytest.mark.parametrize("name", NUMBER_USES)
def test_numbers_that_vary(name: str) -> None:
    followed = {"product", "arithmetic", "keyword", "item", "tuple", "tracked"}
    report = follow(NUMBER_USES[name])
    if name in followed:
        assert report.hits >= 6, str(report)


def test_a_number_stored_where_it_was_already() -> None:
    def use(world: World, x: torch.Tensor, s: float) -> torch.Tensor:
        world.seen = s
        return x * s

    def after(world: World, i: int) -> None:
        # At one recording the stored number is the one that was there.
        world.scale = 0.5 if i in (1, 2) else world.scale * 0.9

    def make(world: World) -> Step:
        world.seen = 0.5
        return lambda x: use(world, x, world.scale)

    check(make, calls=8, after=after, args=lambda i: (torch.ones(2) * i,))


def test_float_arguments() -> None:
    def make(world: World) -> Step:
        return lambda x, k, lr: (x * k - lr, k / lr)

    report = check(
        make,
        calls=8,
        args=lambda i: (torch.ones(3) * i, 0.5 + i, 0.1 / (i + 1)),
    )
    assert report.hits >= 4, str(report)


def test_a_tensor_for_a_number() -> None:
    """Torch reads it when an operator wants a number: once more each call."""

    def step(
        x: torch.Tensor, y: torch.Tensor, rate: torch.Tensor, n: torch.Tensor
    ) -> torch.Tensor:
        with torch.no_grad():
            z = torch.add(x, y, alpha=rate)
            if rate > 2:
                z = z * 2
            return z.addcmul(x, y, value=-rate).add(n.item())

    compiled = mica.compile(step)
    for i in range(9):
        x, y = torch.arange(3.0), torch.full((3,), 0.5 + i)
        rate, n = torch.tensor(0.25 * (1 + i)), torch.tensor(float(i))
        want = step(x, y, rate, n)
        close(compiled(x, y, rate, n), want, f"call {i}")
    report = mica.explain(compiled)
    assert report.captures <= 3, str(report)


def test_one_number_in_two_places() -> None:
    def make(world: World) -> Step:
        world.other = world.scale
        return lambda x: x * world.scale + world.other

    def after(world: World, i: int) -> None:
        world.scale += 0.25
        if i % 2:
            world.other = world.scale
        else:
            world.other += 1.0

    check(make, calls=10, after=after, args=lambda i: (torch.ones(2) * i,))


def modules_step(world: World, net: nn.Module) -> Step:
    world.net = net  # type: ignore[assignment]
    # Not Adam, which makes much of gradients that are zero but for rounding.
    world.opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    return plain(world)


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer = kind(6, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(x[None])[0][0])


class Indexed(nn.Module):
    """Rows that are picked, and sums over edges."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 3)
        self.b = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        source = torch.tensor([0, 1, 2, 3, 4, 0, 2])
        target = torch.tensor([1, 2, 3, 4, 0, 3, 3])
        rows = self.a(x)[source]
        both = torch.stack([rows, self.b(x)[source]], 1)
        picked = both[torch.arange(7), (x[source, 0] > 0).long()]
        return torch.zeros(5, 3).index_add(0, target, picked)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN),
    "indexed": Indexed,
    "weight_norm": lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)),
        nn.ReLU(),
        nn.Linear(8, 3),
    ),
    "spectral_norm": lambda: nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8)),
        nn.ReLU(),
        nn.Linear(8, 3),
    ),
    "batch_norm": lambda: nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    def make(world: World) -> Step:
        torch.manual_seed(1)
        return modules_step(world, MODULES[name]())

    check(make, hits=4)


def test_old_gradients_that_somebody_holds_stay() -> None:
    """A new gradient may take an old one's memory only where nobody sees it."""
    held: dict[int, list[Any]] = {}

    def after(world: World, i: int) -> None:
        kept = held.setdefault(id(world), [])
        grads = [p.grad for p in world.net.parameters()]
        if i == 3:
            kept.append(grads[0])
        if i == 4:
            kept.append(grads[1].view(-1))
        if i == 5:
            kept.append(grads[2].detach())
        if i == 6:
            kept.append(grads[3].numpy())
        if i == 7:
            kept.append(grads[0].untyped_storage())
        world.seen = [
            k if isinstance(k, torch.Tensor) else torch.tensor(k[:4])
            for k in kept
        ]

    check(plain, calls=11, hits=9, after=after)


def test_gradients_keep_their_memory() -> None:
    world = World()
    compiled = mica.compile(plain(world))
    x, y = torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1])
    for _ in range(3):
        compiled(x, y)
    places = {p.grad.data_ptr() for p in world.net.parameters()}
    for _ in range(3):
        compiled(x, y)
        assert {p.grad.data_ptr() for p in world.net.parameters()} == places


def test_a_failed_run_leaves_what_eager_leaves() -> None:
    eager, ours = World(), World()
    step, compiled = plain(eager), mica.compile(plain(ours))
    x = torch.randn(5, 6)
    for labels in ([0, 1, 2, 0, 1], [0, 1, 2, 0, 1], [0, 1, 2, 0, 7]):
        for run in (step, compiled):
            try:
                run(x, torch.tensor(labels))
            except IndexError:
                assert labels[-1] == 7
        close(ours.snapshot(), eager.snapshot())


def test_a_function_that_torch_sets_up_at_its_first_call_is_refused_once():
    code = """
import torch, torch._dynamo, mica
model = torch.nn.Linear(3, 2)
weights = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x):
    weights.zero_grad()
    loss = model(x).sum()
    loss.backward()
    weights.step()
    return loss
step = mica.compile(step, fullgraph=True)
for _ in range(5):
    step(torch.ones(4, 3))
explanation = mica.explain(step)
assert explanation.hits >= 2, str(explanation)
assert all("first call" in r.text for r in explanation.refusals)
"""
    subprocess.run([sys.executable, "-c", code], check=True)

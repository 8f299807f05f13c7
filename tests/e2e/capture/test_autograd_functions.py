"""Functions of torch.autograd.Function's kind that are written in Python."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import call_and_tell, report, same, x
from torch import nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import mica

FACTOR = 2.0
TABLE = {"factor": 2.0}
SEEN: list[float] = []


@pytest.fixture(autouse=True)
def _grad(_no_grad: None) -> Iterator[None]:
    with torch.enable_grad():
        yield


class Square(torch.autograd.Function):
    """x * x * w, whose gradients are made of what is saved."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, w)
        return a * a * w

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        a, w = ctx.saved_tensors
        return g * 2 * a * w, (g * a * a).sum(0)


class Masked(torch.autograd.Function):
    """relu, whose gradient is written in place."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a)
        return a.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (a,) = ctx.saved_tensors
        made = g.clone()
        made[a < 0] = 0
        return made


class Once(torch.autograd.Function):
    """A product with an attribute of ctx's and needs_input_grad."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, w)
        ctx.scale = 2.0
        return a @ w

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        a, w = ctx.saved_tensors
        first = g @ w.t() if ctx.needs_input_grad[0] else None
        return first, a.t() @ g * ctx.scale


class Dirty(torch.autograd.Function):
    """Writes its argument."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        a.mul_(3)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 3


class SetUp(torch.autograd.Function):
    """With setup_context, a result that is saved and an argument of ints."""

    @staticmethod
    def forward(a: torch.Tensor, w: torch.Tensor, n: int) -> torch.Tensor:
        return torch.exp(a * w) * n

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        a, w, n = inputs
        ctx.save_for_backward(a, w, output)
        ctx.n = n

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        a, w, y = ctx.saved_tensors
        return g * y * w, (g * y * a).sum(0) * (ctx.n / 3), None


class Pair(torch.autograd.Function):
    """Two results and one that has no gradient."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, w: torch.Tensor) -> Any:
        mask = a > 0
        ctx.save_for_backward(mask, w)
        ctx.mark_non_differentiable(mask)
        return a * w, a + w, mask

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor, _: Any) -> Any:
        mask, w = ctx.saved_tensors
        return g * w + h, (g * mask + h).sum(0)


class Rebuilt(torch.autograd.Function):
    """Computes anew in the backward pass, by autograd.grad."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a)
        return a.tanh().sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (a,) = ctx.saved_tensors
        with torch.enable_grad():
            b = a.detach().requires_grad_()
            y = b.tanh().sin()
        return torch.autograd.grad(y, b, g)[0]


class Noisy(torch.autograd.Function):
    """Draws in the backward pass."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * torch.rand(g.shape)


def square(a: torch.Tensor, w: torch.Tensor) -> Any:
    return Square.apply(a, w)


def masked(a: torch.Tensor, w: torch.Tensor) -> Any:
    return Masked.apply(a * w) * w


def once(a: torch.Tensor, w: torch.Tensor) -> Any:
    return Once.apply(a, torch.diag(w))


def dirty(a: torch.Tensor, w: torch.Tensor) -> Any:
    return Dirty.apply(a * w)


def set_up(a: torch.Tensor, w: torch.Tensor) -> Any:
    return SetUp.apply(a, w, 3)


def rebuilt(a: torch.Tensor, w: torch.Tensor) -> Any:
    return Rebuilt.apply(a * w)


def noisy(a: torch.Tensor, w: torch.Tensor) -> Any:
    return Noisy.apply(a * w)


def chain(a: torch.Tensor, w: torch.Tensor) -> Any:
    return Square.apply(Masked.apply(Square.apply(a, w)), w).sin()


PROGRAMS: list[Any] = [
    square,
    masked,
    once,
    dirty,
    pytest.param(
        set_up, marks=pytest.mark.once("torch keeps a reference to None")
    ),
    rebuilt,
    noisy,
    chain,
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_function_on_the_way_to_a_result_is_served(
    program: Callable[..., Any], exact: bool
) -> None:
    def run(call: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(3)
        w = nn.Parameter(x(7, 4))
        outcomes = []
        for seed in range(5):
            w.grad = None
            a = x(seed, 3, 4).requires_grad_(seed % 2 == 0)
            y = call(a, w)
            (y * y).sum().backward()
            outcomes += [y.detach(), w.grad, a.grad, torch.get_rng_state()]
        return outcomes

    compiled = mica.compile(program, exact=exact)
    same(run(compiled), run(program))
    assert report(compiled).hits == 3, str(report(compiled))


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_of_several_results_those_are_gone_back_from_that_are(
    used: tuple[int, ...],
) -> None:
    def program(a: torch.Tensor, w: torch.Tensor) -> Any:
        return Pair.apply(a, w)

    def run(call: Callable[..., Any]) -> list[Any]:
        w = nn.Parameter(x(7, 4))
        outcomes = []
        for seed in range(4):
            w.grad = None
            results = call(x(seed, 3, 4), w)
            sum((results[i] ** 2).sum() for i in used).backward()
            outcomes += [r.detach() for r in results] + [w.grad]
        return outcomes

    compiled = mica.compile(program)
    same(run(compiled), run(program))
    assert report(compiled).hits == 3


def test_a_number_that_varies_is_kept_for_the_backward_pass() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, rate: float) -> torch.Tensor:
            ctx.rate = rate
            return a.view_as(a)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return g.neg() * ctx.rate, None

    def program(a: torch.Tensor, rate: float) -> Any:
        return Scaled.apply(a * 2, rate)

    compiled = mica.compile(program)
    for seed in range(8):
        a = x(seed, 4).requires_grad_()
        b = x(seed, 4).requires_grad_()
        compiled(a, 0.1 * seed).sum().backward()
        program(b, 0.1 * seed).sum().backward()
        same(a.grad, b.grad)
    assert report(compiled).hits >= 5, str(report(compiled))


class ByGlobal(torch.autograd.Function):
    """Reads a global in the backward pass."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * FACTOR


class ByItem(torch.autograd.Function):
    """Reads an item in the backward pass."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * TABLE["factor"]


@pytest.mark.parametrize("function", [ByGlobal, ByItem])
def test_state_that_a_backward_pass_reads_is_guarded(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(value: float) -> None:
        monkeypatch.setattr(f"{__name__}.FACTOR", value)
        monkeypatch.setitem(TABLE, "factor", value)

    compiled = mica.compile(lambda a: function.apply(a))
    for value in (2.0, 2.0, 2.0, 5.0, 5.0, 2.0):
        change(value)
        a = x(0, 4).requires_grad_()
        compiled(a).sum().backward()
        same(a.grad, torch.full((4,), value))
    assert report(compiled).hits >= 3


def test_state_that_changes_between_the_passes_raises_once() -> None:
    compiled = mica.compile(lambda a: ByItem.apply(a))

    def go_back(value: float) -> Any:
        TABLE["factor"] = 2.0
        a = x(0, 4).requires_grad_()
        y = compiled(a)
        TABLE["factor"] = value
        try:
            y.sum().backward()
        finally:
            TABLE["factor"] = 2.0
        return a.grad

    for _ in range(3):
        same(go_back(2.0), torch.full((4,), 2.0))
    with pytest.raises(RuntimeError, match="has changed since"):
        go_back(5.0)
    same(go_back(5.0), torch.full((4,), 5.0))


def ctx_written(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    ctx.count = getattr(ctx, "count", 0) + 1
    return g * ctx.count


def printed(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    print("going back")
    return g * 2


def appended(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    SEEN.append(g.sum().item())
    return g * 2


def item_set(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    TABLE["seen"] = TABLE.get("seen", 0) + 1
    return g * 2


def global_set(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    global FACTOR
    try:
        FACTOR = FACTOR + 1.0
    except RuntimeError:
        SEEN.append(-1.0)
    return g * FACTOR


def branched(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    return g * 2 if g.sum() > 0 else g * 3


def absent(ctx: Any, g: Any) -> Any:
    return None if g is None else g * 2


@pytest.mark.parametrize(
    "way",
    [ctx_written, printed, appended, item_set, global_set, branched, absent],
    ids=lambda f: f.__name__,
)
def test_what_no_record_repeats_happens_as_often_as_in_eager(
    way: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    class Effect(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            ctx.set_materialize_grads(False)
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return way(ctx, g)

    def program(a: torch.Tensor) -> Any:
        return Effect.apply(a), a * 3

    def run(call: Callable[..., Any]) -> list[Any]:
        global FACTOR
        FACTOR = 2.0
        TABLE.pop("seen", None)
        SEEN.clear()
        outcomes: list[Any] = []
        for seed in range(4):
            a = x(seed, 4).requires_grad_()
            y, z = call(a)
            sign = -1 if seed % 2 else 1
            (z.sum() if seed == 2 else (sign * y).sum()).backward(
                retain_graph=True
            )
            if seed == 3:
                y.sum().backward()
            outcomes += [a.grad, FACTOR, dict(TABLE), list(SEEN)]
        FACTOR = 2.0
        return [*outcomes, capsys.readouterr().out]

    compiled = mica.compile(program)
    same(run(compiled), run(program))


def test_a_write_to_what_was_saved_raises_as_in_eager() -> None:
    compiled = mica.compile(lambda a, w: Square.apply(a, w))
    for _ in range(3):
        a = x(0, 3, 4).requires_grad_()
        w = x(1, 4)
        y = compiled(a, w)
        w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            y.sum().backward()


def test_a_function_without_saved_tensors_may_be_gone_back_from_again() -> None:
    compiled = mica.compile(lambda a: Noisy.apply(a))
    for _ in range(3):
        a = x(0, 4).requires_grad_()
        y = compiled(a)
        y.sum().backward()
        y.sum().backward()


def test_gradients_of_gradients_are_eagers() -> None:
    def program(a: torch.Tensor) -> Any:
        return Square.apply(a, torch.ones(4))

    compiled = mica.compile(program)
    with torch.no_grad():
        compiled(x(0, 3, 4))
    for seed in range(3):
        a = x(seed, 3, 4).requires_grad_()
        (g,) = torch.autograd.grad(compiled(a).sum(), a, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), a)
        same(h, torch.full((3, 4), 2.0))
    mica.reset()


def penalty(a: torch.Tensor, net: nn.Module) -> torch.Tensor:
    a = a.detach().requires_grad_()
    (g,) = torch.autograd.grad(net(a).sum(), a, create_graph=True)
    return ((g.norm(2, 1) - 1) ** 2).mean()


def test_a_penalty_on_gradients_is_one_graph() -> None:
    def made() -> types.SimpleNamespace:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        rate = torch.optim.Adam(net.parameters(), lr=1e-2)
        return types.SimpleNamespace(net=net, optimizer=rate)

    def step(world: types.SimpleNamespace, a: torch.Tensor) -> torch.Tensor:
        world.optimizer.zero_grad()
        loss = world.net(a).mean() + 10 * penalty(a, world.net)
        loss.backward()
        world.optimizer.step()
        return loss.detach()

    compiled = mica.compile(step)
    mine, plain = made(), made()
    how = ""
    for seed in range(7):
        got, letter = call_and_tell(compiled, mine, x(seed, 3, 4))
        how += letter
        same(got, step(plain, x(seed, 3, 4)))
        same(mine.net.state_dict(), plain.net.state_dict())
    assert how.endswith("hhhh"), how


def test_a_penalty_is_a_result_that_requires_grad() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    compiled = mica.compile(penalty)
    for seed in range(4):
        grads = []
        for call in (compiled, penalty):
            net.zero_grad()
            call(x(seed, 3, 4), net).backward()
            grads.append([p.grad for p in net.parameters()])
        same(*grads)


def test_gradients_by_way_of_a_graph_from_outside_are_eagers() -> None:
    def program(y: torch.Tensor, a: torch.Tensor) -> Any:
        (g,) = torch.autograd.grad((y * y).sum(), a, create_graph=True)
        return g * 2

    compiled = mica.compile(program)
    for seed in range(4):
        a = x(seed, 4).requires_grad_()
        got = compiled(a.sin(), a)
        same(got, program(a.sin(), a))
        same(
            torch.autograd.grad(got.sum(), a),
            torch.autograd.grad(program(a.sin(), a).sum(), a),
        )
    mica.reset()


def test_a_leaf_that_nobody_else_sees_is_no_hindrance() -> None:
    w = nn.Parameter(x(7, 4))

    def program(a: torch.Tensor) -> torch.Tensor:
        shift = torch.zeros(4, requires_grad=True)
        scale = torch.ones(4).detach().requires_grad_()
        return ((a * w + shift) * scale).square().sum()

    compiled = mica.compile(program)
    for seed in range(4):
        found = []
        for call in (compiled, program):
            w.grad = None
            call(x(seed, 3, 4)).backward()
            found.append(w.grad)
        same(*found)
    assert report(compiled).hits == 3


def test_a_leaf_that_is_returned_gets_its_gradient() -> None:
    def program(a: torch.Tensor) -> Any:
        leaf = (a * 2).detach().requires_grad_()
        return (leaf * leaf).sum(), leaf

    compiled = mica.compile(program)
    for seed in range(4):
        found = []
        for call in (compiled, program):
            loss, leaf = call(x(seed, 4))
            loss.backward()
            found.append([leaf.grad, leaf.is_leaf])
        same(*found)


def test_a_leafs_look_is_guarded() -> None:
    def program(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = a * w
        inside = y.grad_fn is not None and not y.is_leaf
        return y * 2 if inside and w.is_leaf and w.grad_fn is None else y * 3

    compiled = mica.compile(program)
    leaf = nn.Parameter(x(7, 4))
    for seed in range(4):
        for w in (leaf, leaf * 1, leaf):
            same(compiled(x(seed, 4), w), program(x(seed, 4), w))


@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_a_pass_that_hooks_on_saved_tensors_see_is_eagers(
    probability: float,
) -> None:
    def run(compiles: bool) -> list[Any]:
        torch.manual_seed(0)
        first = nn.Sequential(nn.Linear(4, 8), nn.Dropout(probability))
        last = nn.Linear(8, 2)

        def program(a: torch.Tensor) -> torch.Tensor:
            hidden = checkpoint(first, a * 2, use_reentrant=False)
            return last(hidden).square().mean()

        call = mica.compile(program) if compiles else program
        outcomes = []
        for seed in range(6):
            first.zero_grad()
            loss = call(x(seed, 3, 4))
            loss.backward()
            outcomes += [loss.detach(), first[0].weight.grad]
            outcomes.append(torch.get_rng_state())
        return outcomes

    same(run(True), run(False))


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize(
    ("keeps_casts", "dtype"),
    [(False, torch.bfloat16), (True, torch.bfloat16), (True, torch.float16)],
)
def test_who_goes_back_outside_of_autocast_is_served(
    is_inside: bool, keeps_casts: bool, dtype: torch.dtype
) -> None:
    layer = nn.Linear(4, 4)
    compiled = mica.compile(lambda a, w: Square.apply(layer(a), w), exact=True)

    def gradients(function: Callable[..., torch.Tensor]) -> list[Any]:
        layer.zero_grad()
        a, w = x(0, 3, 4).requires_grad_(), x(1, 4).requires_grad_()
        with torch.autocast("cpu", dtype=dtype, cache_enabled=keeps_casts):
            result = function(a, w)
            if is_inside:
                result.float().sum().backward()
        if not is_inside:
            result.float().sum().backward()
        assert not torch.is_autocast_enabled("cpu")
        return [result, a.grad, w.grad, layer.weight.grad, layer.bias.grad]

    def eager(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return Square.apply(layer(a), w)

    raised = 0
    for _ in range(5):
        wanted = gradients(eager)
        try:
            same(gradients(compiled), wanted)
        except RuntimeError as error:
            assert "autocast" in str(error)
            raised += 1
    # A pass inside of a block is told once, and eager from then on.
    assert raised == (1 if is_inside else 0)
    assert is_inside or report(compiled).hits >= 3
